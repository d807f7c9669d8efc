"""Where an item that is imported stands: its file and line, which every refusal names. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from knowledge.drafts import ItemDraft, KnowledgeError

NAME_SHOWN: Final = 200  # characters of a file's name that a refusal repeats


@dataclass(frozen=True, slots=True)
class Placed:
    """A draft and where it was read."""

    draft: ItemDraft
    file: str
    line: int


class ImportFault(KnowledgeError):
    """What is wrong in a file that is imported; the message begins with the place."""

    def __init__(self, file: str, line: int, told: str, *, field: str = "", limit: int | None = None) -> None:
        self.file = file[:NAME_SHOWN]
        self.line = line
        super().__init__(f"{self.file}:{line}: {told}", field=field, limit=limit)


def fault_of(error: KnowledgeError, file: str, line: int) -> ImportFault:
    """Return an error about a draft as one about its place."""
    return ImportFault(file, line, str(error), field=error.field, limit=error.limit)


def decode(data: bytes, file: str) -> str:
    """Return the text of a file: UTF-8, with or without a byte order mark, line ends of any system made one."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ImportFault(file, line, "the file is not UTF-8; save it as UTF-8") from None
    text = text.replace("\r\n", "\n")
    # Where nothing else ends a line, a carriage return does; beside newlines it is a character of a text.
    return text if "\n" in text else text.replace("\r", "\n")


def drafts_of(placed: Iterable[Placed]) -> list[ItemDraft]:
    """Return the drafts, each id once. Raises ImportFault for an id that comes twice, naming both places."""
    first: dict[str, Placed] = {}
    for one in placed:
        known = first.setdefault(one.draft.knowledge_id, one)
        if known is not one:
            told = f"knowledge_id stands at {known.file[:NAME_SHOWN]}:{known.line} already; leave one of them out"
            raise ImportFault(one.file, one.line, told, field="knowledge_id")
    return [one.draft for one in first.values()]
