"""Decides what a shell command may touch, then becomes that command: `python jail.py <policy> -- <argv>`.

Run as a script between the worker and the shell: limits and confinement are set in the child's own process, with
no code run between fork and exec. Confinement is Landlock (Linux 5.13+), which needs no privilege: files are
written only below `write`, read only below `read` and `write`, and no process outside may be signalled or traced.
Root's privileges are given up. Not covered: the network, and Unix sockets reachable by path. Standard library only.
"""

import ctypes
import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Final

CANNOT_START: Final = 126  # as a shell's own "found but cannot be run"

_CAPABILITY_VERSION: Final = 0x20080522
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_PATH_BENEATH: Final = 1
_SET_PDEATHSIG, _SET_NO_NEW_PRIVS = 1, 38
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_READ: Final = _EXECUTE | _READ_FILE | _READ_DIR
_FILE_RIGHTS: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_SCOPED: Final = 0b11  # abstract sockets and signals stay inside
_LAST_RIGHT: Final = {1: 12, 2: 13, 3: 14, 4: 14, 5: 15}  # highest access right by ABI version

_libc = ctypes.CDLL(None, use_errno=True)


class _RulesetAttr(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneathAttr(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def landlock_abi() -> int:
    """Return the version of Landlock this machine offers, 0 when it offers none."""
    if sys.platform != "linux":
        return 0
    version: int = _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    return max(version, 0)


def confine(write: list[str], read: list[str], abi: int) -> None:
    """Confine this process and its children for good; paths that do not exist are left out.

    Comes after `drop_privileges`, which also makes it allowed. Raises OSError.
    """
    every = (1 << (_LAST_RIGHT.get(abi, 15) + 1)) - 1
    attr = _RulesetAttr(every, 0, _SCOPED if abi >= 6 else 0)
    ruleset = _check(_libc.syscall(_CREATE_RULESET, ctypes.byref(attr), ctypes.c_size_t(24), ctypes.c_uint32(0)))
    for path in write:
        _allow(ruleset, path, every)
    for path in read:
        _allow(ruleset, path, _READ & every)
    _check(_libc.syscall(_RESTRICT_SELF, ruleset, ctypes.c_uint32(0)))
    os.close(ruleset)


def drop_privileges() -> None:
    """Give up every capability and any way to regain one: root's would read other processes' memory. Raises OSError."""
    _check(_libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    none = (ctypes.c_uint32 * 6)()
    _check(_libc.capset(header, none))


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        target = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not Path(path).is_dir():
            rights &= _FILE_RIGHTS
        rule = _PathBeneathAttr(rights, target)
        _check(_libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), ctypes.c_uint32(0)))
    finally:
        os.close(target)


def _check(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def limit(kind: int, value: int) -> None:
    """Lower one resource limit to `value`, or to the hard limit in force when that is lower."""
    _, hard = resource.getrlimit(kind)
    bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (bound, bound))


def main(arguments: list[str]) -> None:
    """Apply the policy (JSON: write, read, confine, memory_bytes, file_bytes, cpu_seconds) and exec the command."""
    policy = json.loads(arguments[0])
    drop_privileges()
    if _libc.prctl(_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "the death signal cannot be set")
    limit(resource.RLIMIT_AS, policy["memory_bytes"])
    limit(resource.RLIMIT_FSIZE, policy["file_bytes"])
    limit(resource.RLIMIT_CPU, policy["cpu_seconds"])
    limit(resource.RLIMIT_CORE, 0)
    if policy["confine"]:
        confine(policy["write"], policy["read"], landlock_abi())
    os.execvp(arguments[2], arguments[2:])


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except OSError as error:
        sys.stderr.write(f"the command could not be started in its confinement: {error}\n")
        sys.exit(CANNOT_START)
