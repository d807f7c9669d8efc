"""What this process knows of the transcripts of its runs, so that a turn costs what is new in it, not all there is.

A position is written once and never changes, so what was read stays true whoever wrote it and nothing needs to be
invalidated. That a position is empty is never remembered: another worker may fill it, and the store is asked each
time. Bounded in runs and bytes; what is dropped is read again. (Seed 001 §15.)
"""

import json
import sys
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter, eq
from typing import Final, overload

from contract.text import estimate_tokens
from kernel.core.history import check_history
from kernel.drivers import ToolOffer
from kernel.drivers.rendering import message_hash
from kernel.edge.transcript import Entry, TranscriptGap, TranscriptStore
from kernel.messages import Message, SentMessage
from kernel.tools.catalogue import Catalogue

MAX_RUNS: Final = 256
MAX_BYTES: Final = 64 * 1024 * 1024  # of all runs' messages together
MESSAGE_BYTES: Final = 600  # of one message, beside its texts

_seq: Final = attrgetter("seq")


@dataclass(frozen=True, slots=True)
class KnownTools:
    """The tools of a prepared run, and how a model is told of them."""

    catalogue: Catalogue
    offers: tuple[ToolOffer, ...]


class KnownRun:
    """The beginning of one run's transcript and what was counted of it; it only ever grows."""

    __slots__ = ("checked", "context", "first_use", "messages", "reused_at", "size", "tokens", "tools")

    def __init__(self) -> None:
        self.tools: KnownTools | None = None
        self.messages: list[Message] = []
        self.tokens = [0]  # of the first n messages
        self.context: list[SentMessage] = []
        self.first_use: dict[str, int] = {}  # call id -> position of the message that used it first
        self.reused_at: int | None = None  # the first message with a call id of an earlier one
        self.checked = 0  # so many messages are a legal history
        self.size = 0

    def add(self, message: Message) -> None:
        """Take in the message at the next position."""
        seq = len(self.messages)
        self.messages.append(message)
        self.tokens.append(self.tokens[-1] + message_tokens(message))
        self.size += _size(message)
        if message.role == "context":
            self.context.append(SentMessage(seq, seq, message_hash(message)))
        for call in message.calls:
            if self.first_use.setdefault(call.call_id, seq) != seq and self.reused_at is None:
                self.reused_at = seq


class History(Sequence[Message]):
    """The first messages of a run's transcript, as one request has them. Equal to any sequence of the same messages."""

    __slots__ = ("_known", "_stop")

    def __init__(self, known: KnownRun, stop: int) -> None:
        """`known` holds at least `stop` messages; what it learns later is not seen here."""
        self._known = known
        self._stop = stop

    @property
    def tokens(self) -> int:
        """The estimated tokens of all messages."""
        return self._known.tokens[self._stop]

    def sent_context(self, start: int) -> tuple[SentMessage, ...]:
        """Return where the context messages from position `start` on stand in the request, and the hash of each."""
        context = self._known.context
        first = bisect_left(context, start, key=_seq)
        return tuple(context[first : bisect_left(context, self._stop, first, key=_seq)])

    def uses(self, call_id: str) -> bool:
        """Return whether a message has a call with this id."""
        return self._known.first_use.get(call_id, self._stop) < self._stop

    def check(self) -> None:
        """Raise ProtocolViolation unless these messages may be sent; what was found legal is not looked at again."""
        known, stop = self._known, self._stop
        reused = known.reused_at is not None and known.reused_at < stop
        checked = 0 if reused else min(known.checked, stop)
        check_history(known.messages if len(known.messages) == stop else self, checked)
        known.checked = max(known.checked, stop)

    def __len__(self) -> int:
        return self._stop

    def __iter__(self) -> Iterator[Message]:
        return islice(self._known.messages, self._stop)

    @overload
    def __getitem__(self, place: int) -> Message: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Message, ...]: ...
    def __getitem__(self, place: int | slice) -> Message | tuple[Message, ...]:
        if isinstance(place, slice):
            return tuple(self._known.messages[position] for position in range(*place.indices(self._stop)))
        if not -self._stop <= place < self._stop:
            raise IndexError(f"no message {place} among {self._stop}")
        return self._known.messages[place if place >= 0 else place + self._stop]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(other) == self._stop and all(map(eq, self, other))

    def __repr__(self) -> str:
        return f"History({list(self)!r})"


class Histories:
    """A transcript store that remembers what it was told: the store of the edges of one process."""

    def __init__(self, store: TranscriptStore, *, max_runs: int = MAX_RUNS, max_bytes: int = MAX_BYTES) -> None:
        """`store` holds the truth; it is not closed with this."""
        self._store = store
        self._max_runs = max_runs
        self._max_bytes = max_bytes
        self._runs: OrderedDict[str, KnownRun] = OrderedDict()
        self._size = 0

    async def history(self, run_id: str, stop: int) -> History:
        """Return the first `stop` messages; only those not known here are read. Raises TranscriptGap."""
        known = self._known(run_id)
        start = len(known.messages)
        if start < stop:
            self._learn(run_id, known, start, await self._store.read(run_id, stop, start))
        return History(known, stop)

    async def message(self, run_id: str, seq: int) -> Message | None:
        """Return the message at a position, when there is one."""
        known = self._known(run_id)
        if seq < len(known.messages):
            return known.messages[seq]
        entry = await self._store.entry(run_id, seq)
        return None if entry is None else entry.message

    async def tools(self, run_id: str) -> KnownTools:
        """Return the tools of a run. Raises TranscriptGap for a run that was not prepared."""
        known = self._known(run_id)
        if known.tools is None:
            record = await self._store.run_record(run_id)
            if record is None:
                raise TranscriptGap(f"run {run_id} was not prepared")
            catalogue = Catalogue.from_json(json.loads(record)["catalogue"])
            offers = tuple(ToolOffer(tool.name, tool.description, tool.schema) for tool in catalogue.tools)
            known.tools = KnownTools(catalogue, offers)
        return known.tools

    def forget(self, run_id: str) -> None:
        """Drop what is known of a run; it is read again when it is needed again."""
        known = self._runs.pop(run_id, None)
        if known is not None:
            self._size -= known.size

    async def write(self, run_id: str, seq: int, message: Message, outcome: str = "") -> Entry:
        entry = await self._store.write(run_id, seq, message, outcome)
        self._learn(run_id, self._known(run_id), seq, (entry.message,))
        return entry

    async def entry(self, run_id: str, seq: int) -> Entry | None:
        return await self._store.entry(run_id, seq)

    async def read(self, run_id: str, stop: int, start: int = 0) -> tuple[Message, ...]:
        return (await self.history(run_id, stop))[start:]

    async def begin_call(self, run_id: str, seq: int) -> bool:
        return await self._store.begin_call(run_id, seq)

    async def save_run(self, run_id: str, record: str) -> str:
        return await self._store.save_run(run_id, record)

    async def run_record(self, run_id: str) -> str | None:
        return await self._store.run_record(run_id)

    async def close(self) -> None:
        await self._store.close()

    def _known(self, run_id: str) -> KnownRun:
        """Return what is known of a run, which from now on is the one used last."""
        known = self._runs.get(run_id)
        if known is None:
            known = self._runs[run_id] = KnownRun()
            self._drop_oldest()
        else:
            self._runs.move_to_end(run_id)
        return known

    def _learn(self, run_id: str, known: KnownRun, start: int, messages: Sequence[Message]) -> None:
        """Take in messages from position `start` on, as far as they follow what is known."""
        there = len(known.messages)
        if start > there:
            return
        before = known.size
        for message in messages[there - start :] if start < there else messages:
            known.add(message)
        if self._runs.get(run_id) is known:  # it may have been dropped while the store was read
            self._size += known.size - before
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        """Keep within the bounds; the run used last stays, however large it is."""
        while len(self._runs) > 1 and (len(self._runs) > self._max_runs or self._size > self._max_bytes):
            _, dropped = self._runs.popitem(last=False)
            self._size -= dropped.size


def _size(message: Message) -> int:
    size = MESSAGE_BYTES + sys.getsizeof(message.text)
    for call in message.calls:
        size += MESSAGE_BYTES + sys.getsizeof(call.arguments)
    return size


def message_tokens(message: Message) -> int:
    """Return the estimated tokens of one message, its calls included."""
    tokens = estimate_tokens(message.text)
    for call in message.calls:
        tokens += estimate_tokens(call.name + call.arguments)
    return tokens
