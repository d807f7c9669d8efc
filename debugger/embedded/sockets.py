"""Decides where Unix sockets live and which TCP ports are used: no fixed port is assumed free."""

import os
import shutil
import socket
import tempfile
from pathlib import Path

from debugger.embedded.processes import StackError

MAX_SOCKET_PATH = 100  # bytes; the kernel's limit is 108 with the final zero
LONGEST_NAME = len("/postgres/.s.PGSQL.5432.lock")


def make_socket_dir(var_dir: Path) -> Path:
    """Return a folder for sockets: `<var_dir>/run`, or a short temporary one when that path is too long for them."""
    wanted = var_dir / "run"
    if len(os.fsencode(wanted)) + LONGEST_NAME > MAX_SOCKET_PATH:
        return Path(tempfile.mkdtemp(prefix="temporality-"))
    wanted.mkdir(parents=True, exist_ok=True)
    return wanted


def remove_socket_dir(folder: Path, var_dir: Path) -> None:
    """Remove a temporary folder of sockets; the one under `var_dir` is kept for the next start."""
    if folder != var_dir / "run":
        shutil.rmtree(folder, ignore_errors=True)


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that is free now; another process may still take it before it is used."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def listen_web(host: str, port: int, *, exact: bool) -> socket.socket:
    """Return a bound socket for the web server: at `port`, or unless `exact` at the next free one (`port` 0: any).

    Bound here and handed over, so that nobody can take the port between the choice and the start.
    Raises StackError when the port, or each of the 200 from it, is taken or forbidden.
    """
    last = port if exact or port == 0 else min(port + 200, 65535)
    problem = ""
    for candidate in range(port, last + 1):
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, candidate))
            listener.listen(512)
        except OSError as error:
            listener.close()
            problem = error.strerror or str(error)
            continue
        return listener
    if exact:
        raise StackError(f"port {port} on {host} cannot be used ({problem}): set PORT to another, or leave it unset")
    raise StackError(f"no free port from {port} to {last} on {host} ({problem}): set PORT")
