"""VAR_DIR: one start at a time, a private secret key, and a private file that says where things are."""

import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from debugger.embedded.processes import StackError
from debugger.embedded.sockets import listen_web
from debugger.embedded.var_dir import claim_var_dir, local_secret_key, release_var_dir, remove_places, write_places


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_second_claim_is_refused_and_the_first_stays(tmp_path: Path) -> None:
    """Two starts on one folder: the second gets one line naming the first, which keeps the lock."""
    lock = claim_var_dir(tmp_path, print)
    before = (tmp_path / "up.lock").read_text()
    with pytest.raises(StackError, match=f"already running on .*process {os.getpid()}"):
        claim_var_dir(tmp_path, print)
    assert (tmp_path / "up.lock").read_text() == before
    release_var_dir(lock)
    release_var_dir(claim_var_dir(tmp_path, print))


def test_a_claim_waits_for_the_leftovers_of_a_killed_start(tmp_path: Path) -> None:
    """The lock of a start that is no more, still held by one of its processes, is waited for."""
    lock = claim_var_dir(tmp_path, print)
    os.pwrite(lock, b"999999999\n", 0)
    holder = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.5)"], pass_fds=[lock])
    os.close(lock)
    told: list[str] = []
    release_var_dir(claim_var_dir(tmp_path, told.append))
    assert holder.wait() == 0
    assert len(told) == 1
    assert "waiting" in told[0]


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    """A VAR_DIR below a file is refused by name."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StackError, match="VAR_DIR .*file/var cannot be used"):
        claim_var_dir(tmp_path / "file" / "var", print)


def test_places_are_private_whole_and_removed(tmp_path: Path) -> None:
    """`up.json` is its owner's alone, also when it is written again, and goes with the stack."""
    os.umask(os.umask(0o022))
    write_places(tmp_path, {"base_url": "http://127.0.0.1:1"})
    write_places(tmp_path, {"base_url": "http://127.0.0.1:2"})
    assert json.loads((tmp_path / "up.json").read_text()) == {"base_url": "http://127.0.0.1:2"}
    assert mode(tmp_path / "up.json") == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["up.json"]
    remove_places(tmp_path)
    remove_places(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_secret_key_is_made_once_and_private(tmp_path: Path) -> None:
    """The key is long, kept, the same at every reading, and nobody else's to read."""
    first = local_secret_key(tmp_path / "new")
    assert len(first) >= 50
    assert local_secret_key(tmp_path / "new") == first
    assert mode(tmp_path / "new" / "secret_key") == 0o600
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["secret_key"]


def test_processes_that_make_the_secret_key_together_agree(tmp_path: Path) -> None:
    """However many start at once, all read one key."""
    code = "import sys; from pathlib import Path; from debugger.embedded.var_dir import local_secret_key as key\n"
    code += "sys.stdout.write(key(Path(sys.argv[1])))"
    together = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) for _ in range(6)]
    assert len({process.communicate()[0] for process in together}) == 1


def test_a_taken_port_is_passed_over_or_refused_when_exact() -> None:
    """The next free port is taken, unless that very port was asked for: then one line says so."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with listen_web("127.0.0.1", port, exact=False) as listener:
            assert port < listener.getsockname()[1] <= port + 200
        with pytest.raises(StackError, match=f"port {port} on 127.0.0.1 cannot be used .*set PORT"):
            listen_web("127.0.0.1", port, exact=True)


def test_port_zero_means_any() -> None:
    """Port 0 is whatever the system gives."""
    with listen_web("127.0.0.1", 0, exact=True) as listener:
        assert listener.getsockname()[1] > 0
