"""Only new runs are run: what has finished with the same configuration and provenance stands for the run."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab import events, hosts, reuse
from lab.card import DataSet, Host, HostCards
from lab.errors import MoveRefused
from lab.ledger import Ledger
from lab.plan import Plan, Range
from lab.provenance import Provenance
from lab.reuse import Configuration, fingerprint
from lab.run import Answer, Experiment, ExperimentState, Run, RunResult, RunState, Usage
from lab.runs import REPORTS_DUE
from lab.store import Client

CODE = "c0de"
HERE = Provenance(code=CODE, device="cpu")


def up(store: Client, code: str | None = CODE, *datasets: DataSet, name: str = "lab-a", simulated: bool = True) -> None:
    """A host is up with that version of the trainers and those data sets."""
    hosts.publish_host(store, Host(host=name, version="1", code=code, datasets=datasets))
    hosts.publish_cards(store, HostCards(host=name, simulated=simulated))


def plan(seeds: int = 2, **others: Any) -> Plan:
    axes = {"lr": (0.1,), "seed": tuple(range(seeds))} | others.pop("axes", {})
    return Plan(template="probe", models=("probe",), axes=axes, **others)


def approved(ledger: Ledger, plan: Plan) -> Experiment:
    request = ledger.submit("probe", "U1", "terminal:1")
    assert request
    experiment = ledger.propose(request.id, plan, None, Answer(kind="plan"))
    assert experiment
    return ledger.approve(experiment.id, "U1")


def attempt(ledger: Ledger, run_id: str) -> int:
    ledger.bind(run_id, ("card-a",), "lab-a", 0)
    fence = int(ledger.client.hincrby(f"on:run:{run_id}", "fence", 1))
    ledger.start(run_id, fence, 4711)
    return fence


def finish(ledger: Ledger, run_id: str, provenance: Provenance | None = HERE, value: float = 0.9) -> Run:
    usage = Usage(gpu_s=60, energy_j=5.0, peak_memory_bytes=7, samples_per_s=3.0)
    result = RunResult(metrics={"val_acc": value}, usage=usage, provenance=provenance)
    return ledger.finish(run_id, attempt(ledger, run_id), result)


def ran(ledger: Ledger, plan: Plan, provenance: Provenance | None = HERE) -> Experiment:
    """An experiment all of whose runs were run to their end."""
    experiment = approved(ledger, plan)
    for run in ledger.runs(experiment.id):
        finish(ledger, run.id, provenance, value=run.number / 10)
    return ledger.experiment(experiment.id)


def same(ledger: Ledger, plan: Plan) -> dict[int, str]:
    found = ledger.same(plan, hosts.hosts(ledger.client), hosts.cards(ledger.client))
    return {number: run.id for number, run in found.items()}


# -- the fingerprint ---------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b"])
VALUES = st.one_of(st.booleans(), st.integers(0, 2), st.sampled_from([0.0, 0.5, 1.0, 2.0]), st.sampled_from(["", "1"]))
CONFIGURATIONS = st.builds(
    Configuration,
    template=NAMES,
    model=NAMES,
    dataset=st.none() | NAMES,
    params=st.dictionaries(st.sampled_from(["lr", "seed", "precision"]), VALUES),
    epochs=st.none() | st.integers(1, 2),
    max_steps=st.none() | st.integers(1, 2),
    gpus=st.integers(1, 2),
)
PROVENANCES = st.builds(Provenance, code=NAMES, data=st.none() | NAMES, device=st.sampled_from(["cpu", "cuda"]))


def told(configuration: Configuration, provenance: Provenance) -> tuple[object, ...]:
    """All that tells two runs apart; True is no 1 to a template, but 1.0 is."""
    params = {(name, isinstance(value, bool), value) for name, value in configuration.params.items()}
    rest = configuration.model_copy(update={"params": {}})
    return frozenset(params), repr(rest), repr(provenance)


@given(CONFIGURATIONS, CONFIGURATIONS, PROVENANCES, PROVENANCES)
def test_fingerprints_are_equal_where_configuration_and_provenance_are(
    a: Configuration, b: Configuration, here: Provenance, there: Provenance
) -> None:
    """One result for two configurations would be a lie in a report; two fingerprints of one would waste GPU time."""
    assert (fingerprint(a, here) == fingerprint(b, there)) == (told(a, here) == told(b, there))


@given(CONFIGURATIONS, PROVENANCES, st.data())
def test_a_fingerprint_depends_on_no_order_and_outlives_a_store(
    a: Configuration, here: Provenance, data: st.DataObject
) -> None:
    """Records come back from JSON, and parameters in the order in which somebody said them."""
    items = data.draw(st.permutations(list(a.params.items())))
    b = Configuration.model_validate_json(a.model_copy(update={"params": dict(items)}).model_dump_json())

    assert fingerprint(a, here) == fingerprint(b, Provenance.model_validate_json(here.model_dump_json()))


# -- what is there already ---------------------------------------------------------------------------------------


def test_two_more_seeds_run_only_those(ledger: Ledger, store: Client) -> None:
    """The follow-up that everybody makes; the old seeds would give the same once more."""
    up(store)
    first = ran(ledger, plan(seeds=2))

    more = approved(ledger, plan(seeds=4))

    runs = ledger.runs(more.id)
    assert [run.state for run in runs] == [RunState.FINISHED] * 2 + [RunState.QUEUED] * 2
    assert [run.reused_from for run in runs] == [f"{first.id}/1", f"{first.id}/2", None, None]
    assert [run.result and run.result.metrics["val_acc"] for run in runs] == [0.1, 0.2, None, None]
    assert more.reused == (f"{first.id}/1", f"{first.id}/2")
    assert more.state is ExperimentState.APPROVED
    assert [run.id for run in ledger.runs_in(RunState.QUEUED)] == [f"{more.id}/3", f"{more.id}/4"]
    assert ledger.counts(more.id) == {"finished": 2}


def test_a_reused_run_used_nothing_and_never_had_a_card(ledger: Ledger, store: Client) -> None:
    """Accounts, shares and estimates count GPU time where it was used, once."""
    up(store)
    ran(ledger, plan(seeds=1))

    run = ledger.runs(approved(ledger, plan(seeds=1)).id)[0]

    assert run.used.gpu_s == 0
    assert run.used.energy_j is None
    assert (run.started_at, run.card, run.fence) == (None, None, 0)
    assert run.result is not None
    assert run.result.usage.peak_memory_bytes == 7


def test_the_experiment_ends_with_its_last_new_run(ledger: Ledger, store: Client) -> None:
    """Reused runs count among those that have ended, or the experiment would wait for them for ever."""
    up(store)
    ran(ledger, plan(seeds=2))
    more = approved(ledger, plan(seeds=3))

    finish(ledger, f"{more.id}/3")

    assert ledger.experiment(more.id).state is ExperimentState.FINISHED
    assert ledger.counts(more.id) == {"finished": 3}
    assert store.sismember(REPORTS_DUE, more.id)


def test_an_experiment_of_which_all_is_there_is_finished_at_once(ledger: Ledger, store: Client) -> None:
    """No run will end that could end it; its report is due now, and each change of state is told."""
    up(store)
    ran(ledger, plan(seeds=2))
    store.delete(events.STREAM)

    again = approved(ledger, plan(seeds=2))

    assert again.state is ExperimentState.FINISHED
    assert ledger.experiment(again.id).finished_at is not None
    assert ledger.experiments(ExperimentState.APPROVED, ExperimentState.PROPOSED) == []
    assert again.id in [e.id for e in ledger.experiments(ExperimentState.FINISHED)]
    assert [e.id for e in ledger.reports_due()][-1] == again.id
    kinds = [events.parse(i, f).kind for i, f in store.xrange(events.STREAM)]
    assert [kind for kind in kinds if kind.startswith("experiment")] == [
        "experiment.proposed",
        "experiment.approved",
        "experiment.finished",
    ]
    assert kinds.count("run.finished") == 2
    assert "run.queued" not in kinds


def test_approving_at_once_reuses_once(ledger: Ledger, store: Client) -> None:
    """Two people may press Run; the counts of ended runs must not be those of two approvals."""
    up(store)
    ran(ledger, plan(seeds=2))
    request = ledger.submit("probe", "U1", "terminal:1")
    assert request
    proposed = ledger.propose(request.id, plan(seeds=3), None, Answer(kind="plan"))
    assert proposed

    def approve(person: int) -> bool:
        try:
            ledger.approve(proposed.id, f"U{person}")
        except MoveRefused:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(approve, range(8))) == 1
    assert ledger.counts(proposed.id) == {"finished": 2}
    assert ledger.waiting().keys() == {f"{proposed.id}/3"}


def test_a_copy_names_the_run_that_was_really_run(ledger: Ledger, store: Client) -> None:
    """Of a copy of a copy nobody would find the log and the card."""
    up(store)
    first = ran(ledger, plan(seeds=1))
    approved(ledger, plan(seeds=1))

    third = approved(ledger, plan(seeds=1))

    assert third.reused == (f"{first.id}/1",)


@pytest.mark.parametrize(
    "other",
    [
        plan(axes={"lr": (0.2,)}),
        plan(axes={"steps": (5,)}),
        plan(axes={"seed": (7, 8)}),
        plan(epochs=2),
        plan(max_steps=9),
        plan(gpus_per_run=2),
        plan(anew=True),
        plan(search="random", trials=2, axes={"lr": Range(low=0.1, high=1.0)}),
    ],
    ids=["lr", "another parameter", "seed", "epochs", "steps", "cards", "run all again", "search"],
)
def test_what_differs_is_run(ledger: Ledger, store: Client, other: Plan) -> None:
    """A result for another configuration is a wrong result."""
    up(store)
    ran(ledger, plan())

    assert same(ledger, other) == {}
    assert {run.state for run in ledger.runs(approved(ledger, other).id)} == {RunState.QUEUED}


def test_other_code_or_another_kind_of_card_is_run(ledger: Ledger, store: Client) -> None:
    """After an upgrade the same words may train otherwise; on a real card `precision auto` is another one."""
    up(store)
    ran(ledger, plan())
    assert len(same(ledger, plan())) == 2

    up(store, "c0ffee")
    assert same(ledger, plan()) == {}
    up(store, simulated=False)
    assert same(ledger, plan()) == {}
    up(store, None)
    assert same(ledger, plan()) == {}
    up(store, CODE, name="lab-b")
    assert len(same(ledger, plan())) == 2, "one host of the lab that would train alike is enough"


def test_data_that_has_changed_is_run(ledger: Ledger, store: Client) -> None:
    """A folder of images keeps its name when somebody mends its labels."""
    mine = DataSet(name="mine", present=True, fingerprint="old")
    up(store, CODE, mine)
    on_mine = plan(dataset="mine")
    ran(ledger, on_mine, HERE.model_copy(update={"data": "old"}))
    assert len(same(ledger, on_mine)) == 2

    up(store, CODE, mine.model_copy(update={"fingerprint": "new"}))
    assert same(ledger, on_mine) == {}
    up(store, CODE, mine.model_copy(update={"present": False}))
    assert same(ledger, on_mine) == {}


def test_a_result_of_unknown_provenance_stands_for_nothing(ledger: Ledger, store: Client) -> None:
    """Results of earlier versions, and of attempts between which the code changed."""
    up(store)
    ran(ledger, plan(), provenance=None)

    assert same(ledger, plan()) == {}


def test_only_finished_runs_are_reused(ledger: Ledger, store: Client) -> None:
    """A run that was stopped early has a value, but not that of its configuration."""
    up(store)
    early = RunResult(metrics={"val_acc": 0.5}, provenance=HERE)
    experiment = approved(ledger, plan(seeds=2))
    first, second = (run.id for run in ledger.runs(experiment.id))
    ledger.fail(first, attempt(ledger, first), "nan_loss", "loss is nan", early)
    fence = attempt(ledger, second)
    ledger.prune(second, 1, "hopeless")
    ledger.cancelled(second, fence, "hopeless", early)

    assert same(ledger, plan(seeds=2)) == {}


def test_what_a_cure_changed_is_not_what_was_asked_for(ledger: Ledger, store: Client) -> None:
    """A batch in two parts has other batch norms; whoever asks for two parts gets that result."""
    up(store)
    experiment = approved(ledger, plan(seeds=1))
    run_id = f"{experiment.id}/1"
    ledger.again(run_id, attempt(ledger, run_id), "parts", "two parts", overrides={"grad_accum_steps": 2})
    finish(ledger, run_id)

    assert same(ledger, plan(seeds=1)) == {}
    assert same(ledger, plan(seeds=1, axes={"grad_accum_steps": (2,)})) == {1: run_id}


def test_a_retry_runs_and_what_it_came_to_is_reused(ledger: Ledger, store: Client) -> None:
    """A retry asks for a run, whatever else has finished meanwhile."""
    up(store)
    failed = approved(ledger, plan(seeds=1))
    ledger.fail(f"{failed.id}/1", attempt(ledger, f"{failed.id}/1"), "hang", "stuck")
    ran(ledger, plan(seeds=1))

    retried = ledger.retry(failed.id, "U1")[0]
    assert (retried.state, retried.reused_from) == (RunState.QUEUED, None)
    finish(ledger, retried.id)

    assert same(ledger, plan(seeds=1)) == {1: retried.id}


def test_the_last_of_two_alike_is_reused(ledger: Ledger, store: Client) -> None:
    """It stays in Redis for longest; and with the record gone, nothing is promised."""
    up(store)
    ran(ledger, plan(seeds=1))
    second = ran(ledger, plan(seeds=1, anew=True))
    assert same(ledger, plan(seeds=1)) == {1: f"{second.id}/1"}

    store.delete(f"on:run:{second.id}/1")

    assert same(ledger, plan(seeds=1)) == {}


def test_archived_runs_leave_the_index_and_only_they(ledger: Ledger, store: Client, tmp_path: Path) -> None:
    """An index that only grows is a leak; what a later experiment ran stays."""
    up(store)
    old = ran(ledger, plan(seeds=3))
    newer = ran(ledger, plan(seeds=1, anew=True))

    assert ledger.archive(old.id, tmp_path, "lab-a", before=time.time() + 1)

    assert same(ledger, plan(seeds=3)) == {1: f"{newer.id}/1"}
    assert store.hvals(reuse.INDEX) == [f"{newer.id}/1"]


def test_two_hundred_runs_are_looked_up_in_a_few_round_trips(ledger: Ledger, store: Client) -> None:
    """A person waits for the plan card; a round trip a run would be felt over a network."""
    up(store)
    up(store, CODE, name="lab-b")
    big = plan(seeds=200)
    ran(ledger, plan(seeds=3))
    lab = hosts.hosts(store), hosts.cards(store)
    before = int(store.info("commandstats")["cmdstat_hmget"]["calls"])

    found = ledger.same(big, *lab)

    assert sorted(found) == [1, 2, 3]
    assert int(store.info("commandstats")["cmdstat_hmget"]["calls"]) - before == 1


def test_the_sentence_counts_what_is_there_and_names_where() -> None:
    """People decide on the card by it."""
    some = [f"exp-{n}/1" for n in (12, 12, 9, 12)]

    assert reuse.words([], 6, chinese=False) == ""
    assert reuse.words(some, 6, chinese=False) == "4 of 6 runs are there already (exp-12, exp-9), 2 new"
    assert reuse.words(some, 6, chinese=True) == "6 个 run 中 4 个已有结果（exp-12、exp-9），2 个要跑"
    assert reuse.words(some, 4, chinese=False).startswith("all 4 runs are there already (exp-12, exp-9), so nothing is")
    assert "全部重跑" in reuse.words(some[:1], 1, chinese=True)
    assert "exp-3, and 1 more)" in reuse.words([f"exp-{n}/1" for n in range(1, 5)], 6, chinese=False)


def test_a_corrected_plan_takes_other_runs_with_it(ledger: Ledger, store: Client) -> None:
    """The card is drawn anew after Edit, and must not promise what the first plan had."""
    up(store)
    first = ran(ledger, plan(seeds=2))
    asked, edited = (ledger.submit("probe", "U1", "terminal:1") for _ in range(2))
    assert asked
    assert edited
    ids = [f"{first.id}/1", f"{first.id}/2"]
    proposed = ledger.propose(asked.id, plan(seeds=2), None, Answer(kind="plan"), ids)
    assert proposed
    assert ledger.experiment(proposed.id).reused == tuple(ids)

    ledger.revise(edited.id, proposed.id, 0, plan(axes={"lr": (0.5,)}), None)

    assert ledger.experiment(proposed.id).reused == ()
