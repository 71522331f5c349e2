"""Backends of programs: faults of the program, and the end of its environment. The conformance tests run a complete backend."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from toolcrib import Environment, EnvironmentFailed, ExecRequest
from toolcrib.backends import ExecProgram, open_program


class Here(ExecProgram):
    """Runs commands on this machine while a process that ``start`` made is alive. ``before`` are the program's first words."""

    def __init__(self, *before: str, pass_env: Sequence[str] = ()) -> None:
        super().__init__("here", pass_env=pass_env)
        self.before = before
        self.alive: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        self.alive.append(subprocess.Popen(["sleep", "300"]))

    def is_running(self) -> bool:
        return self.alive[-1].poll() is None

    def stop(self) -> None:
        for process in self.alive:
            process.kill()
            process.wait()

    def argv(self, command: Sequence[str]) -> Sequence[str]:
        return [*(self.before or ["nice"]), *command]


def says(env: Environment, command: str) -> str:
    outcome = asyncio.run(env.execute(ExecRequest(command, timeout=60)))
    return f"{outcome.stdout.head.decode()}{outcome.notice}"


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    program = Here()
    yield program
    program.stop()


def test_it_starts_once_and_stops_at_the_end(here: Here, tmp_path: Path) -> None:
    env = open_program(here, str(tmp_path))
    assert not here.alive
    assert says(env, "x=1; pwd") == f"{tmp_path}\n"
    assert says(env, "echo $x") == "1\n"
    assert len(here.alive) == 1
    asyncio.run(env.close())
    assert not here.is_running()
    with pytest.raises(EnvironmentFailed, match="this environment is closed"):
        says(env, "true")


def test_what_has_ended_is_started_again_and_the_result_says_so(here: Here, tmp_path: Path) -> None:
    env = open_program(here, str(tmp_path))
    pid = _pid_of(here, env)
    ended = f"until ! grep -q '^State:.[^Z]' /proc/{pid}/status 2>/dev/null; do sleep .02; done"
    with pytest.raises(EnvironmentFailed, match="here was lost: what runs in here has ended; the command may have run"):
        says(env, f"kill {pid}; {ended}; kill -9 $PPID; sleep .5")
    assert "here was replaced: " in says(env, "echo again")
    assert len(here.alive) == 2
    asyncio.run(env.close())


def _pid_of(here: Here, env: Environment) -> int:
    says(env, "true")
    return here.alive[-1].pid


def test_a_program_that_is_missing_is_named(tmp_path: Path) -> None:
    env = open_program(Here("no-such-program"), str(tmp_path))
    with pytest.raises(EnvironmentFailed, match="no-such-program is not found on PATH: install it"):
        says(env, "touch ran")
    asyncio.run(env.close())


def test_a_program_that_fails_says_why(tmp_path: Path) -> None:
    program = Here("sh", "-c", "echo 'no container toolbox' >&2; exit 125")
    env = open_program(program, str(tmp_path))
    with pytest.raises(EnvironmentFailed, match=r"no shell could be started in here \(no container toolbox\); nothing was run"):
        says(env, "touch ran")
    assert "no container toolbox" in asyncio.run(env.health()).problem
    asyncio.run(env.close())


def test_commands_get_no_variables_but_those_that_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("A_KEY", "secret")
    monkeypatch.setenv("A_SETTING", "known")
    program = Here(pass_env=["A_SETTING"])
    env = open_program(program, str(tmp_path), env={"GIVEN": "x"})
    assert says(env, "echo ${A_KEY-none} $A_SETTING $GIVEN") == "none known x\n"
    asyncio.run(env.close())
    with pytest.raises(EnvironmentFailed, match="pass_env takes a list"):
        Here(pass_env="A_KEY")


def test_a_place_without_bash_runs_each_command_in_sh(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("sh", "setsid", "sleep", "mkdir", "cat", "rm"):
        (tmp_path / "bin" / name).symlink_to(_found(name))
    env = open_program(Here("env", f"PATH={tmp_path}/bin"), str(tmp_path))
    assert "bash is missing in here" in says(env, "echo one")
    assert asyncio.run(env.execute(ExecRequest("x=1; exit 3"))).exit_code == 3
    asyncio.run(env.close())


def _found(name: str) -> str:
    return subprocess.run(["sh", "-c", f"command -v {name}"], capture_output=True, text=True, check=True).stdout.strip()


def test_what_start_raises_is_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Here()
    monkeypatch.setattr(program, "start", lambda: program.start_process(["no-such-program"]))
    env = open_program(program, str(tmp_path))
    with pytest.raises(EnvironmentFailed, match=r"here cannot be started: .*No such file or directory: 'no-such-program'"):
        says(env, "touch ran")
    asyncio.run(env.close())


def test_a_process_that_lasts_gets_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", "secret")
    process = Here().start_process(["sh", "-c", "echo ${A_KEY-none} >&2; cat"])
    assert process.communicate(b"input") == (b"none\ninput", None)
