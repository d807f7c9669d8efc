"""The notes folder: no path leaves it, whatever stands in it; what is written appears whole; names are in NFC."""

import fcntl
import hashlib
import os
import threading
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernel.tools.note_errors import NoteError
from kernel.tools.note_names import DEPTH, PATH_CHARACTERS, name_parts
from kernel.tools.notes import FOLDER_BYTES, FOLDER_NOTES, NOTE_BYTES, NoteEntry, NotesFolder


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder beside the notes, with a file that no operation may reach."""
    made = tmp_path / "outside"
    made.mkdir()
    (made / "secret.md").write_text("outside")
    return made


@pytest.fixture
def notes(tmp_path: Path, outside: Path) -> NotesFolder:
    return NotesFolder(tmp_path / "notes")


def everything_below(folder: Path) -> dict[str, str]:
    """Every name below a folder, with the target of a link, or the content of a file."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        found[name] = str(path.readlink()) if path.is_symlink() else path.read_text() if path.is_file() else "folder"
    return found


def refusal(act: Callable[[], object]) -> str:
    """The code with which an operation is refused."""
    with pytest.raises(NoteError) as caught:
        act()
    assert not caught.value.may_have_changed
    return caught.value.code


def test_written_appended_read_listed(notes: NotesFolder) -> None:
    """What is written is read again; the receipt's size and hash are those of the whole note."""
    assert notes.list() == []
    first = notes.write("journal/a.md", b"one\n")
    assert (first.n_bytes, first.sha256, first.created) == (4, hashlib.sha256(b"one\n").hexdigest(), True)
    second = notes.append("journal/a.md", "два\n".encode())
    whole = "one\nдва\n".encode()
    assert (second.n_bytes, second.sha256, second.created) == (len(whole), hashlib.sha256(whole).hexdigest(), False)
    assert notes.read("journal/a.md") == (whole, 1)
    assert notes.write("journal/a.md", b"").created is False
    assert notes.read("journal/a.md") == (b"", 1)
    assert notes.list() == [NoteEntry("journal", "folder")]
    assert notes.list("journal") == [NoteEntry("a.md", "note", 0)]
    assert everything_below(notes.root) == {"journal": "folder", "journal/a.md": ""}


HOSTILE = [
    "",
    "/etc/passwd",
    "//etc/passwd",
    "..",
    "../outside/secret.md",
    "a/../../outside/secret.md",
    "a/..",
    "./a.md",
    ".",
    "a/./b",
    "a//b",
    "a/",
    ".hidden",
    "a/.part-1",
    "..\\outside\\secret.md",
    "a\x00.md",
    "a\nb.md",
    "a\u202egpj.md",
    "a\u200b.md",
    "a\ud800.md",
    " a.md",
    "a.md ",
    "x" * (PATH_CHARACTERS + 1),
    "字" * 70,
    "/".join("abcdefghi"),
    "a/\u2028",
    "password=hunter2hunter2.md",
]


@pytest.mark.parametrize("path", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_path_is_rejected_and_nothing_changes(notes: NotesFolder, tmp_path: Path, path: str) -> None:
    """No operation takes such a path; nothing is made, inside or outside."""
    notes.write("a/kept.md", b"kept")
    before = everything_below(tmp_path)
    acts: list[Callable[[], object]] = [
        lambda: notes.read(path),
        lambda: notes.write(path, b"x"),
        lambda: notes.append(path, b"x"),
    ]
    if path:
        acts.append(lambda: notes.list(path))
    assert [refusal(act) for act in acts] == ["path_rejected"] * len(acts)
    assert everything_below(tmp_path) == before


def test_the_limits_of_names_are_kept() -> None:
    """The longest and deepest path is accepted, the next one is not."""
    assert len(name_parts("/".join("abcdefgh"))) == DEPTH
    assert name_parts("x" * PATH_CHARACTERS) == ("x" * PATH_CHARACTERS,)
    assert refusal(lambda: name_parts("字" * 67)) == "path_rejected"


PIECES = st.sampled_from(
    ["..", ".", "/", "a", "b.md", "\\", "\x00", "link", "out", " ", "~", "％2e", "．．", "é", "e\u0301"]
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.one_of(st.text(max_size=40), st.lists(PIECES, max_size=8).map("".join)))
def test_no_path_at_all_leaves_the_folder(notes: NotesFolder, outside: Path, path: str) -> None:
    """Whatever the path is: what is outside stays as it is and is not read; an accepted one names a file inside."""
    notes.root.mkdir(exist_ok=True)
    with suppress(FileExistsError):
        (notes.root / "link").symlink_to(outside)
        (notes.root / "out").symlink_to(outside / "secret.md")
    with suppress(NoteError):
        notes.write(path, b"inside")
        assert notes.read(path)[0] == b"inside"
        assert (notes.root / unicodedata.normalize("NFC", path)).resolve().is_relative_to(notes.root.resolve())
    with suppress(NoteError):
        assert b"outside" not in notes.read(path)[0]
    assert everything_below(outside) == {"secret.md": "outside"}


@pytest.mark.parametrize("path", ["link", "folder/secret.md", "deep/folder/secret.md", "dangling", "loop", "loop/a"])
def test_links_are_not_followed(notes: NotesFolder, outside: Path, tmp_path: Path, path: str) -> None:
    """Neither as the note itself nor as a folder on the way, nor where a link leads nowhere."""
    (notes.root / "deep").mkdir(parents=True)
    (notes.root / "link").symlink_to(outside / "secret.md")
    (notes.root / "folder").symlink_to(outside)
    (notes.root / "deep" / "folder").symlink_to("../../outside")
    (notes.root / "dangling").symlink_to(outside / "new.md")
    (notes.root / "loop").symlink_to("loop")
    before = everything_below(tmp_path)
    assert refusal(lambda: notes.read(path)) == "path_rejected"
    assert refusal(lambda: notes.write(path, b"x")) == "path_rejected"
    assert refusal(lambda: notes.append(path, b"x")) == "path_rejected"
    assert refusal(lambda: notes.list(path)) == "path_rejected"
    assert everything_below(tmp_path) == before
    assert {entry.name: entry.kind for entry in notes.list()}["link"] == "link"


def test_a_link_to_a_folder_inside_is_not_followed_either(notes: NotesFolder) -> None:
    """Where a link leads is not asked: one name, one note."""
    notes.write("a/x.md", b"x")
    (notes.root / "b").symlink_to("a")
    assert refusal(lambda: notes.read("b/x.md")) == "path_rejected"


@pytest.mark.parametrize("act", ["read", "write", "append", "list"])
@pytest.mark.parametrize("swapped", ["a", "a/b", "a/b/secret.md"])
def test_a_link_put_there_at_the_last_moment_leads_nowhere(
    notes: NotesFolder, outside: Path, monkeypatch: pytest.MonkeyPatch, swapped: str, act: str
) -> None:
    """Somebody swaps a folder on the way, or the note, for a link after every look, right before it is opened."""
    (outside / "b").mkdir()
    (outside / "b" / "secret.md").write_text("outside")
    notes.write("a/b/secret.md", b"inside")
    before = everything_below(outside)
    target = notes.root / swapped
    leads = outside / "secret.md" if swapped.endswith(".md") else outside / "b" if swapped == "a/b" else outside
    really_open = os.open
    swaps: list[str | Path] = []

    def swap_then_open(path: str | Path, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == target.name and not target.is_symlink():
            target.rename(notes.root / f".aside{len(swaps)}")
            target.symlink_to(leads)
            swaps.append(path)
        return really_open(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", swap_then_open)
    if act == "list":
        with suppress(NoteError):
            assert notes.list("a/b") == [NoteEntry("secret.md", "note", 6)]
    elif act == "read":
        assert refusal(lambda: notes.read("a/b/secret.md")) == "path_rejected"
    else:
        put = notes.write if act == "write" else notes.append
        assert refusal(lambda: put("a/b/secret.md", b"written")) == "path_rejected"
    assert swaps or (act, swapped) == ("list", "a/b/secret.md")
    assert everything_below(outside) == before


def test_what_is_no_ordinary_file_is_not_opened(notes: NotesFolder) -> None:
    """A pipe would be waited for for ever, a socket or folder is no note; reading and writing them is refused."""
    notes.root.mkdir()
    os.mkfifo(notes.root / "pipe")
    (notes.root / "folder").mkdir()
    for name in ("pipe", "folder"):
        assert refusal(lambda name=name: notes.read(name)) == "not_a_note"  # type: ignore[misc]
        assert refusal(lambda name=name: notes.append(name, b"x")) == "not_a_note"  # type: ignore[misc]
        assert refusal(lambda name=name: notes.write(name, b"x")) == "not_a_note"  # type: ignore[misc]
    assert notes.list() == [NoteEntry("folder", "folder"), NoteEntry("pipe", "special")]


def test_hard_links_are_noted_and_never_written_through(notes: NotesFolder, outside: Path) -> None:
    """A second name of a file is told; a write puts a new file in the note's place and leaves the other as it was."""
    notes.root.mkdir()
    os.link(outside / "secret.md", notes.root / "a.md")
    assert notes.read("a.md") == (b"outside", 2)
    assert notes.list() == [NoteEntry("a.md", "note", 7, 2)]
    notes.append("a.md", b" and in")
    assert notes.read("a.md") == (b"outside and in", 1)
    assert everything_below(outside) == {"secret.md": "outside"}


def test_names_are_in_nfc(notes: NotesFolder) -> None:
    """Two ways to write an accented letter are one note."""
    notes.write("cafe\u0301.md", b"1")
    assert notes.write("caf\u00e9.md", b"2").created is False
    assert everything_below(notes.root) == {"caf\u00e9.md": "2"}


def test_a_note_and_all_notes_are_bounded(notes: NotesFolder) -> None:
    """A write past a limit is refused with the limit, and what was there stays."""
    notes.write("a.md", b"x" * NOTE_BYTES)
    assert refusal(lambda: notes.append("a.md", b"y")) == "too_large"
    assert refusal(lambda: notes.write("b.md", b"x" * (NOTE_BYTES + 1))) == "too_large"
    assert notes.read("a.md")[0] == b"x" * NOTE_BYTES
    for number in range(FOLDER_NOTES - 1):
        (notes.root / f"n{number}").touch()
    assert refusal(lambda: notes.write("one-more.md", b"")) == "folder_full"
    assert notes.write("n1", b"there is room in one there is").created is False
    with (notes.root / "n2").open("wb") as file:
        file.truncate(FOLDER_BYTES)
    assert refusal(lambda: notes.append("n1", b"!")) == "folder_full"
    assert refusal(lambda: notes.read("n2")) == "too_large"
    assert not (notes.root / "one-more.md").exists()


def test_what_a_crash_left_is_removed_and_never_listed(notes: NotesFolder) -> None:
    """A file half written by a process that died is no note; the next write takes it away."""
    notes.root.mkdir()
    (notes.root / ".part-dead").write_text("half")
    assert notes.list() == []
    notes.write("a.md", b"whole")
    assert everything_below(notes.root) == {"a.md": "whole"}


def test_writers_take_turns(notes: NotesFolder) -> None:
    """Appends of several threads are all there in the end, each whole."""
    writers = [
        threading.Thread(target=lambda n=n: [notes.append("log.md", f"{n}\n".encode()) for _ in range(10)])
        for n in range(4)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    lines = notes.read("log.md")[0].decode().splitlines()
    assert sorted(lines) == sorted(str(n) for n in range(4) for _ in range(10))


def test_a_lock_held_by_another_is_waited_for_and_not_for_ever(
    notes: NotesFolder,
) -> None:
    """A writer that does not let go is told as `busy`; nothing is written."""
    notes.write("a.md", b"before")
    hasty = NotesFolder(notes.root, lock_seconds=0.02)
    held = os.open(notes.root, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    try:
        assert refusal(lambda: hasty.write("a.md", b"after")) == "busy"
    finally:
        os.close(held)
    assert notes.read("a.md")[0] == b"before"
    assert notes.write("a.md", b"after").n_bytes == 5


def test_what_is_not_there_is_not_found(notes: NotesFolder) -> None:
    """Reading or listing what is not there makes nothing, the notes folder included."""
    assert refusal(lambda: notes.read("a.md")) == "not_found"
    assert refusal(lambda: notes.list("journal")) == "not_found"
    assert not notes.root.exists()
    notes.write("a.md", b"")
    assert refusal(lambda: notes.read("a.md/b.md")) == "path_rejected"
    assert refusal(lambda: notes.read("b/c.md")) == "not_found"
