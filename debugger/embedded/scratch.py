"""A PostgreSQL that lasts as long as it is used: its data in a temporary folder, which goes with it."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from debugger.embedded.postgres import await_postgres, start_postgres
from debugger.embedded.processes import stop_all
from debugger.embedded.sockets import make_socket_dir, remove_socket_dir


@contextmanager
def scratch_postgres() -> Iterator[str]:
    """Give the address of an empty database of our own. Raises StackError when it cannot be started."""
    folder = Path(tempfile.mkdtemp(prefix="temporality-scratch-"))
    try:
        sockets = make_socket_dir(folder)
        try:
            server = start_postgres(folder, sockets, folder / "postgres.log", durable=False)
            try:
                yield await_postgres(server, sockets)
            finally:
                stop_all([server])
        finally:
            remove_socket_dir(sockets, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
