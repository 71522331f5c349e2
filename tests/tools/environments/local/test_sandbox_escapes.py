"""Ways out of the sandbox of this machine that no namespace closes."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from toolcrib import Environment, ExecRequest
from tools.environments import open_environment
from tools.environments.local.holding import sandbox_here


def _run(environment: Environment, command: str) -> str:
    outcome = asyncio.run(environment.execute(ExecRequest(command, timeout=60)))
    return (outcome.stdout.head + outcome.stderr.head).decode()


@pytest.fixture
def boxed(folder: Path) -> Iterator[Environment]:
    """An environment in the sandbox, with the network."""
    if sandbox_here("workspace").by != "namespaces":
        pytest.skip("this machine can make no namespaces")
    environment = open_environment("local", cwd=str(folder), sandbox="workspace", network=True)
    yield environment
    asyncio.run(environment.close())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change the devices of a machine")
def test_root_changes_no_mode_of_a_device(boxed: Environment) -> None:
    """/dev/null belongs to the machine, and root in the sandbox owns it."""
    said = _run(boxed, "chmod 0666 /dev/null; touch /dev/zero; echo x >/dev/null && head -c 3 /dev/zero | wc -c")
    assert said.count("Read-only file system") == 2
    assert said.startswith("3\n")


_KEYS = """
import asyncio, ctypes, sys
from toolcrib import ExecRequest
from tools.environments import open_environment

async def main(work):
    environment = open_environment("local", cwd=work, sandbox="workspace")
    try:
        search = "import ctypes; print(ctypes.CDLL(None).syscall({nr}, 10, -3, b'user', b'toolcrib-test', 0))"
        found = await environment.execute(ExecRequest(f'"{{sys.executable}}" -I -c "{{search}}"', timeout=60))
        print(found.stdout.head.decode().strip(), found.stderr.head.decode())
    finally:
        await environment.close()

libc = ctypes.CDLL(None)
libc.syscall({nr}, 1, None)
added = libc.syscall({add}, b"user", b"toolcrib-test", b"secret", 6, -3)
print(added > 0, libc.syscall({nr}, 10, -3, b"user", b"toolcrib-test", 0) == added)
asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers of the system calls are x86_64's")
def test_keys_of_the_login_session_are_not_found(boxed: Environment, folder: Path) -> None:
    if ctypes.CDLL(None).syscall(250, 0, -3, 0) < 0:
        pytest.skip("this kernel keeps no keys")
    argv = [sys.executable, "-c", _KEYS.format(nr=250, add=248), str(folder)]
    done = subprocess.run(argv, cwd=Path(__file__).parents[4], capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.split() == ["True", "True", "-1"], done.stderr


def test_an_abstract_socket_outside_is_not_reached(boxed: Environment) -> None:
    """Abstract sockets belong to the network, and X servers and buses listen on them."""
    if ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1) < 6:
        pytest.skip("this kernel can't close abstract sockets")
    name = f"\0toolcrib-test-{os.getpid()}"
    program = f"import socket; print(socket.socket(socket.AF_UNIX).connect_ex({name!r}))"
    with socket.socket(socket.AF_UNIX) as outside:
        outside.bind(name)
        outside.listen()
        assert _run(boxed, f"'{sys.executable}' -I -c '{program.replace(chr(39), chr(34))}'") == "1\n"  # EPERM


_CONNECT = """
import os, socket, sys
for path in sys.argv[1:]:
    kind = socket.SOCK_DGRAM if path.endswith("datagrams") else socket.SOCK_STREAM
    print(os.path.basename(path), os.strerror(socket.socket(socket.AF_UNIX, kind).connect_ex(path)))
"""


@contextlib.contextmanager
def _listening(path: Path) -> Iterator[None]:
    """Listen on a socket that every account may connect to."""
    kind = socket.SOCK_DGRAM if path.name == "datagrams" else socket.SOCK_STREAM
    with socket.socket(socket.AF_UNIX, kind) as listener:
        listener.bind(str(path))
        path.chmod(0o777)
        if kind == socket.SOCK_STREAM:
            listener.listen()
        yield
    path.unlink()


@pytest.mark.parametrize("network", [True, False])
def test_sockets_of_programs_outside_are_not_reached(inside: Callable[..., list[Any]], network: bool) -> None:
    """Databases, editors and engines have such sockets, in any folder."""
    home: Path = inside.home  # type: ignore[attr-defined]  # see the fixture
    (home / "project" / "connect.py").write_text(_CONNECT)
    (home / ".cache").mkdir()
    os.chown(home / ".cache", home.stat().st_uid, home.stat().st_gid)
    paths = [home / "stream", home / "datagrams", home / ".cache" / "cached", home / "project" / "mine"]
    with contextlib.ExitStack() as opened:
        for path in paths:
            opened.enter_context(_listening(path))
        said = inside(("run", f"python3 -I connect.py {' '.join(map(str, paths))}"), network=network)[0].splitlines()
    refused = [line.split()[0] for line in said if line.endswith("Connection refused")]
    # With the machine's network, the project's socket may belong to a program of the sandbox.
    assert refused == ["stream", "datagrams", "cached", *([] if network else ["mine"])]
    assert len(said) == 4


def test_a_socket_that_appears_later_is_closed_soon(public_folder: Path) -> None:
    if sandbox_here("workspace").by != "namespaces":
        pytest.skip("this machine can make no namespaces")
    work = public_folder / "work"
    work.mkdir()
    (work / "connect.py").write_text(_CONNECT)
    connect = f"python3 -I connect.py {public_folder}/later"
    environment = open_environment("local", cwd=str(work), sandbox="workspace")
    try:
        assert "No such file" in _run(environment, connect)
        with _listening(public_folder / "later"):
            while "refused" not in _run(environment, connect):
                time.sleep(0.1)
            assert (public_folder / "later").is_socket()
        assert _run(environment, connect).startswith("later ")
    finally:
        asyncio.run(environment.close())


_CONTROL_GROUPS = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
os.makedirs("/tmp/groups", exist_ok=True)
print(libc.unshare(0x10000000 | 0x20000 | 0x2000000))
for kind, data in ((b"cgroup2", None), (b"cgroup", b"memory"), (b"tmpfs", None)):
    print(libc.mount(b"none", b"/tmp/groups", kind, ctypes.c_ulong(0), data))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root owns the machine's control groups")
@pytest.mark.parametrize("mode", ["workspace", "own"])
def test_root_mounts_no_control_groups_in_a_namespace_of_its_own(boxed: Environment, folder: Path, mode: str) -> None:
    environment = boxed if mode == "workspace" else open_environment("local", cwd=str(folder), sandbox=mode, network=True)
    (folder / "groups.py").write_text(_CONTROL_GROUPS)
    said = _run(environment, f"'{sys.executable}' -I groups.py; mkdir a b; echo moved >a/f; mv a/f b/f && cat b/f")
    asyncio.run(environment.close())
    assert said == "-1\n-1\n-1\n-1\nmoved\n"
