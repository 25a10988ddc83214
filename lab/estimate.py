"""How long things take and when they are done, in words for people: English, and Chinese for who asked in Chinese."""

from __future__ import annotations

from collections.abc import Callable

from lab.forecast import End, Forecast, Place
from lab.run import Estimate

SOON_S = 5.0
"""Less than this is now."""
CLOCK_S = 600.0
"""From this on the clock is said beside what is left."""


def words(estimate: Estimate | None, chinese: bool = False) -> str:
    """`about 4 min on 3 cards (nine times in ten under 6 min), 0.2 GPU-h, from 12 earlier runs`, and when it starts
    where cards are busy; or that nothing is known."""
    if estimate is None:
        return "还不知道要多久" if chinese else "how long it takes is not known yet"
    if not estimate.wall_s:
        return "不用跑" if chinese else "nothing to run"
    p50, p90, hours = *_spread(estimate, chinese), gpu_hours(estimate.gpu_hours)
    if chinese:
        most = f"（九成情况下不超过 {p90}）" if p90 else ""
        return f"{estimate.cards} 张卡上约 {p50}{most}，{hours} GPU 小时，{_basis_zh(estimate)}{_start(estimate, True)}"
    cards = f"{estimate.cards} card{'' if estimate.cards == 1 else 's'}"
    most = f" (nine times in ten under {p90})" if p90 else ""
    basis = f", {estimate.basis}" if estimate.basis else ""
    return f"about {p50} on {cards}{most}, {hours} GPU-h{basis}{_start(estimate, False)}"


def _spread(estimate: Estimate, chinese: bool) -> tuple[str, str]:
    """p50 and p90 in words; the second is empty where it says nothing more."""
    p50 = duration(estimate.wall_s, chinese)
    p90 = duration(estimate.wall_p90_s, chinese) if estimate.wall_p90_s else ""
    return p50, "" if p90 == p50 else p90


def _start(estimate: Estimate, chinese: bool) -> str:
    if estimate.wait_s is None:
        return ""
    when = duration(estimate.wait_s, chinese)
    if chinese:
        ahead = f"（前面有 {estimate.before} 个 run）" if estimate.before else ""
        return f"；约 {when}后开始{ahead}"
    ahead = f" ({estimate.before} run{'' if estimate.before == 1 else 's'} before it)" if estimate.before else ""
    return f"; starts in about {when}{ahead}"


def _basis_zh(estimate: Estimate) -> str:
    if not estimate.rough:
        return f"依据 {estimate.earlier} 次以前的运行"
    return f"粗略：{estimate.n_known} 个 run 有历史" if estimate.n_known else "粗略：还没有历史"


def gpu_hours(hours: float) -> str:
    """GPU-hours as people read them: 12, 0.2, 0.01."""
    return f"{hours:.0f}" if hours >= 10 else f"{hours:.1f}" if hours >= 0.095 else f"{hours:.1g}"


def duration(seconds: float, chinese: bool = False) -> str:
    """A length of time for people: `45 s`, `4 min`, `2.5 h`, `3.1 days`; `4 分钟`."""
    second, minute, hour, day = ("秒", "分钟", "小时", "天") if chinese else ("s", "min", "h", "days")
    if seconds < 90:
        return f"{max(1, round(seconds))} {second}"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} {minute}"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} {hour}"
    return f"{seconds / 86400:.1f} {day}"


def place_words(place: Place, now: float, chinese: bool = False) -> str:
    """`3rd in the queue, starts in about 12 min`."""
    wait_s = place.p50 - now
    soon = wait_s < SOON_S
    if chinese:
        return f"排队第 {place.position} 位，" + ("马上开始" if soon else f"约 {duration(wait_s, True)}后开始")
    where = "next" if place.position == 1 else f"{_ordinal(place.position)} in the queue"
    return f"{where}, starts {'any moment' if soon else f'in about {duration(wait_s)}'}"


def end_words(end: End, now: float, clock: Callable[[float], str], chinese: bool = False) -> str:
    """`about 40 min left, done at about 04:10 (nine times in ten by 05:30)`; the clock is left out of minutes.

    Args:
        clock: a moment as its reader's clock shows it.
    """
    left = duration(end.p50 - now, chinese)
    most = duration(end.p90 - now, chinese)
    if end.p50 - now < CLOCK_S:
        most = (
            "" if most == left else f"（九成情况下不超过 {most}）" if chinese else f" (nine times in ten under {most})"
        )
        return f"还需约 {left}{most}" if chinese else f"about {left} left{most}"
    by = clock(end.p90)
    if chinese:
        return f"还需约 {left}，约 {clock(end.p50)} 完成（九成情况下在 {by} 之前）"
    return f"about {left} left, done at about {clock(end.p50)} (nine times in ten by {by})"


def expected(forecast: Forecast | None, now: float, clock: Callable[[float], str], chinese: bool = False) -> list[str]:
    """What is expected of an experiment: where it stands while none of its runs has a card, and when it ends."""
    if forecast is None:
        return []
    said = [place_words(forecast.next, now, chinese)] if forecast.next and not forecast.running else []
    why = sorted(set(forecast.stuck.values()))
    said += [f"等待：{reason}" if chinese else f"waits: {reason}" for reason in why]
    return said + ([end_words(forecast.end, now, clock, chinese)] if forecast.end else [])


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
