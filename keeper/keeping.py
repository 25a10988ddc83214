"""One card being kept: the hold, how much it computes, what can be shown of it, and what it costs."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from keeper.duty import DutyController
from keeper.hold import Hold
from keeper.policy import Policy
from keeper.proof import Judgement, Proof
from lab.card import Card, KeeperState, KeeperStatus
from lab.cardtable import strangers

log = logging.getLogger(__name__)

BACK_S = 5.0
"""How long a shared card must be without a run until the keeper returns: the next run comes sooner than that."""

MakeHold = Callable[[Card, Policy], Hold]


def make_hold(card: Card, policy: Policy) -> Hold:
    """The hold of a card by its UUID."""
    return Hold(card.uuid, ["--uuid", card.uuid], policy.interval_s, mode=policy.mode, simulate=card.simulated)


class Keeping:
    """Keeps one card as the policy says; belongs to one thread, which must outlive the hold's process.

    Args:
        held_s: for how long earlier keepers held it, which counts.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        card: Card,
        policy: Policy,
        make: MakeHold = make_hold,
        clock: Callable[[], float] = time.monotonic,
        held_s: float = 0.0,
    ) -> None:
        self.card = card.uuid
        self.policy = policy
        self.hold = make(card, policy)
        self._clock = clock
        self._proof = Proof(policy)
        self._controller = DutyController(policy.target_pct) if policy.mode == "duty" else None
        self._judgement: Judgement | None = None
        self._stepped_at = clock()
        self.held_s = held_s
        self._away_until: float | None = None
        self._read_at = 0.0
        self._duty: float | None = None
        self._state: KeeperState = "starting"

    def step(self, card: Card | None, in_use: bool = False) -> None:
        """The hold is looked after, and the newest reading used.

        Args:
            card: the card with its reading; None while the cards cannot be read.
            in_use: a run holds the card, so the keeper leaves it at once.
        """
        now = self._clock()
        elapsed_s, self._stepped_at = now - self._stepped_at, now
        before, self._state = self._state, self._wanted(now, in_use)
        if self._state in ("away", "expired", "refused"):
            if before != self._state:
                self._left()
        else:
            self.held_s += elapsed_s
            self.hold.step()
            self._state = self._seen()
        self._use_reading(now, card, in_use)

    def renew(self) -> None:
        """The time for which the card may be held begins anew, and with it what it cost."""
        self.held_s = 0.0

    def stop(self) -> None:
        """Nothing of the keeper is on the card; takes less than a second."""
        self.hold.stop()
        cost = self.policy.cost(self.held_s)
        log.info(
            "%s: held for %.2f h%s", self.card, self.held_s / 3600, "" if cost is None else f", which cost {cost:.2f}"
        )

    def let_go(self) -> None:
        """The hold's process was told to end; fits into a signal handler."""
        self.hold.let_go()

    @property
    def status(self) -> KeeperStatus:
        """What is published of it."""
        policy, judged = self.policy, self._judgement
        held = self.hold.status or KeeperStatus(card=self.card)
        changes = {
            "mode": policy.mode,
            "state": "yielding" if self._yields() else self._state,
            "platform": policy.platform.name,
            "threshold_pct": policy.threshold_pct,
            "window_s": policy.window_s,
            "verdict": judged.verdict if judged else "unverified",
            "reason": judged.reason if judged else None,
            "utilization_pct": judged.utilization_pct if judged else None,
            "held_s": round(self.held_s, 1),
            "max_hold_s": policy.max_hold_s,
            "price_per_hour": policy.price_per_hour,
            "cost": policy.cost(self.held_s),
            "problem": self._problem(held),
        }
        return held.model_copy(update=changes)

    def _wanted(self, now: float, in_use: bool) -> KeeperState:
        if self.policy.platform.forbidden:
            return "refused"
        if self.policy.max_hold_s is not None and self.held_s >= self.policy.max_hold_s:
            return "expired"
        if in_use:
            self._away_until = now + BACK_S
        if self._away_until is not None and now < self._away_until:
            return "away"
        self._away_until = None
        return "starting"

    def _seen(self) -> KeeperState:
        status = self.hold.status
        if status is not None and status.problem is not None:
            return "failing"
        if status is None or status.beats == 0:
            return "starting"
        return "holding"

    def _yields(self) -> bool:
        return self._state == "holding" and self._controller is not None and self._controller.resting

    def _left(self) -> None:
        self.hold.stop()
        self._duty = None
        log.log(
            logging.INFO if self._state == "away" else logging.WARNING,
            "%s: %s",
            self.card,
            self._problem(None) or "left to the run on it",
        )

    def _problem(self, held: KeeperStatus | None) -> str | None:
        if self._state == "refused":
            return self.policy.platform.forbidden
        if self._state == "expired" and self.policy.max_hold_s is not None:
            hours = self.policy.max_hold_s / 3600
            return f"let go after {hours:g} h (keeper.max_hold_hours); `overnight keeper hold` begins anew"
        return held.problem if held is not None and self._state != "away" else None

    def _use_reading(self, now: float, card: Card | None, in_use: bool) -> None:
        """The reading counts once, however often it is seen; without a new one the window empties by itself."""
        reading = card if card is not None and card.uuid == self.card and card.read_at != self._read_at else None
        if reading is not None:
            self._read_at = reading.read_at
            self._proof.add(now, reading.utilization_pct)
        self._judge(now)
        if self._controller is None or self._state in ("away", "expired", "refused"):
            return
        pid = self.hold.status.pid if self.hold.status else None
        others = in_use or (card is not None and bool(strangers(card, pid)))
        was_resting = self._controller.resting
        self._duty = self._controller.step(now, reading.utilization_pct if reading else None, others)
        self.hold.say(self._duty)
        if self._controller.resting != was_resting:
            what = "rests, others work on it" if self._controller.resting else "computes again"
            log.info("%s: the keeper %s", self.card, what)

    def _judge(self, now: float) -> None:
        before, self._judgement = self._judgement, self._proof.judge(now)
        if before is None or before.verdict != self._judgement.verdict:
            level = logging.WARNING if self._judgement.verdict == "ineffective" else logging.INFO
            log.log(level, "%s: the keeper is %s: %s", self.card, self._judgement.verdict, self._judgement.reason)
