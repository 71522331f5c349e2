"""Files as commands see them, and the limits of the sandbox (003-29)."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from toolcrib import Environment, EnvironmentFailed, ExecOutcome, ExecRequest, KnowsHome
from tools.environments import open_environment
from tools.environments.local.plan import MASKED

Says = Callable[..., str]
Run = Callable[..., ExecOutcome]


def do(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(coroutine)


def test_files_are_as_commands_see_them(env: Environment, says: Says, folder: Path) -> None:
    do(env.write_file(f"{folder}/new/a", b"\0data", mode=0o640))
    assert says("stat -c '%a %s' new/a") == "640 5\n"
    says("ln -s new link; echo hi >/tmp/only-here; ln -s /tmp/only-here there")
    assert do(env.resolve("link/a")) == f"{folder}/new/a"
    assert do(env.resolve("there")) == "/tmp/only-here"
    assert do(env.read_file("/tmp/only-here")) == b"hi\n"
    info = do(env.stat(f"{folder}/link"))
    assert (info.kind, do(env.stat(f"{folder}/nothing")), do(env.stat("/")).kind) == ("link", None, "dir")
    assert [each.path for each in do(env.list_dir(f"{folder}/new"))] == [f"{folder}/new/a"]
    with pytest.raises(OSError, match="symbolic link"):
        do(env.read_file(f"{folder}/link/a"))
    do(env.delete_file("/tmp/only-here"))
    assert says("ls /tmp/only-here 2>/dev/null || echo gone") == "gone\n"
    with pytest.raises(FileNotFoundError):
        do(env.read_file(f"{folder}/nothing"))


def test_a_home_is_the_same_for_files_and_commands(env: Environment, says: Says) -> None:
    there = says("echo ~").strip()
    assert do(env.resolve("~/a")) == says("realpath -m ~/a").strip()
    if isinstance(env, KnowsHome):
        assert do(env.home()) == there
        says("export HOME=/elsewhere")
        assert do(env.home()) == there


def test_a_file_of_100_mb(env: Environment, says: Says, folder: Path) -> None:
    data = bytes(range(256)) * 390_625
    do(env.write_file(f"{folder}/big", data))
    assert says("stat -c %s big") == "100000000\n"
    assert do(env.read_file(f"{folder}/big")) == data


@pytest.fixture
def boxed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Environment]:
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id").write_text("key")
    (home / ".netrc").write_text("password")
    (home / "work").mkdir()
    monkeypatch.setenv("HOME", str(home))
    made: list[Environment] = []

    def boxed(**options: Any) -> Environment:
        made.append(open_environment("local", cwd=str(home / "work"), sandbox="bubblewrap", **options))
        return made[-1]

    yield boxed
    for environment in made:
        do(environment.close())


def command(env: Environment, text: str) -> str:
    outcome = do(env.execute(ExecRequest(text, timeout=60)))
    return (outcome.stdout.head + outcome.stderr.head).decode()


def test_only_the_project_is_writable(boxed: Callable[..., Environment], tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    env = boxed(writable=[str(tmp_path / "other")])
    assert env.identity == "local:bubblewrap"
    said = command(env, f"touch here {tmp_path}/other/x /tmp/y; touch /usr/x /etc/x; echo done")
    assert said.count("Read-only file system") == 2
    assert "done" in said
    assert (tmp_path / "other" / "x").exists()
    for path in ("/etc/x", "/usr/local/x"):
        with pytest.raises(OSError, match=r"read-only in the sandbox, where /tmp and these are writable: ") as raised:
            do(env.write_file(path, b"x"))
        assert raised.value.errno == errno.EROFS
    with pytest.raises(OSError, match="read-only in the sandbox"):
        do(env.delete_file("/etc/passwd"))
    do(env.write_file(f"{tmp_path}/other/z", b"z"))
    assert (tmp_path / "other" / "z").read_bytes() == b"z"


def test_keys_are_masked_for_commands_and_files(boxed: Callable[..., Environment], tmp_path: Path) -> None:
    env = boxed()
    said = command(env, "ls -A ~/.ssh 2>/dev/null; cat ~/.netrc 2>/dev/null; cat ~/.ssh/id 2>/dev/null || echo none")
    assert said == "none\n"
    with contextlib.suppress(FileNotFoundError):  # it is below a temporary folder, which the sandbox replaces
        assert do(env.list_dir(f"{tmp_path}/home/.ssh")) == []
    with pytest.raises(FileNotFoundError):
        do(env.read_file(f"{tmp_path}/home/.ssh/id"))
    with pytest.raises(OSError, match=r"not a regular file|denied|No such file"):
        do(env.read_file(f"{tmp_path}/home/.netrc"))


def test_no_network_no_privileges_no_other_processes(boxed: Callable[..., Environment]) -> None:
    env = boxed()
    assert command(env, "tail -n +3 /proc/net/dev | cut -d: -f1").split() == ["lo"]
    assert command(env, "grep CapEff /proc/self/status").split()[1] == "0000000000000000"
    seen = command(env, "for each in /proc/[0-9]*; do cat $each/comm; done").split()
    assert set(seen) <= {"bwrap", "bash", "cat"}
    assert command(env, "ls /run; kill -9 1; echo $?").endswith("0\n")


def test_our_own_files_and_other_sessions_cannot_be_seen(
    boxed: Callable[..., Environment], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("home/.config/toolcrib", "home/.local/state/toolcrib", "elsewhere", "temporary/toolcrib-1-x"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "secret").write_text("secret")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    other, env = boxed(), boxed(masked=[*MASKED, str(tmp_path / "elsewhere")])
    command(other, "echo secret >/tmp/secret; secret=1; export secret; echo $$")
    masked = "~/.config/toolcrib ~/.local/state/toolcrib ../../elsewhere ../../temporary /dev/shm"
    assert command(env, f"for each in {masked}; do ls -A $each 2>/dev/null; done") == ""
    assert command(env, "grep -rs secret /tmp /dev/shm; env | grep secret") == ""
    with contextlib.suppress(FileNotFoundError):  # as above
        assert do(env.list_dir(str(tmp_path / "elsewhere"))) == []


def test_so_many_processes_and_no_more(boxed: Callable[..., Environment]) -> None:
    env = boxed(processes=40)
    assert command(env, "ulimit -u; ulimit -Hu") == "40\n40\n"
    if os.geteuid() != 0:  # the kernel does not apply this limit to root
        assert "Resource temporarily unavailable" in command(env, "for i in {1..80}; do sleep 9 & done; kill %1")


def test_the_network_where_it_is_allowed(boxed: Callable[..., Environment]) -> None:
    assert Path("/proc/net/dev").read_text().count("\n") == command(boxed(network=True), "cat /proc/net/dev").count("\n")


def test_a_sandbox_that_died_is_started_again(
    boxed: Callable[..., Environment], sleeper: Any, eventually: Callable[[Callable[[], object]], None]
) -> None:
    env = boxed()
    command(env, "kept=1; f() { echo f; }")
    for _ in range(3):
        command(env, "kill -9 -1")
        assert command(env, "echo $kept; f") == "1\nf\n"
    command(env, f"({sleeper.command} &); (setsid {sleeper.command} &)")
    eventually(lambda: sleeper.count() == 2)
    command(env, "kill -9 $(ps -o ppid= $PPID)")
    # It may still be ending when the next command begins, which runs correctly in either case.
    eventually(lambda: command(env, "echo $kept; f") == "1\nf\n" and not sleeper.count())
    command(env, "kill -9 -1")
    assert do(env.stat("/etc/passwd")).kind == "file"


def test_how_a_shell_ended_is_known_however_long_it_takes_to_be_said(boxed: Callable[..., Environment]) -> None:
    env = boxed()
    command(env, "true")
    wrapper = env._pool._shell.process._wrapper  # type: ignore[attr-defined]  # as on a machine under load
    signal.pidfd_send_signal(wrapper, signal.SIGSTOP)
    goes_on = threading.Timer(1, signal.pidfd_send_signal, (wrapper, signal.SIGCONT))
    goes_on.start()
    assert do(env.execute(ExecRequest("exit 3", timeout=60))).exit_code == 3
    goes_on.join()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"writable": "/x"}, "writable takes a list"),
        ({"writable": ["/does/not/exist"]}, "does not exist"),
        ({"writable": ["/"]}, "make the whole machine writable"),
    ],
)
def test_faults_in_its_options_are_named(boxed: Callable[..., Environment], options: dict[str, Any], said: str) -> None:
    with pytest.raises(EnvironmentFailed, match=said):
        boxed(**options)


def test_never_without_a_sandbox(boxed: Callable[..., Environment], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = boxed()
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho 'unshare: Operation not permitted' >&2; exit 125\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    with pytest.raises(EnvironmentFailed, match=r"can't be created.*nothing runs outside.*unshare: Operation not permitted"):
        command(env, "touch ran")
    assert "nothing runs outside" in do(env.health()).problem
    assert not (tmp_path / "home" / "work" / "ran").exists()
    with pytest.raises(EnvironmentFailed, match="unknown sandbox 'jail'; known: bubblewrap, none"):
        open_environment("local", sandbox="jail")
