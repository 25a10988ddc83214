from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

import pytest

from keeper.cards import SimulatedCards, assign_roles, card_source, kept_card
from lab.card import Card
from lab.errors import ConfigError


def cards(*lost: bool) -> list[Card]:
    return [
        Card(uuid=f"GPU-{index}", index=index, name="L20X", host="n", lost=is_lost)
        for index, is_lost in enumerate(lost)
    ]


FOUR = cards(False, False, False, False)


@pytest.mark.parametrize(
    ("there", "reserve_last", "roles"),
    [
        (FOUR, None, ["train", "train", "train", "keeper"]),
        (FOUR, True, ["train", "train", "train", "keeper"]),
        (FOUR, False, ["train", "train", "train", "train"]),
        (cards(False, False), None, ["train", "keeper"]),
        (cards(False), None, ["shared"]),
        (cards(False), True, ["shared"]),
        (cards(False), False, ["train"]),
        ([], None, []),
        (cards(False, False, True), None, ["train", "keeper", "lost"]),
        (cards(True, False, False), None, ["lost", "train", "keeper"]),
        (cards(True, False, True), None, ["lost", "shared", "lost"]),
        (cards(True, False), False, ["lost", "train"]),
        (cards(True, True), None, ["lost", "lost"]),
    ],
)
def test_all_but_the_last_card_that_works_train(there: list[Card], reserve_last: bool | None, roles: list[str]) -> None:
    assigned = assign_roles(there, reserve_last)

    assert ["lost" if card.lost else card.role for card in assigned] == roles
    assert all(card.role == "none" for card in assigned if card.lost)


def test_the_keeper_has_the_reserved_or_the_shared_card_and_never_a_lost_one() -> None:
    assert kept_card(assign_roles(FOUR)) == assign_roles(FOUR)[3]
    assert kept_card(assign_roles(FOUR, False)) is None
    assert kept_card(assign_roles(cards(True, False))) == assign_roles(cards(True, False))[1]
    assert kept_card(assign_roles(cards(True, True))) is None


def test_chosen_cards_are_the_only_ones_and_stay_in_pci_order() -> None:
    assigned = assign_roles(FOUR, None, False, ["GPU-2", "GPU-0"])

    assert [(card.uuid, card.role) for card in assigned] == [("GPU-0", "train"), ("GPU-2", "keeper")]


@pytest.mark.parametrize(
    ("auto_detect", "chosen", "problem"),
    [
        (False, ["GPU-0", "GPU-9"], "GPU-9 is not on this host, which has GPU-0, GPU-1, GPU-2, GPU-3"),
        (False, [], "it must list UUIDs; this host has GPU-0, GPU-1, GPU-2, GPU-3"),
        (True, ["GPU-0"], "needs gpu.auto_detect: false"),
    ],
)
def test_a_choice_that_does_not_fit_names_the_key_and_what_is_there(
    auto_detect: bool, chosen: list[str], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem) as error:
        assign_roles(FOUR, None, auto_detect, chosen)

    assert error.value.key == "gpu.cards"


def test_simulated_cards_are_stable_and_say_what_they_are() -> None:
    first, second = card_source("n", 2).read()

    assert (first.uuid, second.uuid) == ("SIM-n-0", "SIM-n-1")
    assert (first.name, first.index, first.simulated) == ("Simulated card", 0, True)
    assert (first.memory_used_bytes, first.utilization_pct, first.processes) == (0, 0.0, ())
    assert first.memory_total_bytes


def test_a_simulated_card_shows_the_process_that_truly_runs_on_it() -> None:
    running: Mapping[str, list[int]] = {"SIM-n-1": [os.getpid()]}
    source = SimulatedCards("n", 2, lambda: running)
    source.read()
    until = os.times().user + 0.1
    while os.times().user < until:
        pass

    idle, busy = source.read()

    assert (idle.utilization_pct, idle.processes) == (0.0, ())
    assert [process.pid for process in busy.processes] == [os.getpid()]
    assert (busy.memory_used_bytes or 0) > 1024**2
    assert 0 < (busy.utilization_pct or 0) <= 100
    assert (busy.temperature_c or 0) > (idle.temperature_c or 0)


def test_a_process_that_ended_leaves_its_simulated_card_even_as_a_zombie() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    source = SimulatedCards("n", 1, lambda: {"SIM-n-0": [child.pid]})
    before = source.read()[0]

    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    zombie = source.read()[0]
    child.communicate()
    gone = source.read()[0]

    assert len(before.processes) == 1
    assert (zombie.processes, zombie.memory_used_bytes) == ((), 0)
    assert gone.processes == ()
