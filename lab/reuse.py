"""Runs that need not be run: a finished one of the same configuration and provenance is there already.

An index in Redis leads from the fingerprint of both to the run that had it last. A run is entered when it finishes and
taken out when its experiment is archived. A copy is not entered: it names the run that was really run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pydantic import BaseModel, ConfigDict
from redis.client import Pipeline

from lab.card import DataSet, Host, HostCards
from lab.language import Phrasebook
from lab.plan import Plan, Point, Scalar
from lab.provenance import Provenance
from lab.records import Records
from lab.run import Run, RunState, experiment_of
from lab.store import PREFIX

INDEX = f"{PREFIX}reuse"
"""Redis key of a hash: fingerprint to the id of the run that finished with it."""

WORDS = Phrasebook(
    {
        "some": (
            "{n} of {all} runs are there already ({where}), {new} new",
            "{all} 个 run 中 {n} 个已有结果（{where}），{new} 个要跑",
        ),
        "all": (
            "all {all} runs are there already ({where}), so nothing is trained; `run all again` trains them anew",
            "{all} 个 run 都已有结果（{where}），不用再训练；说“全部重跑”会重新训练",
        ),
        "one": (
            "its run is there already ({where}), so nothing is trained; `run all again` trains it anew",
            "这个 run 已有结果（{where}），不用再训练；说“全部重跑”会重新训练",
        ),
        "more": ("and {n} more", "另有 {n} 个"),
        "comma": (", ", "、"),
    }
)
SHOWN = 3
"""Experiments named in a sentence; the others are counted."""


class Configuration(BaseModel):
    """All that a person, or a cure, chose about a run and that its result may depend on.

    The environment that cures set for a trainer (the allocator, NCCL) is not among it: it changes no result.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    template: str
    model: str
    dataset: str | None
    params: dict[str, Scalar]
    epochs: int | None
    max_steps: int | None
    gpus: int

    @classmethod
    def of(cls, plan: Plan, point: Point) -> Configuration:
        """What a run of the plan at this point would be."""
        return cls(
            template=plan.template,
            model=point.model,
            dataset=point.dataset,
            params=point.params,
            epochs=plan.epochs,
            max_steps=plan.max_steps,
            gpus=plan.gpus_per_run,
        )

    @classmethod
    def of_run(cls, run: Run) -> Configuration:
        """What the run really was: with the parameters that cures changed."""
        return cls(
            template=run.template,
            model=run.point.model,
            dataset=run.point.dataset,
            params={**run.point.params, **run.overrides},
            epochs=run.epochs,
            max_steps=run.max_steps,
            gpus=run.gpus,
        )


def fingerprint(configuration: Configuration, provenance: Provenance) -> str:
    """SHA-256 of both: equal where every value is. 64 and 64.0 are one value, as every template takes them; 1 and
    True are two."""
    params = {name: _plain(value) for name, value in configuration.params.items()}
    said = [configuration.model_dump() | {"params": params}, provenance.model_dump()]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _plain(value: Scalar) -> Scalar:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def of_run(run: Run) -> str | None:
    """The fingerprint of a run that was run to its end; None where it was not, or where its provenance is not known."""
    if run.state is not RunState.FINISHED or run.result is None or run.result.provenance is None or run.reused_from:
        return None
    return fingerprint(Configuration.of_run(run), run.result.provenance)


def remember(pipe: Pipeline, run: Run) -> None:
    """The run is found by what it was, if it was run to its end."""
    if (key := of_run(run)) is not None:
        pipe.hset(INDEX, key, run.id)


def copied(run: Run, source: Run, now: float) -> Run:
    """The run, finished with the result of the other one; what that used is counted where it ran."""
    assert source.result is not None
    usage = source.result.usage.model_copy(update={"gpu_s": 0.0, "energy_j": None})
    result = source.result.model_copy(update={"usage": usage})
    end = {"state": RunState.FINISHED, "finished_at": now, "result": result, "reused_from": source.id}
    return run.model_copy(update=end)


def sources(same: Mapping[int, Run]) -> tuple[str, ...]:
    """Ids of the runs that stand for others, in the order of those."""
    return tuple(same[number].id for number in sorted(same))


def entries(client: Pipeline, runs: Iterable[Run]) -> list[str]:
    """The entries of the index that lead to one of these runs."""
    keys = {key: run.id for run in runs if (key := of_run(run)) is not None}
    found = client.hmget(INDEX, list(keys)) if keys else []
    return [key for (key, run_id), there in zip(keys.items(), found, strict=True) if there == run_id]


def provenances(hosts: Sequence[Host], cards: Sequence[HostCards], dataset: str | None) -> set[Provenance]:
    """What a run on this data set would have by the hosts that are up; none of a host that says no version of its code.

    Hosts look at code and data once a minute.
    """
    simulated = {there.host: there.simulated for there in cards}
    found = set()
    for host in hosts:
        data = _data(host, dataset)
        if host.code is not None and host.host in simulated and (data or dataset is None):
            device = "cpu" if simulated[host.host] else "cuda"
            found.add(Provenance(code=host.code, data=data.fingerprint if data else None, device=device))
    return found


def _data(host: Host, dataset: str | None) -> DataSet | None:
    return next((data for data in host.datasets if data.name == dataset and data.present), None)


def words(reused: Sequence[str], n_runs: int, chinese: bool) -> str:
    """`4 of 6 runs are there already (exp-12), 2 new`; empty where all are new."""
    if not reused:
        return ""
    key = "some" if len(reused) < n_runs else "one" if n_runs == 1 else "all"
    return WORDS.say(
        key, chinese, n=len(reused), all=n_runs, new=n_runs - len(reused), where=experiments(reused, chinese)
    )


def experiments(runs: Iterable[str], chinese: bool) -> str:
    """The experiments that runs belong to, each once: `exp-12, exp-9`."""
    names = list(dict.fromkeys(map(experiment_of, runs)))
    more = [WORDS.say("more", chinese, n=len(names) - SHOWN)] if len(names) > SHOWN else []
    return WORDS.say("comma", chinese).join([*names[:SHOWN], *more])


class Reuse(Records):
    """The part of the ledger that knows which runs of a plan are there already."""

    def same(self, plan: Plan, hosts: Sequence[Host], cards: Sequence[HostCards]) -> dict[int, Run]:
        """By its number in the plan, the finished run that each need not be run for; none where all shall be run anew.

        Runs of a search are not among them: their values are drawn later.
        """
        if plan.anew or plan.search != "grid":
            return {}
        wanted = list(_wanted(plan, hosts, cards))
        ids = self.client.hmget(INDEX, [key for key, _ in wanted]) if wanted else []
        by_key = {of_run(run): run for run in self._read_many(Run, sorted({i for i in ids if i}))}
        # The record decides, not the index: it may have been restored from another time.
        return {number: by_key[key] for key, number in wanted if key in by_key}


def _wanted(plan: Plan, hosts: Sequence[Host], cards: Sequence[HostCards]) -> Iterator[tuple[str, int]]:
    """The fingerprints under which each run of the plan may be there, with its number."""
    grounds = {dataset: provenances(hosts, cards, dataset) for dataset in plan.datasets or (None,)}
    for number, point in enumerate(plan.points(), start=1):
        for provenance in grounds[point.dataset]:
            yield fingerprint(Configuration.of(plan, point), provenance), number
