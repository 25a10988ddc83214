from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from lab.card import Card, CardProcess, HostCards, KeeperStatus
from lab.cardtable import MIB, CardUse, free, table, usable, why_not_free

NOW = 100_000.0
USE = CardUse("exp-12/3", "resnet50", 12345)


def card(index: int, **fields: object) -> Card:
    usual: dict[str, object] = {
        "uuid": f"GPU-{index}",
        "index": index,
        "name": "L20X 144GB",
        "host": "node07",
        "memory_total_bytes": 147456 * MIB,
        "memory_used_bytes": 234 * MIB,
        "utilization_pct": 0.0,
        "temperature_c": 35.0,
        "read_at": NOW - 1,
    }
    return Card.model_validate(usual | fields)


def keeper(uuid: str, **fields: object) -> KeeperStatus:
    return KeeperStatus.model_validate({"card": uuid, "pid": 900, "beats": 3, **fields})


def host(*cards: Card, **fields: object) -> HostCards:
    return HostCards.model_validate({"host": "node07", "cards": cards, "published_at": NOW, **fields})


def note(one: Card, use: CardUse | None = None, status: KeeperStatus | None = None) -> str:
    text = table([host(one, keeper=status)], {one.uuid: use} if use else {}, NOW)
    return text.splitlines()[1].split("← ")[1]


def test_the_table_has_the_form_that_the_design_shows() -> None:
    cards = (
        card(0, memory_used_bytes=45123 * MIB, utilization_pct=98.0, temperature_c=72.0),
        card(1),
        card(3, role="keeper", memory_used_bytes=1024 * MIB, utilization_pct=12.0, temperature_c=40.0),
    )

    text = table([host(*cards, keeper=keeper("GPU-3"))], {"GPU-0": USE}, NOW)

    assert text == (
        "GPU  Name        Memory            Util  Temp\n"
        "0    L20X 144GB  45123/147456 MiB   98%  72°C  ← training exp-12/3 resnet50 (PID 12345)\n"
        "1    L20X 144GB    234/147456 MiB    0%  35°C  ← FREE\n"
        "3    L20X 144GB   1024/147456 MiB   12%  40°C  ← keeper"
    )


def test_hosts_are_named_when_there_are_several_and_a_failed_one_shows_its_problem() -> None:
    simulated = card(0, uuid="SIM-a-0", name="Simulated card", simulated=True, memory_total_bytes=8192 * MIB)
    hosts = [
        host(simulated, host="a", simulated=True),
        host(host="b", problem="there is no NVIDIA driver here"),
        host(host="c"),
    ]

    text = table(hosts, {}, NOW)

    assert text == (
        "a\n"
        "GPU  Name            Memory        Util  Temp  (simulated: these cards train on the CPU)\n"
        "0    Simulated card  234/8192 MiB    0%  35°C  ← FREE\n"
        "\n"
        "b\n"
        "the cards cannot be read: there is no NVIDIA driver here\n"
        "\n"
        "c\n"
        "no cards"
    )


def test_no_host_at_all_says_what_is_missing() -> None:
    assert "overnight keep" in table([], {}, NOW)


def test_unknown_fields_are_shown_as_unknown() -> None:
    unknown = card(0, memory_used_bytes=None, utilization_pct=None, temperature_c=None)
    nothing = unknown.model_copy(update={"memory_total_bytes": None})

    rows = table([host(unknown, nothing)], {}, NOW).splitlines()

    assert rows[1] == "0    L20X 144GB  ?/147456 MiB   N/A   N/A  ← FREE"
    assert rows[2] == "0    L20X 144GB           N/A   N/A   N/A  ← FREE"


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (card(0), None),
        (card(0, role="shared"), None),
        (card(0, role="keeper"), "keeper"),
        (card(0, read_at=NOW - 42), "reading 42 s old, not counted as free"),
        (card(0, read_at=NOW - 3600), "reading 60 min old, not counted as free"),
        (card(0, read_at=0), "no reading yet, not counted as free"),
        (card(0, read_at=NOW + 90), "its host's clock is 90 s ahead, not counted as free"),
        (card(0, lost=True, problem="fell off the bus"), "lost: fell off the bus"),
        (card(0, lost=True), "lost: the driver no longer answers for it"),
        (card(0, problem="not answered for 3 s"), "not answered for 3 s"),
        (card(0, processes=(CardProcess(pid=4242, name="python"),)), "in use by PID 4242 (python), not ours"),
        (card(0, processes=(CardProcess(pid=4242),)), "in use by PID 4242, not ours"),
        (card(0, memory_used_bytes=501 * MIB), "501 MiB held by no known process: leaked, or a stranger's"),
        (card(0, xid=79), "faulty, not given out: Xid 79: it fell off the bus"),
        (
            card(0, xid=48, ecc_errors=2),
            "faulty, not given out: Xid 48: an uncorrectable memory error, "
            "2 uncorrectable memory errors since the driver was loaded",
        ),
        (card(0, ecc_errors=0), None),
        (card(0, role="none"), "serves nobody"),
        (card(0, role="none", lost=True), "lost: the driver no longer answers for it"),
        (card(0, role="shared", lost=True), "lost: the driver no longer answers for it"),  # as it was stored before
        (card(0, closing=True), "the keeper takes it back"),
        (card(0, memory_used_bytes=499 * MIB), None),
        (card(0, memory_used_bytes=None), None),
        (card(0, simulated=True, memory_used_bytes=900 * MIB, processes=(CardProcess(pid=1),)), None),
    ],
)
def test_a_card_is_free_or_says_why_not(one: Card, reason: str | None) -> None:
    assert why_not_free(one, None, NOW) == reason
    assert free([host(one)], {}, NOW) == ([one] if reason is None else [])


def test_a_card_that_a_run_holds_is_not_free_and_tells_the_time_left() -> None:
    for eta_s, left in ((30.0, "under 1 min"), (240.0, "about 4 min"), (9000.0, "about 2.5 h")):
        use = CardUse("exp-1/2", "vgg16", None, eta_s)

        assert why_not_free(card(0), use, NOW) == f"training exp-1/2 vgg16, {left} left"
    assert free([host(card(0), card(1))], {"GPU-0": USE}, NOW) == [card(1)]


def test_a_host_whose_cards_cannot_be_read_has_no_free_card() -> None:
    """Never "all free", whatever else it published."""
    failed = host(card(0), problem="driver gone")

    assert free([failed], {}, NOW) == []
    assert usable([failed], NOW) == []


def test_usable_counts_busy_cards_but_no_keeper_and_none_that_cannot_train() -> None:
    cards = (card(0), card(1, lost=True), card(2, read_at=1.0), card(3, role="keeper"), card(4, role="shared"))
    cards += (card(5, role="none"),)

    assert [one.index for one in usable([host(*cards)], NOW)] == [0, 4]
    assert usable([host(card(0, xid=95), card(1, ecc_errors=1))], NOW) == []


def test_the_keepers_own_process_on_a_shared_card_is_no_stranger() -> None:
    process = CardProcess(pid=900, memory_bytes=500 * MIB, name="python")
    shared = card(0, role="shared", memory_used_bytes=520 * MIB, processes=(process,))
    other = shared.model_copy(update={"processes": (process, CardProcess(pid=77, name="blender"))})

    assert free([host(shared, keeper=keeper("GPU-0"))], {}, NOW) == [shared]
    assert why_not_free(shared, None, NOW, keeper("GPU-9")) == "in use by PID 900 (python), not ours"
    assert why_not_free(other, None, NOW, keeper("GPU-0")) == "in use by PID 77 (blender), not ours"
    assert note(shared, status=keeper("GPU-0")) == "FREE, shared with the keeper"


def test_the_keeper_is_known_in_a_container_where_the_driver_tells_the_hosts_process_ids() -> None:
    """nvidia-docker#1483: the ids on the card are then none of ours, and have no name here."""
    context = CardProcess(pid=31337, memory_bytes=400 * MIB)
    trainer = CardProcess(pid=31338, memory_bytes=9000 * MIB)
    shared = card(0, role="shared", processes=(context,))
    unlisted = card(0, role="shared", memory_used_bytes=600 * MIB)

    assert why_not_free(shared, None, NOW, keeper("GPU-0")) is None
    assert why_not_free(unlisted, None, NOW, keeper("GPU-0")) is None
    busy = shared.model_copy(update={"processes": (context, trainer)})
    assert why_not_free(busy, None, NOW, keeper("GPU-0")) == "in use by PID 31338, not ours"


def test_memory_beside_the_keepers_process_is_not_the_keepers() -> None:
    """A trainer that was killed on the shared card may leave its memory there (pytorch#4293)."""
    process = CardProcess(pid=900, memory_bytes=500 * MIB, name="python")
    shared = card(0, role="shared", memory_used_bytes=60_000 * MIB, processes=(process,))

    assert "60000 MiB held by no known process" in (why_not_free(shared, None, NOW, keeper("GPU-0")) or "")


def test_a_run_that_ended_a_moment_ago_is_no_stranger() -> None:
    """Its process still stands in the last reading; the next run need not wait for a new one."""
    one = card(0, memory_used_bytes=9000 * MIB, processes=(CardProcess(pid=12345, name="python"),))

    assert free([host(one)], {}, NOW) == []
    assert free([host(one)], {}, NOW, {"GPU-0": {12345}}) == [one]
    assert free([host(one)], {}, NOW, {"GPU-1": {12345}}) == []


def test_the_note_tells_what_the_card_does_and_what_is_wrong_with_it() -> None:
    assert note(card(0, read_at=NOW - 42), USE) == "training exp-12/3 resnet50 (PID 12345), reading 42 s old"
    assert note(card(0, role="keeper")) == "keeper, not running"
    assert note(card(0, role="keeper"), status=keeper("GPU-0", problem="CUDA error")) == "keeper, CUDA error"
    assert note(card(0, role="keeper", read_at=NOW - 20), status=keeper("GPU-0")) == "keeper, reading 20 s old"
    stranger = card(0, role="keeper", processes=(CardProcess(pid=900), CardProcess(pid=7, name="x")))
    assert note(stranger, status=keeper("GPU-0")) == "keeper, in use by PID 7 (x), not ours"


def test_the_note_tells_what_the_keeper_can_show_and_costs() -> None:
    """An operator who pays for a held card sees whether that does anything."""
    kept = card(0, role="keeper")
    shown = keeper("GPU-0", platform="pai-dsw", verdict="ineffective", reason="it read 0.0 %", cost=3.5, held_s=7200)

    assert note(kept, status=shown) == "keeper, ineffective: it read 0.0 %, cost 3.50 in 2.0 h"
    assert note(kept, status=keeper("GPU-0", mode="duty", state="yielding")) == (
        "keeper, at rest while others work on it, unverified"
    )
    assert note(card(0, closing=True), USE).endswith("(PID 12345), then the keeper takes it back")


def test_a_released_card_says_by_whom_and_for_how_long() -> None:
    for until, words in ((None, "FREE, released by ann"), (NOW + 7200, "FREE, released by ann for about 2.0 h")):
        status = keeper("GPU-0", pid=None, state="released", released_by="ann", released_until=until)

        assert note(card(0), status=status) == words


def test_names_that_others_chose_cannot_break_the_table() -> None:
    """A stranger may call a process what he likes; the table stands in a code block in Slack."""
    evil = CardProcess(pid=7, name="a```\n<!channel>\x1b[31m")

    text = table([host(card(0, name="x" * 60, processes=(evil,)))], {}, NOW)

    assert len(text.splitlines()) == 2
    assert "`" not in text
    assert "\x1b" not in text
    assert "x" * 39 + "…  " in text


@given(
    st.lists(
        st.tuples(
            st.text(st.characters(exclude_categories=["Cs"]), max_size=60),
            st.none() | st.integers(0, 200_000),
            st.none() | st.floats(0, 100),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_arrows_stand_below_each_other_whatever_the_names(rows: list[tuple[str, int | None, float | None]]) -> None:
    """CJK names take two cells a character, combining marks none."""
    cards = [
        card(index, name=name, memory_used_bytes=mib and mib * MIB, utilization_pct=utilization)
        for index, (name, mib, utilization) in enumerate(rows)
    ]

    _, *lines = table([host(*cards)], {}, NOW).split("\n")

    assert len(lines) == len(cards)
    assert len({cell_len(line.rpartition("← ")[0]) for line in lines}) == 1
