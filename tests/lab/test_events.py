"""The event stream: in order, replayed until acknowledged."""

from __future__ import annotations

import time
from threading import Timer

from lab import events
from lab.events import Consumer, Event
from lab.store import Client


def write(client: Client, *subjects: str) -> None:
    """One event a subject."""
    with client.pipeline() as pipe:
        for subject in subjects:
            events.write(pipe, Event(kind="run.queued", subject=subject, data={"n": 1}))
        pipe.execute()


def test_what_was_not_acknowledged_comes_again_after_a_restart(store: Client) -> None:
    """The courier must not forget a message that it had read and not posted."""
    write(store, "a", "b")
    first = Consumer(store, "courier").read(block_ms=1)
    Consumer(store, "courier").acknowledge(first[0])

    restarted = Consumer(store, "courier")
    again = restarted.read(block_ms=1)
    restarted.acknowledge(again[0])
    write(store, "c")
    after = restarted.read(block_ms=1)

    assert [event.subject for event in first] == ["a", "b"]
    assert [event.subject for event in again] == ["b"]
    assert [event.subject for event in after] == ["c"]


def test_each_group_has_its_own_place(store: Client) -> None:
    """Two readers do not take events from each other."""
    write(store, "a")

    groups = [Consumer(store, name).read(block_ms=1) for name in ("courier", "alerts")]

    assert [[event.subject for event in group] for group in groups] == [["a"], ["a"]]


def test_a_consumer_survives_the_loss_of_the_stream(store: Client) -> None:
    """A flushed Redis must not stop the courier for good."""
    consumer = Consumer(store, "courier")
    store.flushdb()

    lost = consumer.read(block_ms=1)
    write(store, "a")

    assert lost == []
    assert [event.subject for event in consumer.read(block_ms=1)] == ["a"]


def test_what_cannot_be_read_hides_nothing_behind_it(store: Client) -> None:
    """One entry of another version must not silence the courier."""
    store.xadd(events.STREAM, {"data": "{"})
    write(store, "a")
    store.xadd(events.STREAM, {"kind": "of another version"})

    heard = Consumer(store, "courier").read(block_ms=1)
    again = Consumer(store, "courier").read(block_ms=1)

    assert [event.subject for event in heard] == [event.subject for event in again] == ["a"]
    assert [event.subject for event, _ in zip(events.follow(store, "0", 1), "x", strict=False) if event] == ["a"]


def test_what_the_stream_dropped_hides_nothing_behind_it(store: Client) -> None:
    """The stream is trimmed while a courier is down for weeks."""
    write(store, "a")
    Consumer(store, "courier").read(block_ms=1)
    store.xtrim(events.STREAM, maxlen=0)
    write(store, "b")

    restarted = Consumer(store, "courier")
    heard = [event.subject for _ in range(3) for event in restarted.read(block_ms=1)]

    assert heard == ["b"]


def test_a_follower_sees_everything_after_its_place(store: Client) -> None:
    """It gets each event once and None while nothing happens."""
    write(store, "a")
    place = events.newest_id(store)
    write(store, "b")

    seen = events.follow(store, place, block_ms=1)

    first = next(seen)
    assert first
    assert (first.subject, first.data) == ("b", {"n": 1})
    assert next(seen) is None


def test_waiting_ends_with_the_next_event(store: Client) -> None:
    """Dispatch wakes on events, and by itself when there is none."""
    place = events.newest_id(store)
    Timer(0.1, write, (store, "a")).start()
    began = time.monotonic()

    newest = events.wait(store, place, block_ms=5000)

    assert time.monotonic() - began < 2
    assert newest == events.newest_id(store) != place
    assert events.wait(store, newest, block_ms=1) == newest
