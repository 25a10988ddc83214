"""Who used how much: sums over ended runs, and what is not known is said."""

from __future__ import annotations

import json
import time

import pytest
from rich.console import Console
from typer.testing import CliRunner

from lab import meter
from lab.leases import Leases
from lab.ledger import Ledger
from lab.plan import Plan
from lab.run import Answer, RunResult, Spent, Usage
from lab.settings import Settings
from lab.usage import Used, ended_since
from overnight import app
from terminal.usage import notes, shares, table, total


def ended(ledger: Ledger, user: str, *usages: Usage | None, held_s: float = 0.0) -> str:
    """An experiment of `user` with a finished run for each usage; None for one that was lost, after `held_s`."""
    request = ledger.submit("probe", user, "terminal:1")
    assert request is not None
    plan = Plan(template="probe", models=("probe",), axes={"seed": tuple(range(len(usages)))})
    experiment = ledger.propose(request.id, plan, None, Answer(kind="plan"))
    assert experiment is not None
    ledger.approve(experiment.id, user)
    leases = Leases(ledger.client, 60)
    for number, usage in enumerate(usages, start=1):
        run = ledger.bind(f"{experiment.id}/{number}", ("GPU-1",), "lab-a", 1)
        lease = leases.claim(run.id, run.dispatches, run.cards, "lab-a.1")
        leases.release(lease)
        ledger.start(run.id, lease.fence, 123)
        if usage is None:
            ledger.client.hset(f"on:run:{run.id}", "started_at", json.dumps(time.time() - held_s))
            ledger.fail(run.id, lease.fence, "hardware", "the host died")
        else:
            ledger.finish(run.id, lease.fence, RunResult(usage=usage, curves={"loss": [(1.0, 0.5)]}))
    return experiment.id


def used(ledger: Ledger, days: float = 7) -> list[Used]:
    return list(ended_since(ledger.client, time.time() - days * 86_400))


def test_hours_and_energy_add_up_by_person(ledger: Ledger) -> None:
    """The largest first: that is the line people look for."""
    ended(ledger, "U1", Usage(gpu_s=1800, energy_j=1.8e6))
    ended(ledger, "U2", Usage(gpu_s=3600, energy_j=3.6e6), Usage(gpu_s=3600, energy_j=3.6e6))

    found = shares(used(ledger), "person")

    assert [(s.name, s.runs, s.gpu_hours, s.energy_kwh) for s in found] == [("U2", 2, 2.0, 2.0), ("U1", 1, 0.5, 0.5)]


def test_unknown_energy_is_unknown_and_part_of_it_is_told_as_a_part(ledger: Ledger) -> None:
    """A sum that leaves runs out must not look like the whole."""
    ended(ledger, "U1", Usage(gpu_s=3600))
    ended(ledger, "U2", Usage(gpu_s=3600, energy_j=3.6e6), Usage(gpu_s=3600))
    runs = used(ledger)

    found = {share.name: share for share in shares(runs, "person")}
    assert (found["U1"].energy_kwh, found["U1"].energy_runs) == (None, 0)
    assert (found["U2"].energy_kwh, found["U2"].energy_runs) == (1.0, 1)
    assert "energy is known for 1 of 3 runs" in notes(total(runs), 7)


def test_a_run_that_left_no_result_counts_with_the_time_that_it_held_its_card(ledger: Ledger) -> None:
    """A host that died has used its cards all the same."""
    ended(ledger, "U1", Usage(gpu_s=3600), None, held_s=7200)
    runs = used(ledger)

    assert total(runs).gpu_hours == pytest.approx(3.0, abs=0.01)
    assert total(runs).lost_gpu_hours == pytest.approx(2.0, abs=0.01)
    assert "2.00 GPU-h went to attempts that were lost with their card, worker or host" in " ".join(
        notes(total(runs), 7)
    )


def test_what_never_ran_and_what_ended_before_are_left_out(ledger: Ledger) -> None:
    """Only runs that had a card, and only those of the days asked for."""
    old = ended(ledger, "U1", Usage(gpu_s=3600))
    ledger.client.hset(f"on:run:{old}/1", "finished_at", json.dumps(time.time() - 8 * 86_400))
    request = ledger.submit("probe", "U1", "terminal:1")
    assert request is not None
    experiment = ledger.propose(request.id, Plan(template="probe", models=("probe",)), None, Answer(kind="plan"))
    assert experiment is not None
    ledger.approve(experiment.id, "U1")
    ledger.cancel(experiment.id, "U1")

    assert used(ledger) == []
    assert [one.experiment_id for one in used(ledger, days=30)] == [old]


def test_simulated_hours_are_said_to_be_no_gpu_hours(ledger: Ledger) -> None:
    """A demo must not look like a bill."""
    ended(ledger, "U1", Usage(gpu_s=60, memory_kind="host"))

    assert "1 of 1 runs trained on simulated cards" in " ".join(notes(total(used(ledger)), 7))


def test_a_result_that_cannot_be_read_counts_with_its_time(ledger: Ledger) -> None:
    """One record of another version must not end the command."""
    experiment = ended(ledger, "U1", Usage(gpu_s=3600))
    ledger.client.hset(f"on:run:{experiment}/1", "result", '{"usage": {"gpu_s": "many"}}')

    assert used(ledger)[0].usage.gpu_s < 60


def test_the_table_shows_each_share_and_the_sum(ledger: Ledger) -> None:
    """A name with brackets is a name and no markup."""
    ended(ledger, "[bold]U1", Usage(gpu_s=3600, energy_j=3.6e6), Usage(gpu_s=3600))
    runs = used(ledger)
    console = Console(width=80, record=True, file=None)
    with console.capture() as captured:
        console.print(table(shares(runs, "person"), total(runs), "person"))

    lines = captured.get().splitlines()
    assert lines[0].split() == ["person", "runs", "GPU-h", "energy"]
    assert lines[1].split() == ["[bold]U1", "2", "2.00", "1.00", "kWh", "(1", "of", "2)"]
    assert lines[2].split()[0] == "all"


def test_the_command_prints_one_json_document(
    settings: Settings, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For whoever makes a bill of it."""
    experiment = ended(ledger, "U1", Usage(gpu_s=3600, energy_j=7.2e6))
    assert settings.redis_url is not None
    monkeypatch.setenv("OVERNIGHT_REDIS_URL", settings.redis_url.get_secret_value())

    done = CliRunner().invoke(app, ["usage", "--by", "experiment", "--json", "--days", "1"])

    document = json.loads(done.stdout)
    assert document["shares"] == [
        {
            "schema_version": 1,
            "name": experiment,
            "runs": 1,
            "gpu_hours": 1.0,
            "lost_gpu_hours": 0.0,
            "energy_kwh": 2.0,
            "energy_runs": 1,
            "simulated_runs": 0,
        }
    ]
    assert document["total"]["gpu_hours"] == 1.0
    assert CliRunner().invoke(app, ["usage", "--by", "moon"]).exit_code == 2


def test_the_language_model_is_told_beside_the_runs(
    settings: Settings, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whom it worked for, the most first; also where no run has ended."""
    assert settings.redis_url is not None
    monkeypatch.setenv("OVERNIGHT_REDIS_URL", settings.redis_url.get_secret_value())
    now = time.time()
    meter.count(ledger.client, "U1", Spent(calls=1, tokens_in=900, tokens_out=60), now)
    meter.count(ledger.client, "U2", Spent(calls=2, tokens_in=1900, tokens_out=100, estimated=2000), now)
    meter.count(ledger.client, "U1", Spent(calls=1, tokens_in=9, tokens_out=9), now - 30 * 86_400)

    said = CliRunner().invoke(app, ["usage"]).stdout
    document = json.loads(CliRunner().invoke(app, ["usage", "--json"]).stdout)

    assert "no run has ended" in said
    assert "language model: 3 calls, 2,960 tokens (2,000 of them estimated)\n  U2: 2 calls" in said
    assert document["model"]["total"] == {
        "calls": 3, "tokens_in": 2800, "tokens_out": 160, "estimated": 2000, "money": None,
    }  # fmt: skip
    assert set(document["model"]["people"]) == {"U1", "U2"}
