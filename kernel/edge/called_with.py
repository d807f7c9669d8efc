"""What a failed call was called with, as Observation may be told: the command line, else the JSON of the arguments.

Taken from what a model wrote, so of any size and with anything in it; what leaves is bounded, without secrets and
without hint blocks. What a tool was called with is told only where the failure itself is searched with. (Seed 001 §7.1,
§7.3.)
"""

import json
from collections.abc import Mapping
from typing import Final

from contract.hint_api import TOOL_ARGUMENTS_LIMIT
from contract.hint_block import holds_block, visible
from contract.redaction import redact_value
from contract.text import clip
from kernel.edge.clean_text import clean
from kernel.tools.catalogue import ToolResult

LOOKED_AT: Final = 64 * 1024  # code points of the command or the JSON
COMMAND: Final = "command"


def called_with(arguments: Mapping[str, object], result: ToolResult) -> str:
    """Return what is told of the arguments of a call that ended in `result`, empty when nothing is."""
    if result.status not in ("failed", "timed_out") or not result.diagnostic.strip():
        return ""
    given = _text_of(arguments)
    # What is not seen goes first: a secret must not come together when it is taken out.
    text = clean(visible(given[:LOOKED_AT]))
    if len(given) > LOOKED_AT and len(text) < LOOKED_AT // 2:
        return ""  # most of it was taken out, so that a secret cut in two where the look ends could be in what is told
    text = clip(text, TOOL_ARGUMENTS_LIMIT)
    return "" if holds_block(text) else text


def _text_of(arguments: Mapping[str, object]) -> str:
    command = arguments.get(COMMAND)
    if isinstance(command, str) and len(arguments) == 1:
        return command
    try:
        return json.dumps(redact_value(dict(arguments))[0], ensure_ascii=False)
    except (ValueError, RecursionError):  # deeper than JSON is written: nothing of it is told
        return ""
