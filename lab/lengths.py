"""How long the lab's runs take: one estimator for the plan card and the dispatcher, its history kept in Redis.

A run's length is its start-up and then its work. Work is told from runs like it, in seconds an epoch or a step, so that
20 epochs are told from 3; before there are any, from floating point operations and the host's measured speed, corrected
by how wrong such guesses were for the model and the template.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from lab.card import Card, DataSet, Host
from lab.costs import NATIVE_SIZE, cost
from lab.plan import Point, number
from lab.predict import MEMORY, History, Level, Prediction
from lab.run import Run
from lab.store import PREFIX, Client

BACKWARD_FACTOR = 3.0
"""Forward and backward pass over the forward pass alone (Kaplan et al. 2020, arXiv:2001.08361, section 2.1)."""
STARTUP_S = 8.0
"""Spawning an interpreter and importing torch, timm and torchvision, until it has been measured; 4 to 9 s were."""
KEPT_S = 180 * 86_400
"""A kind that nobody has run for half a year is forgotten."""


@dataclass(frozen=True)
class Machines:
    """What the length of a run depends on beside the run itself.

    Attributes:
        flops: floating point operations a second of one card; None when no host has measured it.
        names: name of each card that can train, by its UUID.
    """

    datasets: dict[str, DataSet]
    flops: float | None = None
    names: dict[str, str] = field(default_factory=dict)

    def name_of(self, card: str | None) -> str | None:
        """Name of the card with this UUID; of any card where it has none yet, None where they are of several kinds."""
        if card is not None:
            return self.names.get(card)
        return self._one_name

    @cached_property
    def _one_name(self) -> str | None:
        names = set(self.names.values())
        return names.pop() if len(names) == 1 else None


def machines(hosts: Sequence[Host], usable: Sequence[Card]) -> Machines:
    """What the hosts that are up publish; `usable` are the cards that can train."""
    datasets = {d.name: d for host in hosts for d in host.datasets if d.train_samples}
    speed = next((host.speed_flops for host in hosts if host.speed_flops), None)
    if speed and usable and usable[0].simulated:
        speed /= sum(card.host == usable[0].host for card in usable)  # simulated cards share the host's cores
    return Machines(datasets, speed, {card.uuid: card.name for card in usable})


@dataclass(frozen=True)
class Subject:
    """A run, or one that would be, as far as its length depends on it: seeds and learning rates do not matter."""

    template: str
    model: str
    dataset: str | None
    params: tuple[tuple[str, str], ...]
    unit: str
    """What it is counted in: `epochs`, `steps`, or `run` where neither is set."""
    units: int
    owner: str
    card: str | None

    @staticmethod
    def of(
        point: Point, template: str, epochs: int | None, max_steps: int | None, owner: str, card: str | None
    ) -> Subject:
        """A point of a plan; a limit in steps ends it, whatever the epochs say."""
        params = tuple((k, number(v)) for k, v in sorted(point.params.items()) if k not in ("seed", "lr"))
        unit, units = ("steps", max_steps) if max_steps else ("epochs", epochs) if epochs else ("run", 1)
        return Subject(template, point.model, point.dataset, params, unit, units, owner, card)

    @staticmethod
    def of_run(run: Run, card: str | None) -> Subject:
        """A run of the ledger."""
        return Subject.of(run.point, run.template, run.epochs, run.max_steps, run.owner, card)

    @cached_property
    def kind(self) -> str:
        """Runs that do the same work in each unit have the same."""
        params = "|".join(f"{k}={v}" for k, v in self.params)
        return "|".join((self.template, self.model, self.dataset or "", self.unit, params))

    def startup(self) -> tuple[Level, ...]:
        """Levels of the time before the first step."""
        name = f"startup|{self.template}"
        return Level(name, 1.0), Level(f"{name}|{self.model}|{self.card or ''}", 1.0, alike=True)

    def work(self, guess_s: float | None) -> tuple[Level, ...]:
        """Levels of the time after it. Guesses are off in like ways for a template's models; without a guess, only
        runs of the same model and unit say anything."""
        general = (
            (Level(f"{self.template}|flops", guess_s), Level(f"{self.template}|{self.model}|flops", guess_s))
            if guess_s
            else (Level(f"{self.template}|{self.model}|{self.unit}", self.units),)
        )
        kind = f"{self.kind}|{self.card or ''}"
        alike = Level(self.kind, self.units, alike=True), Level(kind, self.units, alike=True)
        return *general, *alike, Level(f"{kind}|{self.owner}", self.units)

    def guess_s(self, where: Machines) -> float | None:
        """Seconds of its work by floating point operations; None where model, data or speed are not known."""
        known, params = cost(self.model), dict(self.params)
        data = where.datasets.get(self.dataset or "")
        samples = self._samples(data, params.get("batch_size"))
        if known is None or not samples or not where.flops:
            return None
        side = float(params.get("image_size") or (data.image_size if data else None) or NATIVE_SIZE)
        forward = 2.0 * known.multiply_adds * (side / NATIVE_SIZE) ** 2  # two operations a multiply-add, as many pixels
        return BACKWARD_FACTOR * forward * samples / where.flops

    def _samples(self, data: DataSet | None, batch_size: str | None) -> float | None:
        if self.unit == "steps":
            return self.units * float(batch_size) if batch_size else None
        return float(data.train_samples * self.units) if data and data.train_samples and self.unit == "epochs" else None


class Lengths:
    """Predictions from the history in Redis. What was read is kept: for a process that learns, or for one answer."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._history = History()
        self._read: set[str] = set()
        self._known: dict[Hashable, Prediction | None] = {}

    def predict(self, subject: Subject, where: Machines) -> Prediction | None:
        """Start-up and work; None when nothing is known of its kind, its model or its FLOPs."""
        key = (subject, where.flops)
        if key not in self._known:
            guess_s = subject.guess_s(where)
            startup, work = subject.startup(), subject.work(guess_s)
            self._recall(level.name for level in (*startup, *work))
            found = self._history.predict(work, guess_s)
            self._known[key] = found.after(self._startup(startup)) if found else None
        return self._known[key]

    def learn(self, subject: Subject, where: Machines, took_s: float, startup_s: float | None) -> None:
        """A run of this kind went from its start to its result in one attempt: every later prediction knows.

        Args:
            startup_s: what of it passed before the first step; None where that was not seen.
        """
        before_s = startup_s if startup_s is not None else min(self._startup(subject.startup()).p50_s, took_s / 2)
        work = subject.work(subject.guess_s(where))
        self._recall(level.name for level in (*subject.startup(), *work))
        seen = self._history.learn(work, max(0.001, took_s - before_s))
        if startup_s is not None:
            seen |= self._history.learn(subject.startup(), startup_s)
        self._known.clear()
        with self._client.pipeline() as pipe:
            for name, value in seen.items():
                pipe.rpush(_key(name), f"{value:.5f}")
                pipe.ltrim(_key(name), -MEMORY, -1)
                pipe.expire(_key(name), KEPT_S)
            pipe.execute()

    def knows(self, kind: str) -> bool:
        """True when a run of this kind has been learned from."""
        return bool(self._client.exists(_key(kind)))

    def _startup(self, levels: Sequence[Level]) -> Prediction:
        self._recall(level.name for level in levels)
        found = self._history.predict(levels, STARTUP_S)
        assert found is not None  # there is a guess
        return found

    def _recall(self, names: Iterable[str]) -> None:
        """What Redis has of these levels is known here."""
        unread = [name for name in names if name not in self._read]
        if not unread:
            return
        with self._client.pipeline(transaction=False) as pipe:
            for name in unread:
                pipe.lrange(_key(name), -MEMORY, -1)
            found = dict(zip(unread, pipe.execute(), strict=True))
        self._read.update(unread)
        self._history.recall({name: [float(v) for v in values] for name, values in found.items() if values})


def _key(level: str) -> str:
    return f"{PREFIX}history:{level}"
