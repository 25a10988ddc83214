"""Every error that Overnight raises on purpose, named by who has to act next."""

from __future__ import annotations


class OvernightError(Exception):
    """Something went wrong in a way that Overnight understands; the message says what happened and what to do."""


class RequestError(OvernightError):
    """The asker has to reword: the message says what cannot be done, with the value, and what would work."""


class OperatorError(OvernightError):
    """Whoever runs the lab has to repair something: a setting, a service, a card, a disk."""


class ConfigError(OperatorError):
    """A setting has a value that cannot be used.

    Args:
        key: dotted name of the setting, as in config.example.yaml.
        problem: what is wrong with the value and what was wanted.
    """

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"setting {key!r}: {problem}")
        self.key = key
        self.problem = problem


class StoreAwayError(OperatorError):
    """Redis does not answer; nothing was written."""


class CardError(OperatorError):
    """A card cannot be read or used; names the card."""


class ModelError(OvernightError):
    """The language model gave nothing usable (away, slow, nonsense); the reader's plan stands."""


def _refusal(subject: str, state: str, wanted: str) -> str:
    return f"{subject} is {state} already" if state == wanted else f"{subject} is {state}, so it cannot become {wanted}"


class MoveRefused(OvernightError):
    """A record was not in a state from which the move is allowed; nothing was written.

    Args:
        subject: id of the record, `exp-12` or `exp-12/3`.
        state: the state it was found in.
        wanted: the state that was asked for.
    """

    def __init__(self, subject: str, state: str, wanted: str) -> None:
        super().__init__(_refusal(subject, state, wanted))
        self.subject = subject
        self.state = state
        self.wanted = wanted


class UnknownRecord(RequestError):
    """No record has this id."""

    def __init__(self, subject: str) -> None:
        super().__init__(f"there is no {subject}; `overnight list` shows what there is")
        self.subject = subject


class FenceError(OvernightError):
    """A newer attempt of the run exists; what this attempt wanted to write was refused."""

    def __init__(self, run_id: str, fence: int, newest: int) -> None:
        super().__init__(f"{run_id}: attempt with fence {fence} is over, fence {newest} holds the run now")
        self.run_id = run_id
        self.fence = fence
        self.newest = newest


class LeaseRefused(OvernightError):
    """The card or the run is held by somebody else, or the run is over; the claim took nothing."""

    def __init__(self, subject: str, reason: str) -> None:
        super().__init__(f"{subject}: {reason}")
        self.subject = subject
        self.reason = reason
