"""Commands that attack the connection between this process and its sandbox, and processes that outlive a call in it."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from toolcrib import Environment, EnvironmentFailed, ExecOutcome, ExecRequest, ReleasesIdle
from tools.environments import open_environment
from tools.environments.local import files
from tools.environments.local.holding import sandbox_here
from tools.environments.local.plan import SandboxPlan
from tools.environments.local.sandbox import Sandbox

_SEEN = r"cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' ' ' | grep -c 'sleep [1]98765'"


@pytest.fixture(autouse=True)
def _needs_namespaces() -> None:
    if sandbox_here("workspace").by != "namespaces":
        pytest.skip("this machine can make no namespaces")


@pytest.fixture
def boxed(folder: Path) -> Iterator[Environment]:
    environment = open_environment("local", cwd=str(folder), sandbox="workspace")
    yield environment
    asyncio.run(environment.close())


def _run(environment: Environment, command: str, timeout: float = 60.0) -> ExecOutcome:
    return asyncio.run(environment.execute(ExecRequest(command, timeout=timeout)))


def test_masks_hold_while_files_are_looked_at_in_a_sandbox_that_ends(tmp_path: Path, folder: Path) -> None:
    """A command can end the sandbox while this process opens a file."""
    keys = tmp_path.resolve() / "keys"
    keys.mkdir()
    (keys / "key").write_text("secret")
    sandbox = Sandbox(str(tmp_path / "root"), SandboxPlan(writable=(str(folder),), masked=(str(keys),)), "test")
    with sandbox.held() as view:
        root = os.open(view, os.O_PATH | os.O_DIRECTORY)
        try:
            sandbox.close()
            assert not os.path.lexists(view)
            with pytest.raises(FileNotFoundError):
                os.stat(f"{keys}/key"[1:], dir_fd=root)
        finally:
            os.close(root)


def test_a_daemon_keeps_the_sandbox_from_resting(boxed: Environment) -> None:
    assert isinstance(boxed, ReleasesIdle)
    _run(boxed, "setsid --fork sleep 198765")
    assert not asyncio.run(boxed.release_idle())
    assert _run(boxed, _SEEN).stdout.head == b"1\n"


def test_a_process_namespace_of_its_own_does_not_outlive_the_call(
    boxed: Environment, folder: Path, in_time: Callable[..., ExecOutcome]
) -> None:
    nested = "unshare --user --pid --fork sh -c 'echo >started; exec sleep 198765'"
    if _run(boxed, "unshare --user --pid --fork true").exit_code != 0:
        pytest.skip("no namespaces can be made in the sandbox")
    outcome = in_time(lambda limit: _run(boxed, nested, limit), lambda _: (folder / "started").exists())
    assert outcome.ended == "timeout"
    assert _run(boxed, _SEEN).stdout.head == b"0\n"


_HELD = """
import ctypes, os, time
keeper = int(open("/proc/1/task/1/children").read().split()[0])
if ctypes.CDLL(None).ptrace(16, keeper, 0, 0) == 0:
    os.waitpid(keeper, 0x40000000)
    full = os.open(f"/proc/{keeper}/fd/0", os.O_WRONLY | os.O_NONBLOCK)
    try:
        while True:
            os.write(full, b"x")
    except BlockingIOError:
        open("held", "w").close()
open("ready", "w").close()
time.sleep(600)
"""


def test_a_held_keeper_whose_input_is_full_holds_up_no_other_command(boxed: Environment, folder: Path) -> None:
    (folder / "held.py").write_text(_HELD)
    _run(boxed, f"'{sys.executable}' -I held.py >/dev/null 2>&1 & while [ ! -e ready ]; do sleep 0.05; done")
    if not (folder / "held").exists():
        pytest.skip("a process can't be traced here")

    async def two() -> None:
        await asyncio.gather(*(boxed.execute(ExecRequest("sleep 0.1", timeout=60)) for _ in range(2)))

    asyncio.run(two())
    assert _run(boxed, "echo well").stdout.head == b"well\n"


def test_facts_in_the_sandbox_are_not_those_of_a_link_on_the_way(tmp_path: Path) -> None:
    """A command can put a link there after the path was resolved, and its target would be read outside of the sandbox."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "key").write_text("secret")
    root = tmp_path / "root"
    root.mkdir()
    (root / "work").symlink_to(tmp_path / "outside")
    with pytest.raises(OSError, match="symbolic link"):
        files.info("/work/key", str(root))


def test_the_temporary_folder_itself_is_no_project() -> None:
    """The temporary folder has other sessions' files and sockets of other programs, which would become writable."""
    with pytest.raises(EnvironmentFailed, match="choose a folder below it"):
        open_environment("local", cwd=tempfile.gettempdir(), sandbox="workspace")


def test_a_project_in_a_masked_folder_is_refused(folder: Path) -> None:
    (folder / "keys" / "below").mkdir(parents=True)
    with pytest.raises(EnvironmentFailed, match="masked in it: choose another folder"):
        open_environment("local", cwd=str(folder / "keys" / "below"), sandbox="workspace", masked=[str(folder / "keys")])
