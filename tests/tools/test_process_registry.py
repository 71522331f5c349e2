"""``terminal`` in the background, and ``process``, as a model calls them: through the dispatcher, on this machine (003-30)."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tools.process_registry as process_registry
import tools.terminal_tool as terminal_tool
from tests.tools.conftest import AllowingGate, Desk
from toolcrib import RunsCommand, UsesProcess, WritesInput, registry
from tools.dispatch.scope import CallScope

SERVER = 'python3 -u -c \'import socket, time; s = socket.create_server(("127.0.0.1", 0)); print("up"); time.sleep(600)\''


@pytest.fixture
def gate(desk: Desk) -> AllowingGate:
    return desk.gate


@pytest.fixture
def scope(desk: Desk) -> CallScope:
    return desk.scope


@pytest.fixture
def call(desk: Desk) -> Callable[..., Any]:
    """Return a function that calls a tool, and returns its data, or the message of its error."""
    return desk.call


@pytest.fixture
def begin(call: Callable[..., Any]) -> Callable[..., str]:
    """Return a function that starts a background process, and returns its name."""

    def begin(command: str, **args: Any) -> str:
        data = call("terminal", command=command, background=True, **args)
        assert isinstance(data, dict), data
        return str(data["process"])

    return begin


@pytest.fixture
def use(call: Callable[..., Any]) -> Callable[..., Any]:
    return lambda action, name="", **args: call("process", action=action, **({"name": name} if name else {}), **args)


def test_both_are_registered_in_one_toolset() -> None:
    assert [registry.get(name).module for name in ("process", "terminal")] == [process_registry.__name__, terminal_tool.__name__]
    assert registry.get("process").toolset == registry.get("terminal").toolset


# -- starting --------------------------------------------------------------------------------------------------------


def test_it_is_judged_as_a_command_that_goes_on(call, gate, tmp_path) -> None:
    data = call("terminal", command="sleep 300", background=True)
    assert gate.effects == [RunsCommand("sleep 300", str(tmp_path.resolve()), gate.effects[0].shell, background=True)]
    assert data["process"] == "sleep"
    assert data["where"] == "local"
    assert Path(f"/proc/{data['pid']}").exists()


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("npm run dev", "npm"),
        ("cd x && FOO=1 ./serve.sh", "x"),
        ("exec /usr/bin/python3 -m http.server", "python3"),
        ("[ -e x ]", "x"),
    ],
)
def test_without_a_name_it_is_called_by_its_program(begin, command, name) -> None:
    assert begin(command) == name
    assert begin(command) == f"{name}-2"


def test_a_taken_name_is_refused(begin, call) -> None:
    begin("sleep 300", name="dev")
    assert "dev was not started" in call("terminal", command="true", background=True, name="dev")


@pytest.mark.parametrize("desk", [{"terminal.processes": 2}], indirect=True)
def test_a_user_may_run_so_many(desk, begin, call, use) -> None:
    begin("sleep 300", name="a")
    begin("true", name="b")
    use("wait", "b")
    begin("sleep 300", name="c")
    assert "2 background processes run already (terminal.processes)" in call("terminal", command="true", background=True)


LACKS = [({"timeout": 3}, "timeout: a background"), ({"cwd": "/gone"}, "there is no folder /gone")]


@pytest.mark.parametrize(("given", "why"), LACKS)
def test_what_the_background_lacks_is_refused(call, given, why) -> None:
    assert why in call("terminal", command="true", background=True, **given)


@pytest.mark.parametrize("given", [{"name": "x"}, {"input": True}, {"notify": ["exit"]}])
def test_what_is_for_the_background_only_is_refused_in_the_foreground(call, given) -> None:
    assert f"{next(iter(given))}: only for a background process" in call("terminal", command="true", **given)


# -- looking ---------------------------------------------------------------------------------------------------------


def test_a_server_is_waited_for_by_its_port_and_shown_with_what_it_uses(begin, use) -> None:
    begin(SERVER, name="dev")
    data = use("wait", "dev", pattern="^up$")
    assert (data["came"], data["state"], data["output"]) == ("pattern", "running", "up\n")
    (row,) = use("list")["processes"]
    assert use("wait", "dev", port=row["ports"][0])["came"] == "port"
    assert row["process"] == "dev"
    assert row["command"] == SERVER
    assert row["memory_mb"] > 1


def test_a_poll_has_what_is_new(begin, use) -> None:
    begin("echo one; read line; echo two; exit 5", name="x", input=True)
    assert use("wait", "x", quiet=0.2)["output"] == "one\n"
    assert use("poll", "x")["output"] == ""
    use("write", "x", text="go")
    data = use("wait", "x")
    assert (data["came"], data["output"], data["exit_code"], data["state"]) == ("exit", "two\n", 5, "exited")


def test_a_log_is_read_by_pages_and_searched(begin, use) -> None:
    begin("seq 1 1000", name="x")
    use("wait", "x")
    assert use("log", "x", lines=2)["output"] == "999\n1000\n"
    page = use("log", "x", **{"from": 0, "lines": 2})
    assert (page["output"], page["next"]) == ("1\n2\n", 4)
    assert use("log", "x", **{"from": page["next"], "lines": 1})["output"] == "3\n"
    assert use("log", "x", **{"from": -5})["output"] == "1000\n"
    assert use("log", "x", grep="^99.$")["output"].split() == [str(number) for number in range(990, 1000)]
    assert "can't be searched for" in use("log", "x", grep="(")


def test_waiting_ends_at_its_time_limit(begin, use) -> None:
    begin("sleep 300", name="x")
    began = time.monotonic()
    assert use("wait", "x", timeout=0.2)["came"] == "timeout"
    assert time.monotonic() - began < 60


def test_an_unknown_name_is_answered_with_the_known_ones(begin, use) -> None:
    assert "there is no background process 'x' (there are: none)" in use("poll", "x")
    begin("true", name="y")
    assert "(there are: y)" in use("poll", "x")


# -- changing --------------------------------------------------------------------------------------------------------


def test_what_is_written_is_judged_with_what_was_written_before(begin, use, gate, tmp_path) -> None:
    begin("cat", name="x", input=True)
    use("write", "x", text="one")
    use("write", "x", text="two\n")
    (effect,) = gate.effects
    assert isinstance(effect, WritesInput)
    assert (effect.process, effect.text, effect.command, effect.before) == ("x", "two\n", "cat", "one\n")
    assert effect.cwd == str(tmp_path.resolve())
    use("close_input", "x")
    assert gate.effects == [UsesProcess("x", "closes its input")]
    assert use("wait", "x")["output"] == "one\ntwo\n"
    assert "x has ended" in use("write", "x", text="three")


def test_nothing_is_written_to_closed_input_and_nothing_is_asked(begin, use, gate) -> None:
    begin("sleep 300", name="x")
    gate.effects = []
    assert "the input of x is closed: start the process with input: true" in use("write", "x", text="three")
    assert gate.effects == []


def test_a_wrong_pattern_is_refused_before_the_start(call, use) -> None:
    assert "can't be searched for" in call("terminal", command="true", background=True, name="x", notify=["("])
    assert use("list")["processes"] == []


def test_a_page_after_a_gap_begins_where_the_log_continues(begin, use, scope) -> None:
    scope.processes._log_bytes = 1 << 20
    begin("seq 1 400000", name="x")
    assert "bytes between the beginning and the end" in use("wait", "x")["missing"]
    page = use("log", "x", **{"from": 1_000_000, "lines": 1})
    assert page["from"] > 1_000_000
    assert page["output"]


def test_text_that_another_call_overtook_is_not_written(begin, use, gate, scope) -> None:
    begin("cat", name="x", input=True)
    gate.before = lambda: setattr(scope.processes.inputs["x"], "written", "other\n")
    assert "another call wrote" in use("write", "x", text="one")


def test_a_signal_ends_it_with_what_it_started(begin, use, gate) -> None:
    begin("sleep 300 & setsid sleep 300 & wait", name="x")
    use("wait", "x", quiet=0.3)
    assert len(use("signal", "x", signal="TERM")["signalled"]) == 3
    assert gate.effects == [UsesProcess("x", "sends it TERM")]
    assert use("wait", "x")["exit_code"] == 143


def test_a_removed_process_is_forgotten(begin, use, scope) -> None:
    begin("sleep 300", name="x")
    use("remove", "x")
    assert use("list")["processes"] == []
    assert scope.state["processes"] == {}
    begin("true", name="x")


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ({"action": "poll"}, "name: poll needs the name"),
        ({"action": "write", "name": "x"}, "text: write needs it"),
        ({"action": "poll", "name": "x", "lines": 3}, "lines: belongs to action log"),
        ({"action": "write", "name": "x", "text": "a\0b"}, "NUL"),
    ],
)
def test_arguments_that_do_not_fit_are_named(call, args, why) -> None:
    assert why in call("process", **args)


# -- notices ---------------------------------------------------------------------------------------------------------


def test_the_end_and_awaited_lines_are_reported(begin, told) -> None:
    begin("echo nothing; echo 'error: it broke'; sleep 0.1; exit 2", name="build", notify=["exit", "^error"])
    give_up = time.monotonic() + 60
    while len(told) < 2 and time.monotonic() < give_up:
        time.sleep(0.05)
    assert [(one.process, one.line) for one in told] == [("build", "error: it broke"), ("build", "")]
    assert told[1].what == "ended with exit code 2"


def test_a_line_that_is_printed_in_two_pieces_is_reported_whole(begin, told) -> None:
    begin("printf 'err'; sleep 2.5; echo 'or: it broke'; sleep 300", name="build", notify=["^error"])
    give_up = time.monotonic() + 60
    while not told and time.monotonic() < give_up:
        time.sleep(0.05)
    assert [one.line for one in told] == ["error: it broke"]


def test_nothing_is_reported_that_nobody_asked_for(begin, use, told) -> None:
    begin("echo error; exit 2", name="build")
    use("wait", "build")
    time.sleep(2.5)
    assert told == []


def test_its_records_name_the_command(begin, scope, tmp_path) -> None:
    begin("sleep 300", name="x", input=True)
    record = scope.state["processes"]["x"]
    assert (record["command"], record["cwd"], record["input"]) == ("sleep 300", str(tmp_path.resolve()), True)
    assert re.fullmatch(r"\d+\.\d+", str(record["at"]))


@pytest.mark.parametrize("ends", [True, False])
def test_hosts_are_reachable_until_it_ends(begin, use, scope, monkeypatch: pytest.MonkeyPatch, ends: bool) -> None:
    from contextlib import contextmanager

    reachable: list[str] = []

    @contextmanager
    def allowing(environment: Any, hosts: Any) -> Iterator[None]:
        reachable.append("example.org")
        yield
        reachable.clear()

    monkeypatch.setattr("tools.processes.starting.allowing", allowing)
    begin("true" if ends else "sleep 300", name="x")
    if ends:
        use("wait", "x")
    assert reachable == ([] if ends else ["example.org"])
    asyncio.run(scope.close())
    assert reachable == []
