"""Which cards dispatch may use, why not the others, and the table of cards that people see."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from lab.card import READING_MAX_AGE_S, SERVING, Card, CardProcess, HostCards, KeeperStatus
from lab.run import experiment_of

MIB = 1024 * 1024
LEAKED_BYTES = 500 * MIB
"""Memory in use beyond this with no process listed is a leak or an unseen process; a driver alone stays below it."""
KEEPER_BYTES = 700 * MIB
"""What a keeper's CUDA context may take (290 to 670 MB, pytorch#86509)."""
NAME_WIDTH = 40
"""Widest name of a card in the table, in terminal cells."""

ARROW = "← "
"""Before what a card does; once in each card's line."""

_HEADER = ("GPU", "Name", "Memory", "Util", "Temp")
_RIGHT_ALIGNED = (False, False, True, True, True)
_LEFT_ALIGNED = (False,) * 5
_SIMULATED = "(simulated: these cards train on the CPU)"


@dataclass(frozen=True, slots=True)
class CardUse:
    """What one of our runs does on a card that it holds."""

    run_id: str
    label: str
    """Model or template, for people: `resnet50`."""
    pid: int | None = None
    eta_s: float | None = None
    owner: str = ""
    """Who asked for it."""


def owners_of(uses: Mapping[str, CardUse]) -> dict[str, str]:
    """Who asked for the experiments that hold cards, by experiment: the table has no room for people."""
    return {experiment_of(use.run_id): use.owner for use in uses.values() if use.owner}


def free(
    hosts: Sequence[HostCards],
    leases: Mapping[str, CardUse],
    now: float,
    ended: Mapping[str, Collection[int]] | None = None,
) -> list[Card]:
    """The cards that dispatch may use now, in the order in which their hosts list them.

    Args:
        leases: UUID of a card to the run that holds it.
        now: seconds since the epoch.
        ended: UUID of a card to the ids of our own processes that ended there a moment ago; a reading may still
            show them, and they are not strangers.
    """
    ended = ended or {}
    return [
        card
        for host in hosts
        if host.problem is None
        for card in host.cards
        if why_not_free(card, leases.get(card.uuid), now, host.keeper, ended.get(card.uuid, ())) is None
    ]


def usable(hosts: Sequence[HostCards], now: float) -> list[Card]:
    """The cards that can train, busy or not: what an estimate counts on."""
    return [
        card
        for host in hosts
        if host.problem is None
        for card in host.cards
        if card.role in SERVING and not card.lost and card.fault is None and _stale(card, now) is None
    ]


def why_not_free(
    card: Card,
    use: CardUse | None,
    now: float,
    keeper: KeeperStatus | None = None,
    ended: Collection[int] = (),
) -> str | None:
    """Why dispatch may not use the card, as a phrase for people; None when it may.

    Args:
        use: the run that holds the card.
        keeper: the keeper of the card's host; its own process on a shared card is no stranger.
        ended: as in `free`.
    """
    if card.lost:
        return f"lost: {card.problem or 'the driver no longer answers for it'}"
    if use is not None:
        return _training(use)
    if card.role == "keeper":
        return "keeper"
    if card.role == "none":
        return card.problem or "serves nobody"
    if card.closing:
        return "the keeper takes it back"
    stale = _stale(card, now)
    if stale is not None:
        return f"{stale}, not counted as free"
    return card.problem or _faulty(card) or _held_by_others(card, _keeper_on(card, keeper), ended)


def table(hosts: Sequence[HostCards], leases: Mapping[str, CardUse], now: float) -> str:
    """Every card of every host as monospaced text, one line a card, without a newline at the end.

    Safe inside a code block: names that others chose (cards, processes) lose control characters and backticks.
    """
    if not hosts:
        return "No host publishes cards; `overnight keep` does on a host with cards."
    rows = {host.host: [_cells(card) for card in host.cards] for host in hosts}
    widths = _widths([_HEADER, *(row for host_rows in rows.values() for row in host_rows)])
    blocks = (_block(host, rows[host.host], widths, leases, now, len(hosts) > 1) for host in hosts)
    return ("\n\n" if len(hosts) > 1 else "\n").join("\n".join(block) for block in blocks)


def _block(
    host: HostCards,
    rows: Sequence[tuple[str, ...]],
    widths: Sequence[int],
    leases: Mapping[str, CardUse],
    now: float,
    named: bool,
) -> Iterator[str]:
    if named:
        yield _printable(host.host)
    if host.problem is not None:
        yield f"the cards cannot be read: {_printable(host.problem)}"
        return
    if not host.cards:
        yield "no cards"
        return
    yield _line(_HEADER, widths, _SIMULATED if host.simulated else "", _LEFT_ALIGNED)
    for card, row in zip(host.cards, rows, strict=True):
        yield _line(row, widths, ARROW + _printable(_note(card, leases.get(card.uuid), now, host.keeper)))


def _note(card: Card, use: CardUse | None, now: float, keeper: KeeperStatus | None) -> str:
    """What stands behind the arrow: what the card does, and whatever keeps it from being free."""
    reason = why_not_free(card, use, now, keeper)
    here = _keeper_on(card, keeper)
    if reason is None:
        return ", ".join(["FREE", *_beside_free(card, here, now)])
    if card.lost or (use is None and card.role != "keeper"):
        return reason
    back = "then the keeper takes it back" if use and card.closing else None
    parts = [reason, back, *([] if use else _kept(card, here)), _stale(card, now), card.problem, _faulty(card)]
    return ", ".join(part for part in parts if part)


def _beside_free(card: Card, keeper: KeeperStatus | None, now: float) -> Iterator[str]:
    """What else is to be said of a free card."""
    if keeper is not None and keeper.state == "released":
        until = f" for {_left(keeper.released_until - now)}" if keeper.released_until else ""
        yield f"released by {keeper.released_by or 'an operator'}{until}"
    elif card.role == "shared":
        yield "shared with the keeper"
        if keeper is not None:
            yield from _keeper_words(keeper)


def _kept(card: Card, keeper: KeeperStatus | None) -> Iterator[str | None]:
    """What is to be said of a reserved card: trouble first, then what the keeper can show and costs."""
    if keeper is None:
        yield "not running"
        return
    yield keeper.problem or _held_by_others(card, keeper, ())
    yield from _keeper_words(keeper)


def _keeper_words(keeper: KeeperStatus) -> Iterator[str]:
    if keeper.state == "yielding":
        yield "at rest while others work on it"
    if keeper.verdict != "unverified" or keeper.platform != "none" or keeper.mode != "touch":
        yield f"{keeper.verdict}: {keeper.reason}" if keeper.reason else keeper.verdict
    if keeper.cost is not None:
        yield f"cost {keeper.cost:.2f} in {keeper.held_s / 3600:.1f} h"


def _training(use: CardUse) -> str:
    pid = f" (PID {use.pid})" if use.pid is not None else ""
    left = f", {_left(use.eta_s)} left" if use.eta_s is not None else ""
    return f"training {use.run_id} {use.label}{pid}{left}"


def _left(eta_s: float) -> str:
    if eta_s < 60:
        return "under 1 min"
    if eta_s < 100 * 60:
        return f"about {eta_s / 60:.0f} min"
    return f"about {eta_s / 3600:.1f} h"


def _faulty(card: Card) -> str | None:
    return f"faulty, not given out: {card.fault}" if card.fault else None


def _stale(card: Card, now: float) -> str | None:
    """How the reading is out of date, or None; one from the future means clocks apart, not freshness."""
    age_s = now - card.read_at
    if age_s > READING_MAX_AGE_S:
        return f"reading {_age(age_s)} old" if card.read_at > 0 else "no reading yet"
    if age_s < -READING_MAX_AGE_S:
        return f"its host's clock is {_age(-age_s)} ahead"
    return None


def _age(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"


def _keeper_on(card: Card, keeper: KeeperStatus | None) -> KeeperStatus | None:
    return keeper if keeper is not None and keeper.card == card.uuid else None


def strangers(card: Card, keeper_pid: int | None, ended: Collection[int] = ()) -> list[CardProcess]:
    """The processes on the card that are neither the keeper's nor ended ones of ours.

    Args:
        keeper_pid: the keeper's process on this card; None while there is none.
        ended: as in `free`.
    """
    if card.simulated:  # it only ever shows our own processes
        return []
    rest = [process for process in card.processes if process.pid not in ended]
    return rest if keeper_pid is None else _without_keeper(rest, keeper_pid)


def _held_by_others(card: Card, keeper: KeeperStatus | None, ended: Collection[int]) -> str | None:
    """Who holds the card although no run of ours does."""
    if card.simulated:
        return None
    pid = keeper.pid if keeper is not None else None
    others = strangers(card, pid, ended)
    if others:
        return "in use by " + ", ".join(_who(process) for process in others[:3]) + ", not ours"
    if any(process.pid in ended for process in card.processes):
        return None
    used = card.memory_used_bytes or 0
    if used > LEAKED_BYTES + (KEEPER_BYTES if pid is not None else 0):
        return f"{used // MIB} MiB held by no known process: leaked, or a stranger's"
    return None


def _without_keeper(processes: list[CardProcess], pid: int) -> list[CardProcess]:
    """The processes less the keeper's own one.

    In a container the driver shows the host's ids (nvidia-docker#1483), so the keeper's is not among them: then one
    process without a name here and no larger than a CUDA context is taken for it.
    """
    rest = [process for process in processes if process.pid != pid]
    if len(rest) < len(processes):
        return rest
    unseen = next((p for p in rest if p.name is None and (p.memory_bytes or 0) <= KEEPER_BYTES), None)
    return [process for process in rest if process is not unseen]


def _who(process: CardProcess) -> str:
    return f"PID {process.pid} ({process.name})" if process.name else f"PID {process.pid}"


def _cells(card: Card) -> tuple[str, ...]:
    return (
        str(card.index),
        _shortened(_printable(card.name).removeprefix("NVIDIA ")),
        _memory(card.memory_used_bytes, card.memory_total_bytes),
        "N/A" if card.utilization_pct is None else f"{card.utilization_pct:.0f}%",
        "N/A" if card.temperature_c is None else f"{card.temperature_c:.0f}°C",
    )


def _memory(used: int | None, total: int | None) -> str:
    if used is None and total is None:
        return "N/A"
    return "/".join("?" if size is None else str(size // MIB) for size in (used, total)) + " MiB"


def _widths(rows: Sequence[tuple[str, ...]]) -> list[int]:
    return [max(cell_len(cell) for cell in column) for column in zip(*rows, strict=True)]


def _line(cells: Sequence[str], widths: Sequence[int], note: str, aligned: Sequence[bool] = _RIGHT_ALIGNED) -> str:
    padded = (_padded(cell, width, right) for cell, width, right in zip(cells, widths, aligned, strict=True))
    return "  ".join([*padded, note]).rstrip()


def _padded(text: str, width: int, right: bool) -> str:
    """The text filled up to a width in terminal cells, in which a CJK character counts two."""
    space = " " * (width - cell_len(text))
    return space + text if right else text + space


def _shortened(text: str) -> str:
    return text if cell_len(text) <= NAME_WIDTH else set_cell_size(text, NAME_WIDTH - 1).rstrip() + "…"


def _printable(text: str) -> str:
    """One line without control characters or backticks: a stranger's process must not end the code block."""
    return "".join(char if char.isprintable() and char != "`" else "?" for char in text)
