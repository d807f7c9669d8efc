"""A project's items as one file to download, in a form that an import takes."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import Final

from django.http import StreamingHttpResponse

from ingest.models import Project
from knowledge.drafts import ItemDraft
from knowledge.exchange import archive, json_lines
from knowledge.item_queries import all_drafts

CHUNK: Final = 64 * 1024  # bytes of an archive that are sent at once
IN_MEMORY: Final = 8 * 1024 * 1024  # bytes of an archive that are kept in memory; a larger one waits in a file


@dataclass(frozen=True, slots=True)
class FileForm:
    """How items are written, the media type that says so, the ending of the file."""

    write: Callable[[Iterable[ItemDraft]], Iterator[bytes]]
    media_type: str
    ending: str


def download(project: Project, form: str) -> StreamingHttpResponse:
    """Return all items of a project as a file. Raises KeyError for a form that is not in FORMS."""
    chosen = FORMS[form]
    name = f"{project.slug}-knowledge.{chosen.ending}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}
    return StreamingHttpResponse(chosen.write(all_drafts(project.pk)), content_type=chosen.media_type, headers=headers)


def _lines(drafts: Iterable[ItemDraft]) -> Iterator[bytes]:
    """Yield the items, one a line."""
    for draft in drafts:
        yield f"{json_lines.write_line(draft)}\n".encode()


def _archive(drafts: Iterable[ItemDraft]) -> Iterator[bytes]:
    """Yield a zip of the items, a Markdown file each."""
    with SpooledTemporaryFile(max_size=IN_MEMORY) as file:
        archive.write_archive(drafts, file)
        file.seek(0)
        while chunk := file.read(CHUNK):
            yield chunk


FORMS: Final[Mapping[str, FileForm]] = {
    "jsonl": FileForm(_lines, json_lines.MEDIA_TYPE, "jsonl"),
    "markdown": FileForm(_archive, archive.MEDIA_TYPE, "zip"),
}
