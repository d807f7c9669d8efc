"""Large bodies take turns in a process, small ones pass beside each other, and nobody waits for ever."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from ingest.at_once import Room
from ingest.errors import IngestError


def test_what_fits_is_let_in_at_once() -> None:
    """Ordinary bodies are read beside each other."""
    room = Room()
    with room.taken(40, 100, 0), room.taken(60, 100, 0), pytest.raises(IngestError) as refused, room.taken(1, 100, 0):
        pass
    assert (refused.value.status, refused.value.code) == (503, "busy")
    assert refused.value.extra["retry_after"] > 0 and "100 bytes" in refused.value.detail


def test_a_body_over_all_the_room_is_read_alone() -> None:
    """A limit that is set low refuses nobody for good."""
    room = Room()
    with room.taken(500, 100, 0), pytest.raises(IngestError), room.taken(1, 100, 0):
        pass
    with room.taken(1, 100, 0), pytest.raises(IngestError), room.taken(500, 100, 0):
        pass


def test_room_comes_back_whatever_happened() -> None:
    """A fault in the block gives back what it held."""
    room = Room()
    for _ in range(3):
        with pytest.raises(RuntimeError), room.taken(100, 100, 0):
            raise RuntimeError
    with room.taken(100, 100, 0):
        pass


def test_large_bodies_take_turns() -> None:
    """Of many threads never two hold more together than there is, and each comes to its turn."""
    room, lock = Room(), threading.Lock()
    held = most = 0

    def read(_: int) -> None:
        nonlocal held, most
        with room.taken(60, 100, 30):
            with lock:
                held += 60
                most = max(most, held)
            threading.Event().wait(0.005)
            with lock:
                held -= 60

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(read, range(24)))
    assert most == 60


def test_a_large_body_is_not_overtaken() -> None:
    """While a large one waits, a small one that would fit beside what is read now waits behind it."""
    room = Room()
    in_order: list[str] = []

    def read(name: str, n_bytes: int) -> None:
        with room.taken(n_bytes, 100, 30):
            in_order.append(name)

    with ThreadPoolExecutor(3) as pool:
        with room.taken(50, 100, 0):
            large = pool.submit(read, "large", 90)
            await_waiting(room, 1)
            small = pool.submit(read, "small", 10)
            await_waiting(room, 2)
            assert in_order == []
        for one in (large, small):
            one.result()
    assert in_order == ["large", "small"]


def test_who_gives_up_lets_the_next_one_in() -> None:
    """The place of one that was refused is not kept."""
    room = Room()
    with room.taken(50, 100, 0):
        with pytest.raises(IngestError), room.taken(90, 100, 0.01):
            pass
        with room.taken(10, 100, 0):
            pass


def await_waiting(room: Room, number: int) -> None:
    """Wait until that many bodies wait for room."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if len(room._waiting) == number:
            return
        threading.Event().wait(0.005)
    raise AssertionError(f"not {number} bodies wait")
