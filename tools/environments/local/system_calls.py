"""System calls that the kernel refuses to all processes in a sandbox, by seccomp.

No build needs these calls, and they reach past namespaces or into parts of the kernel with frequent vulnerabilities. A filter
sees the numbers in a call's arguments but not the memory behind pointers. ``clone3`` and ``openat2`` are therefore reported
as missing, and programs use ``clone`` and ``openat``. User namespaces and mounts are refused, so bubblewrap, Bazel and Chromium
cannot make sandboxes of their own.
"""

from __future__ import annotations

import os
import struct

_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Processors that the filter supports: the column of their call numbers, and the kernel's number of the architecture."""
_X32 = 1 << 30
"""Call numbers from here on belong to x32, or to no call."""
_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97
_NEW_USER, _CREATES = 0x10000000, 0x400040
"""CLONE_NEWUSER; and O_CREAT or O_TMPFILE, which give an opened file a mode."""
_USER_ID, _GROUP_ID, _DEVICE = 0o4000, 0o2000, 0o020000
_INPUT = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX, which type into a terminal."""
_FAMILIES = (1, 2, 10, 16)
"""Allowed kinds of sockets: UNIX, INET, INET6 and NETLINK. Others reach beyond the network namespace, or are seldom used."""

_REFUSED = {
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "setns": (308, 268),
    "open_by_handle_at": (304, 265),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
}
_UNKNOWN = {"clone3": (435, 435), "openat2": (437, 437)}
_NONE = -1
_Row = tuple[tuple[int, int], tuple[tuple[int, int], ...]]


def _refused_with() -> list[_Row]:
    """Return calls that are refused if each listed argument, counted from 0, has at least one of its listed bits.

    An ordinary user may set setgid on existing files, because git sets it on folders of shared repositories.
    """
    mode = _USER_ID | (0 if os.geteuid() else _GROUP_ID)
    made = _USER_ID | _GROUP_ID
    return [
        ((272, 97), ((0, _NEW_USER),)),  # unshare
        ((56, 220), ((0, _NEW_USER),)),  # clone
        ((90, _NONE), ((1, mode),)),  # chmod
        ((91, 52), ((1, mode),)),  # fchmod
        ((268, 53), ((2, mode),)),  # fchmodat
        ((452, 452), ((2, mode),)),  # fchmodat2
        ((2, _NONE), ((1, _CREATES), (2, made))),  # open
        ((257, 56), ((2, _CREATES), (3, made))),  # openat
        ((85, _NONE), ((1, made),)),  # creat
        ((133, _NONE), ((1, made | _DEVICE),)),  # mknod
        ((259, 33), ((2, made | _DEVICE),)),  # mknodat
    ]


def has_filter() -> bool:
    """Return whether there is a filter for this machine's processor."""
    return os.uname().machine in _MACHINES


def filter_program() -> bytes:
    """Return the filter as the kernel takes it (an array of ``struct sock_filter``), b"" for an unsupported processor."""
    return b"".join(_program(*_MACHINES[os.uname().machine])) if has_filter() else b""


def _program(column: int, architecture: int) -> list[bytes]:
    """Return the instructions of the filter. Calls of other processors, such as 32-bit ones, fail."""
    lines = [_line(_LOAD, 4), _line(_EQUAL, architecture, 1), _fail(_ENOSYS)]
    lines += [_line(_LOAD, 0), _line(_AT_LEAST, _X32, 0, 1), _fail(_ENOSYS)]
    for calls, error in ((_REFUSED, _EPERM), (_UNKNOWN, _ENOSYS)):
        for numbers in calls.values():
            lines += _of_call(numbers[column], [_fail(error)])
    for numbers, conditions in _refused_with():
        checks: list[bytes] = []
        for argument, bits in reversed(conditions):
            checks = [_argument(argument), _line(_ANY_BIT, bits, 0, len(checks) + 1), *checks]
        if numbers[column] != _NONE:
            lines += _of_call(numbers[column], [*checks, _fail(_EPERM), _ALLOW])
    typed = [_argument(1), _line(_EQUAL, _INPUT[0], 1), _line(_EQUAL, _INPUT[1], 0, 1), _fail(_EPERM), _ALLOW]
    lines += _of_call((16, 29)[column], typed)  # ioctl
    known = [_line(_EQUAL, family, len(_FAMILIES) - index) for index, family in enumerate(_FAMILIES)]
    for number in ((41, 53), (198, 199))[column]:  # socket and socketpair
        lines += _of_call(number, [_argument(0), *known, _fail(_EAFNOSUPPORT), _ALLOW])
    return [*lines, _ALLOW]


_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06


def _line(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """Return an instruction: its operation, and how many following instructions it skips in each case."""
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _of_call(number: int, lines: list[bytes]) -> list[bytes]:
    """Return instructions for one call, which end in a return. For other calls they are skipped: the number stays loaded."""
    return [_line(_EQUAL, number, 0, len(lines)), *lines]


def _argument(index: int) -> bytes:
    """Return the instruction that loads the lower half of an argument. The kernel ignores the upper half of these arguments."""
    return _line(_LOAD, 16 + 8 * index)


def _fail(error: int) -> bytes:
    return _line(_RETURN, 0x50000 | error)


_ALLOW = _line(_RETURN, 0x7FFF0000)
