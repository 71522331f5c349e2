"""Landlock: a process denies itself and its children access to files, without namespaces.

It can only allow paths; all others are closed. To close a folder, everything beside it and beside each of its parents is allowed.
No file can be created in those parent folders. Names of closed files can still be listed, and connections to sockets stay
possible. A seccomp filter is installed as well: see system_calls.py.
"""

from __future__ import annotations

import ctypes
import os
import sys

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_ASK_VERSION = 1
_BENEATH = 1
_WRITES_FILE, _READS_FILE, _READS_FOLDER, _EXECUTES = 2, 4, 8, 1
_BY_VERSION = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
"""All file rights that each version of Landlock knows."""
_LATEST = (1 << 16) - 1
_OF_FILES = _EXECUTES | _WRITES_FILE | _READS_FILE | 1 << 14 | 1 << 15
_SET_NO_NEW_PRIVS, _SET_SECCOMP = 38, 22
_O_PATH = 0x200000


def version() -> int:
    """Return the version of Landlock that the kernel offers, 0 for none."""
    if sys.platform != "linux":
        return 0
    found: int = ctypes.CDLL(None, use_errno=True).syscall(_CREATE, None, ctypes.c_size_t(0), _ASK_VERSION)
    return max(found, 0)


def argv(hidden: list[str], closed: list[str], program: bytes, command: list[str]) -> list[str]:
    """Return the command line that runs ``command`` without access to ``hidden`` and without the right to change ``closed``
    paths.

    ``program``: the seccomp filter, b"" for none.
    """
    paths = [word for kind, found in (("hide", hidden), ("close", closed)) for path in found for word in (kind, path)]
    return [sys.executable, "-I", "-S", __file__, f"filter={program.hex()}", *paths, "--", *command]


def main(words: list[str]) -> None:
    """Close the paths to this process and execute the command. Raises OSError."""
    end = words.index("--")
    kinds = dict(zip(words[2:end:2], words[1:end:2], strict=True))
    restrict([path for path, kind in kinds.items() if kind == "hide"], [path for path, kind in kinds.items() if kind == "close"])
    _refuse_calls(bytes.fromhex(words[0].removeprefix("filter=")))
    os.execvp(words[end + 1], words[end + 1 :])  # noqa: S606 - runs the command itself


def restrict(hidden: list[str], closed: list[str]) -> None:
    """Close the paths to this process and its children. They are absolute, with links resolved. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    rights = _BY_VERSION.get(version(), _LATEST)
    handled = ctypes.c_uint64(rights)
    ruleset = _checked(libc.syscall(_CREATE, ctypes.byref(handled), ctypes.c_size_t(8), 0))
    reads = _EXECUTES | _READS_FILE | _READS_FOLDER
    for path, allowed in [("/", _READS_FOLDER), *_allowed("/", set(hidden), set(closed), rights, reads)]:
        try:
            fd = os.open(path, _O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:  # it is gone, or this account cannot open it anyway
            continue
        folder = os.path.isdir(path)  # noqa: PTH112 - pathlib takes as long to import as everything else here
        rule = ctypes.create_string_buffer(
            (allowed if folder else allowed & _OF_FILES & rights).to_bytes(8, sys.byteorder) + fd.to_bytes(4, sys.byteorder), 12
        )
        _checked(libc.syscall(_ADD, ruleset, _BENEATH, rule, 0))
        os.close(fd)
    _checked(libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _checked(libc.syscall(_RESTRICT, ruleset, 0))
    os.close(ruleset)


def _refuse_calls(program: bytes) -> None:
    if program:
        buffer = ctypes.create_string_buffer(program, len(program))
        given = (ctypes.c_uint64 * 2)(len(program) // 8, ctypes.addressof(buffer))
        _checked(ctypes.CDLL(None, use_errno=True).prctl(_SET_SECCOMP, 2, given, 0, 0))


def _allowed(folder: str, hidden: set[str], closed: set[str], rights: int, reads: int) -> list[tuple[str, int]]:
    """Return the allowed paths below a folder that contains some of the given paths, each with its rights."""
    found: list[tuple[str, int]] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.path in closed:
                found.append((entry.path, reads))
            elif any(path.startswith(f"{entry.path}/") for path in hidden | closed):
                found += _allowed(entry.path, hidden, closed, rights, reads)
            elif entry.path not in hidden and not entry.is_symlink():
                found.append((entry.path, rights))
    return found


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"Landlock or seccomp: {os.strerror(number)}")
    return result


if __name__ == "__main__":
    main(sys.argv[1:])
