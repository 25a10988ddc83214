"""The runs that a dispatcher remembers are those that stand in Redis, whoever changed them."""

from __future__ import annotations

import contextlib
import random

from lab import events
from lab.errors import FenceError, LeaseRefused, MoveRefused
from lab.leases import Leases
from lab.ledger import Ledger
from lab.plan import Plan, Range
from lab.records import record_key
from lab.run import Answer, Experiment, Room, Run, RunResult, RunState
from lab.runcache import RunCache
from lab.store import Client

WAITS = (RunState.QUEUED, RunState.PAUSED)
SEARCH = Plan(
    template="probe",
    models=("probe",),
    search="random",
    trials=3,
    epochs=2,
    axes={"final_acc": Range(low=0.1, high=1.0, scale="linear"), "seed": (0, 1)},
)


def approved(ledger: Ledger, plan: Plan) -> Experiment:
    request = ledger.submit("x", "U1", "terminal:1")
    assert request
    proposed = ledger.propose(request.id, plan, None, Answer(kind="plan"))
    assert proposed
    return ledger.approve(proposed.id, "U1")


def grid(seeds: int) -> Plan:
    return Plan(template="probe", models=("probe",), axes={"seed": tuple(range(seeds))})


def reads(client: Client) -> int:
    """Records that the server was asked for so far."""
    calls: int = client.info("commandstats").get("cmdstat_hgetall", {}).get("calls", 0)
    return calls


class Lab:
    """Other processes: whatever they may do to a run, of which some is refused."""

    def __init__(self, ledger: Ledger, chance: random.Random) -> None:
        self.ledger, self.chance, self.leases = ledger, chance, Leases(ledger.client, 60)

    def change(self) -> str:
        """One change of one run that exists."""
        run = self.chance.choice([run for state in RunState for run in self.ledger.runs_in(state)])
        what = self.chance.choice(
            ["begin", "begin", "again", "lost", "room", "pause", "resume", "priority", "hold", "cancel", "end", "draw"]
        )
        with contextlib.suppress(MoveRefused, FenceError, LeaseRefused):
            getattr(self, what)(run)
        return f"{what} {run.id}"

    def begin(self, run: Run) -> None:
        bound = self.ledger.bind(run.id, (f"SIM-{run.id}",), "lab-a", 0)
        lease = self.leases.claim(run.id, bound.dispatches, bound.cards, "w")
        self.ledger.start(run.id, lease.fence, pid=1)

    def leave(self, run: Run) -> None:
        self.ledger.client.delete(f"on:lease:SIM-{run.id}")

    def again(self, run: Run) -> None:
        self.ledger.again(run.id, run.fence, "oom_gpu/split", "half", overrides={"batch_size": 8}, avoid=("SIM-0",))
        self.leave(run)

    def lost(self, run: Run) -> None:
        self.ledger.give_back(run.id, run.fence, "its worker died", lost=True)
        self.leave(run)

    def room(self, run: Run) -> None:
        self.ledger.make_room(run.id, run.fence, Room(for_run="exp-9/1", reason="shorter", ends_look=False, asked_at=0))
        self.ledger.made_room(run.id, run.fence)
        self.leave(run)

    def pause(self, run: Run) -> None:
        self.ledger.wish(run.id, "pause", "U1")

    def resume(self, run: Run) -> None:
        self.ledger.resume(run.id, "U1")

    def priority(self, run: Run) -> None:
        self.ledger.set_priority(run.id, self.chance.choice(["low", "normal", "high"]), "U1")

    def hold(self, run: Run) -> None:
        self.ledger.hold(run.id, "held")

    def cancel(self, run: Run) -> None:
        if self.chance.random() < 0.3:
            self.ledger.cancel_run(run.id, "U1")

    def end(self, run: Run) -> None:
        self.ledger.finish(run.id, run.fence, RunResult())
        self.leave(run)

    def draw(self, run: Run) -> None:
        trial = [r for r in self.ledger.runs(run.experiment_id) if r.trial == run.trial]
        self.ledger.draw(trial, {"final_acc": self.chance.random()})


def test_whatever_others_do_to_a_run_the_next_look_shows_it(store: Client) -> None:
    """A stale priority or point would start the wrong run, or the right one wrongly predicted."""
    chance = random.Random(1)
    ledger, cache = Ledger(store), RunCache(store)
    lab = Lab(Ledger(store), chance)
    approved(ledger, grid(8))
    approved(ledger, SEARCH)
    moved = set()

    for turn in range(200):
        did = lab.change()
        moved.add(did.split()[0])
        if turn % 40 == 0:
            approved(ledger, grid(2))
        if chance.random() < 0.7:  # often several changes lie between two looks
            states = chance.choice([WAITS, WAITS[:1], WAITS[1:]])
            assert cache.runs_in(*states) == ledger.runs_in(*states), did

    assert len(moved) == 11


def test_only_what_has_changed_is_read_again(store: Client) -> None:
    """Ten thousand waiting runs are not read for each one that starts."""
    ledger, cache = Ledger(store), RunCache(store)
    runs = ledger.runs(approved(ledger, grid(50)).id)
    before = reads(store)
    cache.runs_in(RunState.QUEUED)
    at_first = reads(store) - before
    ledger.set_priority(runs[3].id, "high", "U1")
    ledger.bind(runs[4].id, ("SIM-0",), "lab-a", 0)

    before = reads(store)
    found = cache.runs_in(RunState.QUEUED)
    later = reads(store) - before

    assert (at_first, later) == (50, 1)
    assert [run.id for run in found if run.priority == "high"] == [runs[3].id]
    assert len(found) == 49


def test_where_the_stream_has_dropped_what_happened_everything_is_read_again(store: Client) -> None:
    """A dispatcher that stood still for weeks does not act on what it knew then."""
    ledger, cache = Ledger(store), RunCache(store)
    run = ledger.runs(approved(ledger, grid(1)).id)[0]
    cache.runs_in(RunState.QUEUED)
    ledger.set_priority(run.id, "high", "U1")
    ledger.submit("x", "U1", "terminal:1")
    store.xtrim(events.STREAM, maxlen=0, approximate=False)
    ledger.set_priority(run.id, "low", "U1")
    store.xtrim(events.STREAM, maxlen=1, approximate=False)

    assert [run.priority for run in cache.runs_in(RunState.QUEUED)] == ["low"]


def test_a_redis_that_came_back_with_less_is_read_again(store: Client) -> None:
    """After a power cut its file may lack the last second: what was seen in it has not happened."""
    ledger, cache = Ledger(store), RunCache(store)
    run = ledger.runs(approved(ledger, grid(1)).id)[0]
    record, entries = store.dump(record_key(run.id)), store.xlen(events.STREAM)
    ledger.set_priority(run.id, "high", "U1")
    seen = cache.runs_in(RunState.QUEUED)
    store.xdel(events.STREAM, store.xrevrange(events.STREAM, count=1)[0][0])
    store.restore(record_key(run.id), 0, record, replace=True)

    assert store.xlen(events.STREAM) == entries
    assert [run.priority for run in seen] == ["high"]
    assert [run.priority for run in cache.runs_in(RunState.QUEUED)] == ["normal"]
