"""Owns the notes folder: text files that every run of a worker shares, and the jail that no path leaves.

A name is never handed to the system as a path: each component is opened by itself, relative to the folder it stands in,
and no link is followed, so that a link put there between a look and a use leads nowhere either. What is written appears
at once and whole, or not at all.
"""

import errno
import fcntl
import hashlib
import os
import secrets
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kernel.tools.note_errors import NoteError
from kernel.tools.note_names import name_parts

NOTE_BYTES: Final = 64 * 1024  # of one note
FOLDER_BYTES: Final = 16 * 1024 * 1024  # of all notes together
FOLDER_NOTES: Final = 1_000  # notes and folders
LOCK_SECONDS: Final = 5.0
LOCK_PAUSE: Final = 0.01
TEMPORARY: Final = ".part-"  # no note's name begins with a dot

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MAKE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class NoteEntry:
    """One name in a folder: `kind` is note, folder, link or special; `links` counts the names a note's file has."""

    name: str
    kind: str
    n_bytes: int = 0
    links: int = 1


@dataclass(frozen=True, slots=True)
class Written:
    """What stands in a note after a write: its size and hash; `created` when there was none before."""

    n_bytes: int
    sha256: str
    created: bool


class NotesFolder:
    """The notes below `root`, which is made when something is written first."""

    def __init__(self, root: Path, *, lock_seconds: float = LOCK_SECONDS) -> None:
        """`lock_seconds` is how long another writer is waited for."""
        self.root = root
        self._lock_seconds = lock_seconds

    def list(self, path: str = "") -> list[NoteEntry]:
        """Return what stands in the folder `path` (empty: the notes folder itself) by name. Raises NoteError."""
        parts = name_parts(path) if path else ()
        if not parts and not self.root.exists():
            return []
        with _told(path), self._folder(parts) as folder:
            names = sorted(name for name in _names(folder) if not name.startswith("."))
            return [entry for name in names if (entry := _entry(folder, name)) is not None]

    def read(self, path: str) -> tuple[bytes, int]:
        """Return the bytes of the note `path` and how many names its file has. Raises NoteError."""
        *above, name = name_parts(path)
        with _told(path), self._folder(above) as folder:
            return _content(folder, name)

    def write(self, path: str, content: bytes) -> Written:
        """Put `content` in place of what the note `path` holds, if it is there at all. Raises NoteError."""
        return self._put(path, content, keep=False)

    def append(self, path: str, content: bytes) -> Written:
        """Put `content` behind what the note `path` holds, if it is there at all. Raises NoteError."""
        return self._put(path, content, keep=True)

    def _put(self, path: str, content: bytes, *, keep: bool) -> Written:
        *above, name = name_parts(path)
        with _told(path), self._locked() as root:
            before = self._before(above, name)
            whole = (before or b"") + content if keep else content
            if len(whole) > NOTE_BYTES:
                text = f"the note would have {len(whole)} bytes; the limit is {NOTE_BYTES}: begin another note"
                raise NoteError("too_large", text)
            self._check_room(root, len(whole) - len(before or b""), 0 if before is not None else len(above) + 1)
            with self._folder(above, make=True) as folder:
                _replace(folder, name, whole)
        return Written(len(whole), hashlib.sha256(whole).hexdigest(), before is None)

    def _before(self, above: Sequence[str], name: str) -> bytes | None:
        """Return what the note holds now, or None when there is none."""
        try:
            with self._folder(above) as folder:
                return _content(folder, name)[0]
        except FileNotFoundError:
            return None

    def _check_room(self, root: int, more: int, names: int) -> None:
        n_bytes, n_names = _measured(root)
        if n_bytes + more > FOLDER_BYTES:
            raise NoteError("folder_full", f"all notes together may have {FOLDER_BYTES} bytes: shorten or reuse one")
        if names and n_names + names > FOLDER_NOTES:
            raise NoteError("folder_full", f"there may be {FOLDER_NOTES} notes and folders: write into one there is")

    @contextmanager
    def _folder(self, parts: Sequence[str], *, make: bool = False) -> Iterator[int]:
        """Yield a descriptor of a folder, opened name by name; `make` makes those that are not there."""
        current = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in parts:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, 0o700, dir_fd=current)
                        os.fsync(current)
                below = os.open(part, _FOLDER, dir_fd=current)
                os.close(current)
                current = below
            yield current
        finally:
            os.close(current)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """Yield the root while no other writer, of whatever process, is at work."""
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._folder(()) as root:
            deadline = time.monotonic() + self._lock_seconds
            while not _lock(root):
                if time.monotonic() > deadline:
                    raise NoteError("busy", f"others have been writing for {self._lock_seconds:g} s: try again")
                time.sleep(LOCK_PAUSE)
            yield root


@contextmanager
def _told(path: str) -> Iterator[None]:
    """Turn what the system says into a NoteError; by then nothing was changed."""
    try:
        yield
    except FileNotFoundError:
        raise NoteError("not_found", "there is no such note or folder: look with list") from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise NoteError("path_rejected", "the path leads through a link or a note; no link is followed") from None
        raise NoteError("io_error", f"the notes cannot be reached: {_reason(error)}") from None


def _lock(root: int) -> bool:
    try:
        fcntl.flock(root, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _entry(folder: int, name: str) -> NoteEntry | None:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    shown = name.encode("utf-8", "backslashreplace").decode()
    if stat.S_ISREG(found.st_mode):
        return NoteEntry(shown, "note", found.st_size, found.st_nlink)
    kinds = {stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
    return NoteEntry(shown, kinds.get(stat.S_IFMT(found.st_mode), "special"))


def _content(folder: int, name: str) -> tuple[bytes, int]:
    """Return a note's bytes and how many names its file has. What is no ordinary file is not opened for long: it is
    looked at before, as opening a device does something, and after, as it may be another by then."""
    _check_ordinary(os.stat(name, dir_fd=folder, follow_symlinks=False))
    descriptor = os.open(name, _READ, dir_fd=folder)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        _check_ordinary(found)
        content = file.read(NOTE_BYTES + 1)
    if len(content) > NOTE_BYTES:
        raise NoteError("too_large", f"the note has {found.st_size} bytes; the limit is {NOTE_BYTES}")
    return content, found.st_nlink


def _check_ordinary(found: os.stat_result) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise NoteError("path_rejected", "the name is a link; no link is followed")
    if stat.S_ISDIR(found.st_mode):
        raise NoteError("not_a_note", "the name is a folder: name a note in it")
    if not stat.S_ISREG(found.st_mode):
        raise NoteError("not_a_note", "the name is no ordinary file")


def _measured(root: int) -> tuple[int, int]:
    """Return the bytes of all notes and the number of names below the folder; no link is followed."""
    n_bytes = n_names = 0
    for _, folders, files, descriptor in os.fwalk(dir_fd=root, follow_symlinks=False):
        n_names += len(folders) + len(files)
        for name in files:
            with suppress(OSError):
                n_bytes += os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_size
    return n_bytes, n_names


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as found:
        return [one.name for one in found]


def _replace(folder: int, name: str, content: bytes) -> None:
    """Put a new file in a note's place. Whoever is here holds the lock, so files half written are nobody's any more."""
    for left in _names(folder):
        if left.startswith(TEMPORARY):
            _remove(folder, left)
    temporary = f"{TEMPORARY}{secrets.token_hex(8)}"
    descriptor = os.open(temporary, _MAKE, 0o600, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        _remove(folder, temporary)
        raise
    try:
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)
    except OSError as error:
        _remove(folder, temporary)
        why = f"the note may be written or not ({_reason(error)}): read it before you go on"
        raise NoteError("io_error", why, may_have_changed=True) from None


def _remove(folder: int, name: str) -> None:
    with suppress(OSError):
        os.unlink(name, dir_fd=folder)


def _reason(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, type(error).__name__)
