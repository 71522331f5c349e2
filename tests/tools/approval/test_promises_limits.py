"""Limits are counts with a guard of CPU time behind them, and every failure denies the call."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.config import load_config
from agent.policy.allowlist import PermanentGrants
from toolcrib import Answer, ConfigError, EnvironmentFailed
from toolcrib.testing import FakeEnvironment
from tools.approval.explain import Judge
from tools.approval.grants import MemoryGrants
from tools.approval.snapshot import LocalFiles
from tools.dispatch.bridge import run_async
from tools.environments.local import LocalEnvironment
from tools.judge.budget import Budget
from tools.judge.meaning import NoFiles, ShellNow, interpret
from tools.judge.setting import Setting

Floors = Callable[..., Any]
PROJECT = "/home/dev/project"
LONG = "\n".join(f"for i in 1 2 3; do if $c{n}; then cd d$i; x{n}=$(echo $i); rm -rf $x{n}; fi; done" for n in range(60))


def verdict(command: str) -> list[tuple[str, str]]:
    examined = Judge(Setting(home="/home/dev")).examine(command, PROJECT, files=False)
    return [(finding.key, finding.level) for finding in examined.findings]


@pytest.mark.parametrize("command", ["ls", "rm -rf build", LONG, "f(){ f; f; }; f", "echo " + "{a,b}" * 20])
def test_a_verdict_is_the_same_however_busy_the_machine_is(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wall time does not matter, because the budget counts steps."""
    monkeypatch.setattr(time, "thread_time", lambda: 0.0)  # on a slow machine the guard of CPU time might act first
    before = verdict(command)
    now = [0.0]

    def leaps() -> float:
        now[0] += 3600.0
        return now[0]

    for name in ("time", "monotonic", "perf_counter"):
        monkeypatch.setattr(time, name, leaps)
    assert verdict(command) == before


def test_at_the_limit_of_steps_it_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "thread_time", lambda: 0.0)  # on a slow machine the guard of CPU time might act first
    meaning = interpret("ls; " * 500, ShellNow(), NoFiles(), Budget(steps=100))
    assert [fault.kind for fault in meaning.faults] == ["steps"]
    assert ("opaque.steps", "ask-once") in verdict("a;" * 30_000)


def test_behind_the_steps_stands_a_guard_of_cpu_time_and_it_fails_closed(monkeypatch: pytest.MonkeyPatch, floor: Any) -> None:
    """One second of this thread's CPU time, checked every few hundred steps; findings until then still count."""
    assert Budget().cpu_seconds == 1.0
    command = "rm -rf build\n" + "ls\n" * 600
    assert verdict(command) == [("fs.recursive-delete", "ask")]
    spent = [0.0]

    def thread_time() -> float:
        spent[0] += 0.6
        return spent[0]

    monkeypatch.setattr(time, "thread_time", thread_time)
    assert verdict(command) == [("fs.recursive-delete", "ask"), ("opaque.time", "ask-once")]
    assert floor.do("ls\n" * 600) == {"opaque.time"}
    assert floor.ran == []


def test_the_guard_counts_this_thread_only() -> None:
    """The work of other threads does not count."""
    stop = threading.Event()

    def burn() -> None:
        while not stop.is_set():
            sum(range(1_000))

    threads = [threading.Thread(target=burn) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        assert verdict("rm -rf build\n" + "ls\n" * 600) == [("fs.recursive-delete", "ask")]
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize(
    "command",
    [
        "x=" + "a" * 5_000 + "; echo ${x//+(+(a))b/c}",
        "x=" + "a" * 5_000 + "; echo ${x//+(a|a)b/c}",
        "x=" + "a" * 5_000 + "; echo ${x//*(@(a|aa))b/c}",
        "x=" + "a" * 2_000 + "; echo ${x%*a*a*a*a*b}",
        "x=" + "a" * 9_000 + "; echo ${x##*a*a*a*a*b}",
        "x=" + "a" * 9_000 + "; echo ${x/%*a*a*b/c}",
        "x=" + "a" * 2_000 + "; [[ $x == *a*a*a*a*a*b ]] && ls",
        "case " + "a" * 2_000 + " in *a*a*a*a*a*b) ls;; esac",
        "printf '%0999999999d' 1 | bash",
        "printf '%*d' 999999999 1 | bash",
        "printf '%.999999999f' 1 | bash",
        "echo $((9**9**9**9)) {1..999999999}",
        "$(" * 5_000,
        "{ " * 40_000,
        "f(){ f $1a; g $1; }; g(){ f b$1; }; f x",
        "while :; do x=$x$x; done",
    ],
)
def test_nothing_that_is_written_holds_the_judge_up(command: str) -> None:
    """Patterns with exponential time in ``re``, endless padding, nesting: the judge ends (within the suite's time limit).

    It reports no false findings.
    """
    assert all(level in ("ask", "ask-once") for _, level in verdict(command))


def test_a_pattern_that_is_cheap_is_still_followed() -> None:
    assert ("fs.recursive-delete-root", "block") in verdict("x='rm -rf /;junk'; ${x%%;*}")
    assert ("fs.recursive-delete-root", "block") in verdict("x=aaarm; ${x##+(a)} -rf /")
    assert ("fs.recursive-delete-root", "block") in verdict("x=r-m; ${x//-/} -rf /")
    assert ("fs.recursive-delete-root", "block") in verdict("x=rXYm; ${x//*(X|Y)/} -rf /")


# -- files that take long ----------------------------------------------------------------------------------------------


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "tty").symlink_to("/dev/tty")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "folder").mkdir()
    (tmp_path / "huge").write_bytes(b"ls\n" * 100_000)
    (tmp_path / "latin").write_bytes(b"#!/bin/sh\nrm -rf / # \xe9\n")
    (tmp_path / "nul").write_bytes(b"#!/bin/sh\nrm -rf /\n\0")
    return tmp_path


@pytest.mark.parametrize("name", ["pipe", "zero", "huge", "latin", "nul"])
@pytest.mark.parametrize("how", ["bash {}", ". ./{}", "./{}", "bash < {}", "python3 {}"])
def test_fifos_devices_and_what_is_no_text_ask_and_never_hang(floors: Floors, odd: Path, name: str, how: str) -> None:
    command = how.format(name)
    found = Judge(Setting(home="/home/dev")).examine(command, str(odd)).findings
    assert {finding.level for finding in found} == {"ask-once"}, found
    environment = LocalEnvironment(str(odd))
    assert floors(environment).asks(command)


@pytest.mark.parametrize("name", ["loop", "folder", "tty"])
def test_neither_do_loops_folders_and_terminals(odd: Path, name: str) -> None:
    assert LocalFiles().inspect_path(str(odd / name)).text is None
    Judge(Setting()).examine(f"bash {name}", str(odd))


# -- every failure denies ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["rm -rf 'build", "case x in", "echo $(", "for do", "if then fi"])
def test_what_cannot_be_read_is_asked_about(floor: Any, command: str) -> None:
    assert floor.asks(command)
    assert floor.ran == []


def test_an_exception_inside_the_judge_asks(floor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any) -> Any:
        raise ZeroDivisionError("a mistake of ours")

    monkeypatch.setattr("tools.judge.meaning.run.Interpreter.item", broken)
    assert floor.do("ls") == {"opaque.opaque"}


def test_nobody_to_ask_means_no(floor: Any) -> None:
    """003-28"""
    executed = floor.run("terminal", {"command": "rm -rf build"}, floor.scope(suspends=False))
    assert executed.result.failure.kind == "Denied"
    assert "no user can be asked" in executed.result.failure.text
    assert floor.ran == []


async def _fails(ticket: Any, ctx: Any) -> Answer:
    raise ConnectionError("the chat server is down")


async def _answers_another(ticket: Any, ctx: Any) -> Answer:
    return Answer("0" * 32, payload={"approved": True}, by="ann")


async def _says_true(ticket: Any, ctx: Any) -> Any:
    return True


async def _says_nothing(ticket: Any, ctx: Any) -> None:
    return None


@pytest.mark.parametrize("asker", [_fails, _answers_another, _says_true, _says_nothing])
def test_a_question_that_does_not_arrive_means_no(floor: Any, asker: Any) -> None:
    """A notifier fails, or returns an answer to another question or an invalid answer."""
    executed = floor.run("terminal", {"command": "rm -rf build"}, floor.scope(asker=asker))
    assert executed.result.failure.kind == "Denied"
    assert floor.ran == []
    assert run_async(floor.store.tickets.pending()) == []


def test_a_configuration_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    for text in ("approval: [", "approval: {nonsense: 1}", "command_allowlist: yes", "\x00"):
        file.write_text(text)
        with pytest.raises(ConfigError):
            load_config(file)


def test_grants_that_cannot_be_read_grant_nothing(floors: Floors, tmp_path: Path) -> None:
    """Grants that were readable when the session began are not used either."""
    file = tmp_path / "config.yaml"
    grants = PermanentGrants(MemoryGrants(), file, tmp_path / "state")
    floor = floors(grants=grants)
    floor.grant("rm -rf build", "always")
    assert floor.do("rm -rf build") == "ran"
    state = tmp_path / "state" / "allowlist.json"
    state.unlink()
    state.mkdir()
    assert floor.do("rm -rf build") != "ran"
    assert floor.do("ls") == "ran"


class Dark(FakeEnvironment):
    async def stat(self, path: str) -> Any:
        raise EnvironmentFailed("the container is gone")


def test_files_that_the_place_cannot_show_count_as_there_and_unread(floors: Floors) -> None:
    floor = floors(Dark(cwd=PROJECT))
    assert floor.do("bash x.sh") == {"opaque.file"}
    assert floor.do("./x.sh") == {"opaque.file"}
