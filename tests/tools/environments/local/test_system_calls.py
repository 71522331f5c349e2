"""System calls that a sandbox refuses, made by real programs, as this account and as an ordinary user."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Inside = Callable[..., list[Any]]
_CALLS = """
import ctypes, fcntl, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def failed(call, *words):
    try:
        call(*words)
    except OSError as error:
        return error.errno
    return 0
def raw(number, *words):
    return ctypes.get_errno() if libc.syscall(number, *words) < 0 else 0
print("families", *(failed(socket.socket, family, 2) for family in (1, 2, 10, 16, 17, 38, 40)))
print("typing", failed(fcntl.ioctl, 0, 0x5412, b"x"), failed(fcntl.ioctl, 0, 0x541C, b"x"), raw(16, 0, 0x5412 + (1 << 32), 0))
print("keys", raw(250, 10, -4, b"user", b"toolcrib-test", 0))
print("keyrings", raw(248, b"user", b"a", b"b", 1, -4), raw(249, b"user", b"a", None, 0))
print("mounts", *(raw(number, 0, 0, 0, 0, 0) for number in (165, 166, 155, 428, 429, 430, 432, 433, 442, 467)))
print("spaces", raw(272, 0x10000000), raw(272, 0x10020000), raw(56, 0x10000000 | 17, 0, 0, 0, 0), raw(308, 0, 0))
kernel = (321, 298, 323, 425, 426, 427, 304, 246, 320, 175, 313, 176, 167, 168)
print("kernel", *(raw(number, 0, 0, 0, 0, 0) for number in kernel))
print("unknown", raw(435, 0, 0), raw(437, -100, b"/", 0, 24), raw((1 << 30) + 39), raw((1 << 30) + 165, 0, 0, 0, 0, 0))
"""
_MODES = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def raw(number, *words):
    return ctypes.get_errno() if libc.syscall(number, *words) < 0 else 0
os.mkdir("shared")
file = os.open("file", os.O_CREAT | os.O_WRONLY, 0o755)
print("user", raw(90, b"file", 0o4755), raw(91, file, 0o4755), raw(268, -100, b"file", 0o4755),
      raw(452, -100, b"file", 0o4755, 0))
print("group", raw(90, b"file", 0o2755), raw(91, file, 0o2755), raw(90, b"shared", 0o2775))
print("made", raw(2, b"a", 0o101, 0o4755), raw(257, -100, b"a", 0o101, 0o2755), raw(85, b"a", 0o4755),
      raw(133, b"a", 0o104755, 0), raw(257, -100, b".", 0o20200001, 0o4755))
print("devices", raw(133, b"a", 0o020666, 0x103), raw(259, -100, b"a", 0o060666, 0x700), raw(133, b"a", 0o020666, 0))
print("usual", raw(90, b"file", 0o1755), raw(133, b"pipe", 0o010666, 0), raw(257, -100, b"file", 0, 0o4755),
      raw(83, b"d", 0o4755), oct(os.stat("d").st_mode))
"""
_COMPAT = 'static int call(int n){int r; __asm__ volatile("int $0x80":"=a"(r):"a"(n):"memory"); return r;}\n'
_COMPAT += '#include <stdio.h>\nint main(void){printf("%d\\n", call(20)); return 0;}\n'

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers of the system calls are x86_64's")


def _run(inside: Inside, program: str, **options: Any) -> dict[str, list[str]]:
    home: Path = inside.home  # type: ignore[attr-defined]  # see the fixture
    (home / "project" / "calls.py").write_text(program)
    said = inside(("run", "umask 0; python3 -I calls.py"), **options)[0]
    return {line.split()[0]: line.split()[1:] for line in said.splitlines()}


@pytest.mark.parametrize("mode", ["workspace", "own"])
def test_calls_that_no_build_needs_are_refused(inside: Inside, mode: str) -> None:
    said = _run(inside, _CALLS, sandbox=mode, network=True)
    assert said["families"] == ["0", "0", "0", "0", "97", "97", "97"]
    assert said["unknown"] == ["38"] * 4  # ENOSYS
    refused = (said[name] for name in ("typing", "keys", "keyrings", "mounts", "spaces", "kernel"))
    assert {number for numbers in refused for number in numbers} == {"1"}  # EPERM


@pytest.mark.parametrize("mode", ["workspace", "own"])
def test_no_setuid_file_and_no_device_is_left(inside: Inside, mode: str) -> None:
    """An ordinary user's git sets setgid on the folders of a shared repository."""
    is_root = inside.home.stat().st_uid == 0  # type: ignore[attr-defined]  # as above
    said = _run(inside, _MODES, sandbox=mode, network=True)
    assert {*said["user"], *said["made"], *said["devices"]} == {"1"}
    assert said["group"] == (["1"] * 3 if is_root else ["0"] * 3)
    assert said["usual"] == ["0", "0", "0", "0", "0o40755"]
    left = [path for path in inside.home.rglob("*") if not path.is_symlink() and path.stat().st_mode & 0o4000]  # type: ignore[attr-defined]  # as above
    assert left == []


def test_a_32_bit_call_is_refused(inside: Inside) -> None:
    """The numbers of 32-bit calls differ, so a filter of 64-bit calls would mistake one call for another."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler is found")
    home: Path = inside.home  # type: ignore[attr-defined]  # see the fixture
    subprocess.run(["cc", "-x", "c", "-", "-o", home / "project" / "compat"], input=_COMPAT.encode(), check=True)
    assert inside(("run", "./compat"))[0] == "-38\n"


def test_keys_of_the_user_are_not_found(inside: Inside) -> None:
    """Root's user keyring is shared by the whole machine, in all namespaces."""
    if os.geteuid() != 0 or inside.home.stat().st_uid != 0:  # type: ignore[attr-defined]  # see the fixture
        pytest.skip("an ordinary user's keyring is that of their user namespace")
    libc = ctypes.CDLL(None)
    key = libc.syscall(248, b"user", b"toolcrib-test", b"secret", 6, -4)
    if key < 0:
        pytest.skip("this kernel keeps no keys")
    try:
        assert libc.syscall(250, 10, -4, b"user", b"toolcrib-test", 0) == key
        assert _run(inside, _CALLS)["keys"] == ["1"]
    finally:
        libc.syscall(250, 9, key, -4)  # KEYCTL_UNLINK


def test_threads_children_and_git_work(inside: Inside) -> None:
    """The C library falls back from clone3 to clone."""
    command = (
        "python3 -c 'import threading; t = threading.Thread(target=print, args=(1,)); t.start(); t.join()' && "
        "git init -q r && git -C r -c user.name=a -c user.email=a@b commit -q --allow-empty -m a && "
        "cp -a r copy && tar c copy | tar x -C /tmp && mktemp -d >/dev/null && seq 3 | xargs -P 3 -n 1 true && echo done"
    )
    assert inside(("run", command))[0] == "1\ndone\n"
