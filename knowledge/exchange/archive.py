"""Items as a zip of Markdown files, read and written in memory: nothing of it is ever a path. Bounded in every way."""

import struct
import zipfile
import zlib
from collections.abc import Iterable
from io import BytesIO
from typing import IO, Final

from knowledge.drafts import ItemDraft, KnowledgeError
from knowledge.exchange.markdown import SUFFIX, file_name, read_markdown, write_markdown
from knowledge.exchange.places import NAME_SHOWN, ImportFault, Placed

MEDIA_TYPE: Final = "application/zip"
MOST_FILE_BYTES: Final = 2 * 1024 * 1024  # of one file; an item's limits allow for less
# What these unpack to is stopped where it is too much; of other methods much comes at once.
_BOUNDED: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# What comes of reading a zip that is none, or is damaged: each of its numbers and names may be wrong.
_DAMAGED: Final = (
    zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, struct.error, EOFError, IndexError, OSError, OverflowError,
    RuntimeError, ValueError,
)  # fmt: skip
_WRITTEN: Final = (1980, 1, 1, 0, 0, 0)  # the same items make the same bytes
_OF_SYSTEMS: Final = ("__MACOSX/",)


def read_archive(data: bytes, *, most_files: int, most_bytes: int) -> list[Placed]:
    """Return the items of the Markdown files of a zip.

    Raises ImportFault for what is no zip, no Markdown, encrypted, damaged, or larger than it may be when unpacked.
    """
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            entries = [entry for entry in archive.infolist() if not _is_skipped(entry)]
            if len(entries) > most_files:
                told = f"the zip holds {len(entries)} files; the limit is {most_files}, send them in parts"
                raise ImportFault("zip", 0, told, limit=most_files)
            placed = []
            for entry in entries:
                read = _read(archive, entry, most_bytes)
                most_bytes -= len(read)
                placed.append(read_markdown(read, entry.filename))
            return placed
    except KnowledgeError:
        raise
    except _DAMAGED:
        raise ImportFault("zip", 0, "the body is no zip that can be read; pack the files again") from None


def write_archive(drafts: Iterable[ItemDraft], to: IO[bytes]) -> None:
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as archive:
        for draft in drafts:
            entry = zipfile.ZipInfo(file_name(draft.knowledge_id), _WRITTEN)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, write_markdown(draft))


def _is_skipped(entry: zipfile.ZipInfo) -> bool:
    """Say whether an entry is a folder, or something that a system puts beside the files."""
    return entry.is_dir() or entry.filename.startswith(_OF_SYSTEMS) or entry.filename.split("/")[-1].startswith(".")


def _read(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, most_bytes: int) -> bytes:
    name = entry.filename[:NAME_SHOWN]
    if not entry.filename.endswith(SUFFIX):
        raise ImportFault(name, 0, f"this is no Markdown file ({SUFFIX}); leave it out")
    if entry.compress_type not in _BOUNDED:
        raise ImportFault(name, 0, "this file is packed in a way that is not read; pack it with deflate")
    if entry.flag_bits & 0x1:
        raise ImportFault(name, 0, "this file is encrypted; pack it without a password")
    bound = min(most_bytes, MOST_FILE_BYTES)
    try:
        with archive.open(entry) as file:
            data = file.read(bound + 1)  # whatever the entry says of its size
    except _DAMAGED:
        raise ImportFault(name, 0, "this file is damaged; pack it again") from None
    if len(data) > bound:
        told = f"the files take more than {bound} bytes when unpacked; send them in parts"
        raise ImportFault(name, 0, told, limit=bound)
    return data
