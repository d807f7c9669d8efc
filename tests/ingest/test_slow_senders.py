"""Which senders are waited for no longer."""

import socket

from ingest.slow_senders import SlowSenders, Wait, too_slow


def waits(*began: float) -> list[Wait]:
    return [Wait(socket.socket(), since, since + 30) for since in began]


def test_quick_ones_are_never_ended() -> None:
    """However many they are."""
    assert too_slow(waits(*[9.5] * 50), 10.0, 0) == []


def test_of_slow_ones_the_first_stay() -> None:
    """So that they come to their end one after the other."""
    given = waits(5.0, 3.0, 4.0, 9.9)
    assert too_slow(given, 10.0, 2) == [given[0]]


def test_nobody_is_waited_for_longer_than_the_limit() -> None:
    """Also when there are few slow ones."""
    given = waits(0.0, 20.0)
    assert too_slow(given, 30.5, 4) == [given[0]]


def test_a_thread_that_waits_too_long_goes_on() -> None:
    """The waiting read ends, and the connection can still be answered."""
    ours, theirs = socket.socketpair()
    with ours, theirs, SlowSenders().watched(ours, 1.1, 4) as wait:
        assert ours.recv(1) == b""
        ours.sendall(b"503")
        assert (wait.is_ended, theirs.recv(3)) == (True, b"503")
