"""The knowledge that is shipped as a starter set, and a project's knowledge as a file to download. (Seed 001 §7.)"""

from collections.abc import Iterator
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Final

from django.conf import settings

from ingest.models import Project
from knowledge.drafts import ItemDraft
from knowledge.exchange.archive import write_archive
from knowledge.exchange.json_lines import read_lines, write_line
from knowledge.item_queries import all_drafts

STARTER: Final = Path(settings.BASE_DIR) / "knowledge" / "starter"
CHUNK: Final = 64 * 1024  # bytes of an archive that are sent at once
IN_MEMORY: Final = 8 * 1024 * 1024  # bytes of an archive that are kept in memory; a larger one waits in a file


def starter_drafts() -> list[ItemDraft]:
    """Return the items of the starter set."""
    files = sorted(STARTER.glob("*.jsonl"))
    return [placed.draft for file in files for placed in read_lines(file.read_bytes(), file.name)]


def json_lines(project: Project) -> Iterator[bytes]:
    """Yield a project's items, one a line."""
    for draft in all_drafts(project.pk):
        yield f"{write_line(draft)}\n".encode()


def markdown_archive(project: Project) -> Iterator[bytes]:
    """Yield a zip of a project's items, a Markdown file each."""
    with SpooledTemporaryFile(max_size=IN_MEMORY) as file:
        write_archive(all_drafts(project.pk), file)
        file.seek(0)
        while chunk := file.read(CHUNK):
            yield chunk
