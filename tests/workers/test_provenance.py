"""What a host says of its code and data is what its attempts record, and it changes where a result might."""

from __future__ import annotations

import ast
import os
import shutil
from pathlib import Path

import pytest

from lab import hosts
from lab.card import Card, DataSet
from lab.plan import Plan
from lab.reuse import provenances
from lab.run import RunResult, RunSpec, RunState
from lab.settings import Settings
from tests.workers.under_test import Lab
from workers import datasets, provenance
from workers.host import describe
from workers.job import Post, run_attempt, take_post
from workers.provenance import SOURCES, code, stated
from workers.rundir import RunDir

CARD = Card(uuid="SIM-lab-a-0", index=0, name="Simulated card", host="lab-a", simulated=True)
SPEC = RunSpec(run_id="exp-1/1", template="vision", model="resnet18", dataset="pets", device="cpu")


def images(root: Path) -> Path:
    for name in ("train/cat/1.jpg", "train/cat/2.jpg", "train/dog/2.jpg", "val/cat/3.jpg", "val/dog/4.jpg"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode())
        os.utime((root / name).parent, (1_000_000_000, 1_000_000_000))  # a clock tick is longer than the test
    return root


def listed(settings: Settings, name: str) -> DataSet:
    return next(d for d in datasets.available(settings.datasets, settings.datasets_root) if d.name == name)


@pytest.fixture
def with_pets(settings: Settings, tmp_path: Path) -> Settings:
    """Settings of a host that has a folder of images."""
    return settings.model_copy(update={"datasets": {"pets": images(tmp_path / "pets")}})


# -- code --------------------------------------------------------------------------------------------------------


def test_everything_of_ours_that_a_trainer_imports_is_in_the_hash() -> None:
    """A file that is left out could change results under the same fingerprint."""
    root = provenance.HERE.parent
    files = [f for source in SOURCES for f in (source.rglob("*.py") if source.is_dir() else [source])]
    hashed = {".".join(f.relative_to(root).with_suffix("").parts).removesuffix(".__init__") for f in files}
    imported = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("workers"):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
                imported |= {name if name in hashed else str(node.module) for name in names}
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names if alias.name.startswith("workers")}

    assert imported - {"workers"} <= hashed


def test_a_change_of_a_trainer_or_of_a_library_changes_the_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that was never committed: a lab that mends a trainer at night does not commit first."""
    copies = [tmp_path / source.name for source in SOURCES]
    for source, copy in zip(SOURCES, copies, strict=True):
        (shutil.copytree if source.is_dir() else shutil.copy)(source, copy)
    assert code(copies) == code()

    with (tmp_path / "templates" / "course.py").open("a") as file:
        file.write("# one more line\n")
    assert code(copies) != code()

    before = code()
    monkeypatch.setattr(provenance, "version", lambda name: "0.0")
    assert code() != before


# -- data --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["added", "gone", "replaced", "relabelled"])
def test_a_change_of_the_images_changes_their_fingerprint(with_pets: Settings, tmp_path: Path, change: str) -> None:
    """The name stays when somebody mends the labels of a set; old results are of the old labels."""
    before, root = listed(with_pets, "pets").fingerprint, tmp_path / "pets"
    (root / "train" / "cat" / "1.jpg").read_bytes()
    assert listed(with_pets, "pets").fingerprint == before

    match change:
        case "added":
            (root / "val" / "cat" / "5.jpg").write_bytes(b"new")
        case "gone":
            (root / "train" / "cat" / "2.jpg").unlink()
        case "replaced":
            (root / "new").write_bytes(b"other")
            (root / "new").replace(root / "train" / "cat" / "1.jpg")
        case "relabelled":
            (root / "train" / "cat" / "2.jpg").rename(root / "train" / "dog" / "5.jpg")

    assert before is not None
    assert listed(with_pets, "pets").fingerprint != before


def test_a_downloaded_set_is_known_by_its_files(settings: Settings, tmp_path: Path) -> None:
    """A file of another size or time is another download."""
    for marker in datasets.TORCHVISION["cifar10"].markers:
        (tmp_path / marker).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / marker).write_bytes(b"x")
    here = settings.model_copy(update={"data_root": tmp_path})
    before = listed(here, "cifar10").fingerprint

    os.utime(tmp_path / datasets.TORCHVISION["cifar10"].markers[0], (1, 1))

    assert before is not None
    assert listed(here, "cifar10").fingerprint != before
    assert datasets.fingerprint("CIFAR10", here.datasets, tmp_path) == listed(here, "cifar10").fingerprint
    assert listed(here, "digits").fingerprint is None


# -- both --------------------------------------------------------------------------------------------------------


def test_an_attempt_records_what_its_host_publishes(with_pets: Settings, lab: Lab) -> None:
    """The two are computed in two processes; were they not alike, nothing would ever be reused."""
    host = describe(with_pets, [], None)

    told = stated(SPEC, None, with_pets).provenance

    assert told is not None
    assert told.data is not None
    assert provenances([host], hosts.cards(lab.client), "pets") == {told}
    digits = stated(SPEC.model_copy(update={"dataset": "digits"}), None, with_pets).provenance
    assert provenances([host], hosts.cards(lab.client), "digits") == {digits}


def test_a_run_over_two_versions_has_no_provenance(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of its epochs are of code that is gone; and of a third attempt nobody knows the first."""
    first = stated(SPEC, None, settings)
    assert stated(SPEC, first, settings) == first

    monkeypatch.setattr(provenance, "code", lambda: "other")
    second = stated(SPEC, first, settings)

    assert second.provenance is None
    assert stated(SPEC, second, settings).provenance is None
    assert stated(SPEC, None, settings).provenance is not None, "one that starts anew is of the new version alone"


def test_a_finished_run_is_reused_by_the_next_plan(lab: Lab, settings: Settings) -> None:
    """From the trainer's own result to the next approval, with a real attempt between them."""
    hosts.publish_host(lab.client, describe(settings, [CARD.uuid], None))
    take_post(Post(settings, "lab-a.0.test", CARD, threads=1))
    plan = Plan(template="probe", models=("probe",), axes={"seed": (0,), "steps": (3,), "step_s": (0.01,)})
    first = lab.approve_plan(plan)
    run_id = f"{first.id}/1"
    run = lab.ledger.bind(run_id, (CARD.uuid,), "lab-a", 0)
    run_attempt(run.id, run.dispatches, [CARD.uuid])
    done = lab.ledger.run(run_id)
    assert done.state is RunState.FINISHED, done.message

    more = plan.model_copy(update={"axes": plan.axes | {"seed": (0, 1)}})
    again = lab.ledger.runs(lab.approve_plan(more).id)

    assert [run.reused_from for run in again] == [run_id, None]
    assert again[0].result is not None
    assert done.result is not None
    assert again[0].result.curves == done.result.curves
    spec = RunDir(settings.runs_dir, run).spec()
    assert spec is not None
    assert done.result.provenance == spec.provenance


def test_a_result_without_provenance_can_still_be_read() -> None:
    """Trainers of the last version left such results; they are kept, and reused for nothing."""
    assert RunResult.model_validate_json('{"metrics": {"val_acc": 0.9}}').provenance is None
