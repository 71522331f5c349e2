"""``terminal`` as a model calls it: through the dispatcher, on this machine (003-29)."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tools.terminal_tool as terminal_tool
from toolcrib import (
    ActivityEvent,
    Block,
    Captured,
    ExecOutcome,
    RunIdentity,
    RunsCommand,
    ToolCall,
    ToolCallStatus,
    hookimpl,
    registry,
)
from toolcrib.contract.session import ExecutedCall
from toolcrib.testing import FakeEnvironment, call_tool
from tools.clip import encode
from tools.dispatch.hooks import new_manager
from tools.dispatch.pipeline import Dispatcher
from tools.dispatch.scope import CallScope
from tools.environments import open_environment
from tools.processes.arguments import schema_for


class Gate:
    """A stand-in for the approval gate, which allows every call and records its data."""

    def __init__(self) -> None:
        self.effects: list[Any] = []
        self.shells: list[Any] = []
        self.before: Callable[[], None] = lambda: None

    @hookimpl
    def tool_gate(self, call: ToolCall, ctx: Any) -> None:
        self.effects += [RunsCommand(each.command, each.cwd) for each in ctx.effects]
        self.shells = [each.shell for each in ctx.effects]
        self.before()


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def scope(folder: Path) -> Iterator[CallScope]:
    scope = CallScope(identity=RunIdentity("s"), open_environment=lambda: open_environment("local", cwd=str(folder)))
    yield scope
    asyncio.run(scope.close())


@pytest.fixture
def executed(gate: Gate, scope: CallScope) -> Callable[..., ExecutedCall]:
    manager = new_manager()
    manager.register(gate, name="approval")
    dispatcher = Dispatcher(registry, manager)

    def executed(command: Any, **args: Any) -> ExecutedCall:
        return dispatcher.call_sync(ToolCall(ToolCall.new_id(), "terminal", {"command": command, **args}), scope)

    return executed


@pytest.fixture
def run(executed: Callable[..., ExecutedCall]) -> Callable[..., Any]:
    """Return a function that runs a command, which must succeed, and returns its data."""

    def run(command: str, **args: Any) -> Any:
        result = executed(command, **args).result
        assert result.is_success, result.message
        return result.data

    return run


@pytest.fixture
def refused(executed: Callable[..., ExecutedCall]) -> Callable[..., str]:
    def refused(command: Any, **args: Any) -> str:
        result = executed(command, **args).result
        assert result.is_error
        return str(result.message)

    return refused


# -- registration --------------------------------------------------------------------------------------------------


def test_it_is_registered_and_available() -> None:
    """003-1, 003-6"""
    entry = registry.get("terminal")
    assert entry is not None
    assert (entry.toolset, entry.kind, entry.is_async, entry.emoji) == ("terminal", "execute", True, "💻")
    assert not entry.parallel_safe
    assert registry.availability(["terminal"]) == {"terminal": None}
    assert len(encode(entry.definition)) < 1300
    assert len(encode(schema_for(dict(entry.schema), frozenset()))) < 700  # without the tool process, and without a sandbox


def test_without_any_shell_it_is_unavailable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """003-6, 003-7"""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert registry.availability(["terminal"]) == {"terminal": "bash or sh not found on PATH: install bash"}
    assert registry.get_definitions(["terminal"]) == []


def test_without_an_approval_gate_it_is_denied(scope: CallScope, folder: Path) -> None:
    done = Dispatcher(registry, new_manager()).call_sync(ToolCall("1", "terminal", {"command": "touch x"}), scope)
    assert done.status is ToolCallStatus.FAILED
    assert not (folder / "x").exists()


# -- results -------------------------------------------------------------------------------------------------------


def test_what_a_quiet_success_looks_like(run: Callable[..., Any]) -> None:
    assert run("echo hi") == {"output": "hi\n", "exit_code": 0, "where": "local"}


def test_a_failed_command_is_a_successful_call(executed: Callable[..., ExecutedCall]) -> None:
    done = executed("echo out; echo err >&2; exit 3")
    assert done.status is ToolCallStatus.SUCCEEDED
    assert done.result.data == {"output": "out\n", "stderr": "err\n", "exit_code": 3, "where": "local"}


@pytest.mark.parametrize(
    ("command", "code", "meaning"),
    [
        ("echo a | grep b", 1, "no lines matched"),
        ("LC_ALL=C /usr/bin/grep nothing /dev/null;", 1, "no lines matched"),
        ("diff /dev/null /etc/passwd >/dev/null", 1, "they differ"),
        ("test 1 = 2", 1, "the condition is false"),
        ("no-such-command-here", 127, "command not found"),
        ("/etc", 126, "not executable"),
        ("timeout .05 sleep 60", 124, "the time limit given to timeout"),
        ("kill -INT $$; sleep 1", 130, "ended by SIGINT"),
        ("kill -9 $$", 137, "ended by SIGKILL: killed, perhaps for using too much memory"),
        ("kill -USR1 $$", 138, "ended by SIGUSR1"),
        ("kill -SEGV $$", 139, "segmentation fault"),
        ("set -o pipefail; yes | head -1", 141, "SIGPIPE"),
        ("false", 1, None),
        ("exit 255", 255, None),
        ("exit 42", 42, None),
    ],
)
def test_exit_codes_and_what_they_mean(run: Callable[..., Any], command: str, code: int, meaning: str | None) -> None:
    data = run(command)
    assert data["exit_code"] == code
    if meaning is None:
        assert "meaning" not in data
    else:
        assert meaning in data["meaning"]


def test_a_time_limit_is_a_result_with_what_was_printed(run: Callable[..., Any]) -> None:
    data = run("echo before; sleep 300", timeout=1)
    assert (data["output"], data["exit_code"]) == ("before\n", 124)
    assert data["meaning"].startswith("time limit of 1 s reached; stopped.")
    assert "pass a larger timeout (at most 600)" in data["meaning"]


def test_at_the_largest_limit_no_larger_one_is_offered() -> None:
    outcome = ExecOutcome(130, Captured(), Captured(), "/", 600.0, "local", "timeout")
    assert "larger" not in terminal_tool.describe("x", outcome, 600)["meaning"]
    assert terminal_tool.describe("x", outcome, 600)["exit_code"] == 124


def test_a_model_may_send_the_number_as_text(run: Callable[..., Any]) -> None:
    assert run("true", timeout="5")["exit_code"] == 0


@pytest.mark.parametrize(
    ("command", "args", "said"),
    [
        ("", {}, "command"),
        (["ls"], {}, "command"),
        ("ls", {"timeout": 0}, "timeout"),
        ("ls", {"timeout": 601}, "timeout"),
        ("ls", {"stdin": "x"}, "stdin"),
        ("ls\0", {}, "NUL character"),
        ("ls \ud800", {}, "surrogate"),
        ("ls", {"cwd": "a\0b"}, "NUL character"),
    ],
)
def test_malformed_arguments_name_the_fault(refused: Callable[..., str], command: Any, args: dict[str, Any], said: str) -> None:
    assert said in refused(command, **args)


# -- output --------------------------------------------------------------------------------------------------------


def test_unicode_and_bad_bytes(run: Callable[..., Any]) -> None:
    assert run("printf 'grüße 日本 🔧'")["output"] == "grüße 日本 🔧"
    assert run(r"printf 'caf\xe9 ok'")["output"] == "caf\ufffd ok"


def test_terminal_escapes_are_removed(run: Callable[..., Any]) -> None:
    data = run(r"printf '\e[1;31mred\e[0m \e]0;title\aplain \e]8;;http://x\e\\link\e]8;;\e\\ \e(Bend\e[K'")
    assert data["output"] == "red plain link end"


def test_a_few_zero_bytes_are_text(run: Callable[..., Any], folder: Path) -> None:
    for name in "abcdefghijklmnop":
        (folder / f"file-{name}").touch()
    assert run("find . -name 'file-*' -print0 | sort -z")["output"].split("\0")[0] == "./file-a"


@pytest.mark.parametrize("command", ["cat /bin/true", "head -c 5000 /dev/zero", "head -c 50000 /dev/urandom"])
def test_binary_output_is_described(run: Callable[..., Any], command: str) -> None:
    output = run(command)["output"]
    assert output.startswith("[binary output, ")
    assert "xxd" in output
    assert len(output) < 250


def test_10_mb_are_clipped_and_the_whole_can_be_read(run: Callable[..., Any]) -> None:
    data = run("seq 1 1500000 | head -c 10000000; echo oops >&2")
    assert data["output"].startswith("1\n2\n")
    assert "bytes omitted" in data["output"]
    assert len(data["output"]) < 25_000
    assert data["stderr"] == "oops\n"
    clipped = data["truncated"]
    assert set(clipped) == {"output"}
    assert clipped["output"]["omitted_bytes"] == 10_000_000 - terminal_tool.KEEP
    assert "saved_bytes" not in clipped["output"]
    path = Path(clipped["output"]["full_output"])
    assert path.stat().st_size == 10_000_000
    assert path.stat().st_mode & 0o777 == 0o600


def test_characters_are_not_cut_in_half(run: Callable[..., Any]) -> None:
    for text in ("日", "é", "🔧"):
        assert "\ufffd" not in run(f"yes 'x{text}' | tr -d '\\n' | head -c 100003")["output"].removesuffix("\ufffd")


def test_a_file_that_could_not_be_kept_is_said() -> None:
    outcome = ExecOutcome(0, Captured(b"a", b"b", 100), Captured(), "/", 0.1, "local")
    assert terminal_tool.describe("x", outcome, 1)["truncated"] == {
        "output": {"omitted_bytes": 98, "full_output": "could not be kept"}
    }


def test_a_file_that_holds_only_the_beginning_is_said(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 60)
    outcome = ExecOutcome(0, Captured(b"a", b"b", 100, tmp_path / "f"), Captured(), "/", 0.1, "local")
    assert terminal_tool.describe("x", outcome, 1)["truncated"]["output"]["saved_bytes"] == 60


@given(head=st.binary(max_size=200), tail=st.binary(max_size=200), gap=st.integers(0, 1000), code=st.integers(0, 255))
def test_whatever_is_printed_becomes_a_result(head: bytes, tail: bytes, gap: int, code: int) -> None:
    outcome = ExecOutcome(
        code, Captured(head, tail, len(head) + len(tail) + gap), Captured(tail, b"", len(tail)), "/", 0.1, "local"
    )
    data = terminal_tool.describe("x | grep y", outcome, 5)
    encode(data).encode()
    shown = terminal_tool.for_person(data)
    assert "\x1b" not in shown
    assert "\r" not in shown
    assert f"[exit code {code}" in shown.splitlines()[-1]


def test_progress_bars_reach_the_model_as_their_last_frame(run: Callable[..., Any]) -> None:
    """This holds even for a bar in the part that would be cut from a long output."""
    bar = "for i in $(seq 1 3000); do printf '\\r%s %d%%' {} $i; done; echo"
    data = run("; ".join(bar.format(name) for name in ("one", "two", "three")))
    assert data["output"] == "one 3000%\ntwo 3000%\nthree 3000%\n"
    (note,) = data["notes"]
    assert note.startswith("output: text that carriage returns overwrote is left out (")
    assert "truncated" not in data
    assert len(encode(data)) < 1000
    assert run(r"printf 'dos\r\n'") == {"output": "dos\r\n", "exit_code": 0, "where": "local"}


def test_bytes_that_are_not_text_are_noted(run: Callable[..., Any]) -> None:
    data = run(r"printf 'caf\xe9 and \xef\xbf\xbd\n'; printf '\xff' >&2")
    assert data["output"] == "caf\ufffd and \ufffd\n"
    assert data["notes"] == [
        f"{stream}: 1 sequences of bytes that are not UTF-8 are shown as \ufffd; to see them: | xxd"
        for stream in ("output", "stderr")
    ]


def test_a_person_sees_plain_text(executed: Callable[..., ExecutedCall]) -> None:
    views = executed("uname -s; mkdir d; cd d").result.views
    first, last = views["person"].splitlines()
    assert first == os.uname().sysname
    assert last.startswith("[exit code 0 · now in ")
    shown = executed(r"printf '1%%\r2%%\r\ndos\r\ntwo\a'; echo err >&2; exit 1").result.views["person"]
    assert shown == "2%\ndos\ntwo\\x07\nerr\n[exit code 1]"


# -- the working folder, and what was judged -----------------------------------------------------------------------


def test_the_folder_is_kept_and_said_when_it_changes(run: Callable[..., Any], gate: Gate, folder: Path) -> None:
    (folder / "sub").mkdir()
    assert run("cd sub")["cwd"] == f"{folder}/sub"
    assert run("pwd") == {"output": f"{folder}/sub\n", "exit_code": 0, "where": "local"}
    assert gate.effects == [RunsCommand("cd sub", str(folder)), RunsCommand("pwd", f"{folder}/sub")]


def test_the_shell_stays_and_gates_are_told_what_it_has_become(run: Callable[..., Any], gate: Gate) -> None:
    """003-29"""
    run("x=5; f() { echo f$x; }; alias ll='echo LL'")
    assert run("f; ll")["output"] == "f5\nLL\n"
    (shell,) = gate.shells
    assert (shell.variables["x"], shell.aliases, shell.aliases_on) == ("5", {"ll": "echo LL"}, True)
    assert "echo f$x" in shell.functions["f"]
    assert "A new shell continues" in run("kill -9 $$")["notice"]
    assert run("f") == {"output": "f5\n", "exit_code": 0, "where": "local"}


def test_it_does_not_run_in_another_shell_than_it_was_judged_in(
    refused: Callable[..., str], gate: Gate, scope: CallScope, folder: Path
) -> None:
    from toolcrib import ExecRequest

    def change() -> None:
        thread = threading.Thread(target=lambda: asyncio.run(scope.environment.execute(ExecRequest("touch() { rm -rf here; }"))))
        thread.start()
        thread.join()

    gate.before = change
    assert "another command changed the shell" in refused("touch here")
    assert not (folder / "here").exists()


def test_a_folder_for_one_call(run: Callable[..., Any], gate: Gate, folder: Path) -> None:
    """003-30"""
    (folder / "a").mkdir()
    (folder / "link").symlink_to("a")
    assert run("pwd; cd /", cwd="link") == {"output": f"{folder}/a\n", "exit_code": 0, "where": "local"}
    assert gate.effects == [RunsCommand("pwd; cd /", f"{folder}/a")]
    assert run("pwd")["output"] == f"{folder}\n"


def test_missing_folders_are_said(run: Callable[..., Any], refused: Callable[..., str], folder: Path) -> None:
    assert f"{folder}/none does not exist" in refused("pwd", cwd="none")
    run("mkdir gone; cd gone; rmdir ../gone")
    assert "no longer exists, so the command was not run" in refused("pwd")
    assert run("pwd")["output"] == f"{folder}\n"


def test_it_does_not_run_elsewhere_than_it_was_judged(
    refused: Callable[..., str], gate: Gate, scope: CallScope, folder: Path
) -> None:
    """Another call of the session changed the folder between the judgement and the run."""
    from toolcrib import ExecRequest

    (folder / "sub").mkdir()

    def move() -> None:
        thread = threading.Thread(target=lambda: asyncio.run(scope.environment.execute(ExecRequest("cd sub"))))
        thread.start()
        thread.join()

    gate.before = move
    assert "was not run: it was judged in" in refused("touch here")
    gate.before = lambda: (folder / "sub").rmdir() or (folder / "sub").symlink_to("/")
    assert "now leads elsewhere" in refused(f"touch {folder}/here", cwd=str(folder / "sub"))
    assert not (folder / "here").exists()


def test_any_environment_will_do() -> None:
    """003-29"""
    entry = registry.get("terminal")
    assert entry is not None
    fake = FakeEnvironment(commands={"make": (2, b"no rule")})
    done = call_tool(entry, {"command": "make", "timeout": 7}, environment=fake)
    assert done.result.data == {"output": "no rule", "exit_code": 2, "where": "fake"}
    assert [(request.command, request.cwd, request.timeout) for request in fake.executed] == [("make", None, 7)]


def test_a_gate_that_blocks_keeps_it_from_running(scope: CallScope, folder: Path) -> None:
    class No:
        @hookimpl
        def tool_gate(self, call: ToolCall) -> Block:
            return Block("not here")

    manager = new_manager()
    manager.register(No(), name="approval")
    done = Dispatcher(registry, manager).call_sync(ToolCall("1", "terminal", {"command": "touch x"}), scope)
    assert done.result.is_error
    assert "not here" in str(done.result.message)
    assert not (folder / "x").exists()


def test_secrets_do_not_reach_the_command(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "must-not-leak")
    assert "must-not-leak" not in run("env")["output"]


def test_an_interrupt_ends_the_command_and_keeps_what_it_printed(
    executed: Callable[..., ExecutedCall],
    scope: CallScope,
    folder: Path,
    alive: Callable[[int], bool],
    eventually: Callable[[Callable[[], object]], None],
) -> None:
    def stop() -> None:
        while not (folder / "pid").exists():
            time.sleep(0.01)
        scope.interrupt()

    thread = threading.Thread(target=stop)
    thread.start()
    done = executed("seq 4000; sleep 0.1; echo err >&2; echo $$ >tmp; mv tmp pid; sleep 300")
    thread.join()
    assert done.status is ToolCallStatus.CANCELLED
    message = str(done.result.message)
    assert "part of its work\nIts output:\n[... 10,897 bytes omitted ...]\n" in message
    assert message.endswith("\n3999\n4000\nerr")
    pid = int((folder / "pid").read_text())
    eventually(lambda: not alive(pid))


class Told:
    """A sink that stores the reports of calls."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def emit(self, event: ActivityEvent) -> None:
        assert event.activity_type == "terminal-output"
        self.texts.append(event.content["text"])


def test_its_output_is_told_while_it_runs(run: Callable[..., Any], scope: CallScope) -> None:
    """Only complete lines are reported, a few times a second; output between two reports is in the next one."""
    scope.activity_sink = told = Told()
    run("echo one; sleep 0.05; echo two; printf unfinished; sleep 0.4; echo; seq 3000")
    assert told.texts[:2] == ["one\n", "one\ntwo\n"]
    assert len(told.texts) < 30
    assert max(map(len, told.texts)) <= 8_000
    run("printf quiet")
    assert "quiet" not in told.texts[-1]
