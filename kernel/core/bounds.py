"""How large the parts of a run's state may grow, and the cuts that keep them there.

The whole stays under STATE_BYTES and the activation part under ACTIVATION_BYTES, counted in UTF-8 bytes of its
JSON, for ids of usual length. (Seed 001 §8.)
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from contract.redaction import redact
from contract.text import clip
from kernel.core.codec import to_json
from kernel.core.state import ActivationState, Call, EndedOperation

STATE_BYTES: Final = 64 * 1024
ACTIVATION_BYTES: Final = 8 * 1024
PROCESSED_LIMIT: Final = 256  # situations remembered
PROCESSED_KEY: Final = 16  # hex digits kept of a situation key
SUPPRESSED_LIMIT: Final = 32
DEFERRED_LIMIT: Final = 4
DEFERRED_BYTES: Final = 600  # of a deferred candidate's diagnostic
DEFERRED_SHOWN: Final = 120  # bytes of its fingerprint
DEFERRED_ARGUMENTS: Final = 160  # bytes of what was called: the command stands at their start
TASK_BYTES: Final = 6_144  # of the task, as searches are made with it
TURN_TEXT_BYTES: Final = 14_000  # of the diagnostics and results kept of one turn, all calls and operations together
LEAST_TEXT_BYTES: Final = 120  # kept of each even when those before it used up the turn's share
EVENTS_BYTES: Final = 8_000  # of waiting events, beyond which they are sent before the boundary
ENVELOPE_BYTES: Final = 400  # of one event, beside its data
REPLIES_BYTES: Final = 24_500  # of the replies of one turn that the core writes itself, beyond which they are cut
ARGUMENTS_BYTES: Final = 8_000  # of the arguments of one reply's calls that the core answers itself
METADATA_LIMIT: Final = 2_048  # code points of what a driver gives with an ending, as JSON
FIXED_BYTES: Final = 200  # of the names and counters of the activation part
NUMBER_BYTES: Final = 16  # of a number beside a text, with the signs around both
SUPPRESSED_BYTES: Final = 80  # of the names and numbers of a suppressed item
TORN: Final = 400  # code points that a secret cut in two may have
LEFT_OUT: Final = "… [the rest was left out]"
LOOK: Final = 4  # times a limit, beyond which a text is not looked at
CUT: Final = " … "  # stands where a text was cut in the middle
MALFORMED_LIMIT: Final = 200  # code points kept of what is wrong with arguments


def clip_bytes(text: str, limit: int) -> str:
    """Return `text` cut to at most `limit` bytes of UTF-8, never inside a character."""
    raw = text.encode("utf-8", "replace")
    return text if len(raw) <= limit else raw[:limit].decode("utf-8", "ignore")


def cleaned(text: str, limit: int) -> str:
    """Return the start of a text somebody wrote, redacted and within `limit` code points; a cut is told.

    Only as much is looked at as can be kept: a workflow has no time for megabytes.
    """
    clean = redact(text[: LOOK * limit])[0]
    if len(text) < LOOK * limit:
        return clip(clean, limit)
    # Where the look ends a secret may have been cut in two: that end is never kept.
    return clean[: -min(TORN, len(clean))][: max(0, limit - len(LEFT_OUT))] + LEFT_OUT


def clip_shown(text: str, limit: int) -> str:
    """Return `text` within about `limit` bytes; what a person is not shown is said."""
    kept = clip_bytes(text, limit)
    return text if kept == text else f"{kept}… [{len(text) - len(kept)} more characters]"


def json_bytes(text: str) -> int:
    """Return the bytes a text takes as JSON."""
    return len(to_json([text]).encode("utf-8", "replace")) - 2


def clip_middle(text: str, limit: int) -> str:
    """Return `text` within `limit` bytes of UTF-8: its beginning and, as what matters comes last, more of its end."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit:
        return text
    room = limit - len(CUT.encode())
    head = room // 4
    return raw[:head].decode("utf-8", "ignore") + CUT + raw[-(room - head) :].decode("utf-8", "ignore")


def room_for_text(calls: Sequence[Call], ended: Sequence[EndedOperation]) -> int:
    """Return the bytes of text that may still be kept of the current turn."""
    ones: list[Call | EndedOperation] = [*calls, *ended]
    kept = [text for one in ones for text in (one.diagnostic, one.excerpt, one.tool_arguments)]
    return max(LEAST_TEXT_BYTES, TURN_TEXT_BYTES - sum(len(text.encode("utf-8", "replace")) for text in kept))


def failure_texts(diagnostic: str, tool_arguments: str, room: int) -> tuple[str, str]:
    """Return what a failure said and what it was called with, together within `room` bytes while there is room."""
    called = clip_bytes(tool_arguments, room // 4)
    return clip_middle(diagnostic, max(LEAST_TEXT_BYTES, room - len(called.encode("utf-8", "replace")))), called


def bounded(activation: ActivationState) -> ActivationState:
    """Return the state within its limits: what was suppressed and processed longest ago is forgotten first.

    Forgetting costs at most a search or an offer made twice; issued ids and deferred candidates are never dropped.
    """
    if len(activation.processed) > PROCESSED_LIMIT or len(activation.suppressed) > SUPPRESSED_LIMIT:
        kept = activation.processed[-PROCESSED_LIMIT:], activation.suppressed[-SUPPRESSED_LIMIT:]
        activation = replace(activation, processed=kept[0], suppressed=kept[1])
    while (activation.processed or activation.suppressed) and _size(activation) > ACTIVATION_BYTES:
        if activation.suppressed:
            activation = replace(activation, suppressed=activation.suppressed[1:])
        else:
            activation = replace(activation, processed=activation.processed[1:])
    return activation


def _size(activation: ActivationState) -> int:
    """Return no less than the bytes of the state's JSON, counted in parts: writing it out would cost too much."""
    texts = (*activation.issued, *activation.met_servers, *(name for name, _ in activation.used_by))
    suppressed = sum(_text_bytes(one.knowledge_id) + _text_bytes(one.reason) for one in activation.suppressed)
    return (
        FIXED_BYTES
        + sum(_text_bytes(text) + NUMBER_BYTES for text in texts)
        + len(activation.processed) * (PROCESSED_KEY + NUMBER_BYTES)
        + suppressed
        + len(activation.suppressed) * SUPPRESSED_BYTES
        + sum(len(to_json(one).encode("utf-8", "replace")) + 1 for one in activation.deferred)
    )


def _text_bytes(text: str) -> int:
    return len(text) if text.isascii() and text.isprintable() else json_bytes(text)


def bounded_metadata(text: str) -> str:
    """Return the JSON that goes with an ending; of one that is too large its size alone, as cut it would be no JSON."""
    if len(text) <= METADATA_LIMIT:
        return text
    return json.dumps({"left_out": f"{len(text)} characters; the limit is {METADATA_LIMIT}"})
