"""Invalid input to the installed program: the error explains what to do, and no data is lost."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.forks import Forks

pytestmark = pytest.mark.e2e
COMMAND = str(Path(sys.executable).with_name("toolcrib"))
PATIENCE = 60.0
Start = Callable[..., "subprocess.CompletedProcess[str]"]

TOOLS = """
import sys, time
from toolcrib import hookimpl

@hookimpl
def register_tools(registry):
    def add(name, handler, **options):
        registry.register(name, "mine", {"description": "x"}, handler, **options)

    add("boom", lambda args: 1 / 0)
    add("odd", lambda args: object())
    add("leaves", lambda args: sys.exit(7))
    add("late", lambda args: time.sleep(600), timeout=0.2)
    add("stuck", lambda args: (open("started", "w").close(), time.sleep(600)))
"""
HANGING_GATE = """
import asyncio
from toolcrib import hookimpl

@hookimpl
async def tool_gate(call):
    await asyncio.sleep(600)
"""


@pytest.fixture
def start(forks: Forks, project: Path) -> Start:
    return lambda *args, text="": forks.run(*args, cwd=project, stdin=text, timeout=PATIENCE)


@pytest.fixture
def call(start: Start) -> Callable[..., Any]:
    """Return a function that runs ``toolcrib call`` and returns its JSON."""
    return lambda tool, args=None: json.loads(start("call", tool, json.dumps(args or {})).stdout)


@pytest.fixture(autouse=True)
def _in_a_folder(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)


@pytest.fixture
def plugin(user_plugin: Callable[[str, str], Path]) -> Callable[[str], Path]:
    return lambda source: user_plugin("mine", source)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ('{"command": ', "is not valid JSON"),
        ("[1]", "must be a JSON object"),
        ("[" * 100_000, "nested too deep"),
    ],
)
def test_malformed_arguments(start: Start, args: str, said: str) -> None:
    done = start("call", "terminal", args)
    assert done.returncode == 2
    assert said in done.stderr


def test_arguments_that_do_not_fit_and_unknown_tools(start: Start, call: Any) -> None:
    assert "did you mean 'cwd'" in call("terminal", {"cmd": "ls"})["error"]
    done = start("call", "termnal", "{}")
    assert done.returncode == 2
    assert "did you mean 'terminal'?" in done.stderr


def test_a_chat_reads_on_after_each_of_them(start: Start) -> None:
    lines = [
        '@terminal {"command": ',
        "@tool nope {}",
        '@terminal {"command": "git push --force origin main"}',
        '@terminal {"command": "echo still here"}',
    ]
    done = start(
        "chat",
        "--toolsets",
        "terminal",
        text="\n".join([*lines, "@tool read_file {}", "\udcff"]).encode(errors="replace").decode(),
    )
    assert done.returncode == 0
    assert "its arguments are not JSON" in done.stdout
    assert "Unknown tool: nope" in done.stdout
    assert "no user can be asked" in done.stdout
    assert "still here" in done.stdout
    assert "the tool 'read_file' is not granted" in done.stdout


def test_ten_megabytes_of_output_are_bounded_and_counted(call: Any) -> None:
    said = call("terminal", {"command": "yes 0123456789 | head -c 10000000"})
    assert len(json.dumps(said)) < 70_000
    assert said["output"].startswith("0123456789\n")
    assert "bytes omitted" in said["output"]
    assert said["truncated"]["output"]["omitted_bytes"] > 9_000_000


def test_the_whole_output_can_be_read_in_the_same_session() -> None:
    from agent.api import assemble

    with assemble() as crib:
        session = crib.open_session()
        try:
            said = session.call("terminal", {"command": "yes 0123456789 | head -c 10000000; echo; echo the end"}).result.data
            path = said["truncated"]["output"]["full_output"]
            assert session.call("read_file", {"path": path, "offset": 5, "limit": 1}).result.data["content"] == "0123456789"
            found = session.call("search_files", {"path": path, "pattern": "the end"})
            (match,) = found.result.data["matches"]
            assert (match["text"], match["line"]) == ("the end", 909_092), "every line before it is there"
        finally:
            session.close_sync()


def test_binary_output_is_described(call: Any) -> None:
    assert "binary output, 100,000 bytes" in call("terminal", {"command": "head -c 100000 /dev/zero"})["output"]


def test_a_command_that_forks_and_hangs_is_ended_with_what_it_started(call: Any) -> None:
    said = call("terminal", {"command": "echo first; sleep 600 & (sleep 601 & sleep 602) & wait", "timeout": 1})
    assert said["output"] == "first\n"
    assert said["exit_code"] == 124
    assert "time limit of 1 s" in said["meaning"]


def test_handlers_that_fail(start: Start, call: Any, plugin: Any) -> None:
    plugin(TOOLS)
    assert call("boom")["error"] == "Tool execution failed: ZeroDivisionError: division by zero"
    assert "return str, dict, list, number or ToolResult" in call("odd")["error"]
    assert call("leaves")["error"] == "Tool execution failed: SystemExit: 7"
    assert "no result within 0.2 s" in call("late")["error"]
    done = start("chat", text='@boom {}\n@odd {}\n@leaves {}\n@late {}\n@terminal {"command": "echo still here"}\n')
    assert done.returncode == 0
    assert "division by zero" in done.stdout
    assert "still here" in done.stdout


@pytest.mark.parametrize("how", ["call", "chat"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_handler_that_never_returns_ends_at_the_first_signal(
    plugin: Any, project: Path, how: str, number: signal.Signals
) -> None:
    plugin(TOOLS)
    args, text = (["call", "stuck"], "") if how == "call" else (["chat"], "@stuck {}\n")
    with subprocess.Popen(
        [COMMAND, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdin is not None
            process.stdin.write(text)
            process.stdin.flush()
            end = time.monotonic() + PATIENCE
            while not (project / "started").exists():
                assert time.monotonic() < end
                time.sleep(0.01)
            process.send_signal(number)
            out, _ = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert process.returncode in (130, 128 + number)
    assert "interrupted" in out or number is signal.SIGTERM


def test_a_plugin_that_fails_at_import_is_named_and_stops_nothing(start: Start, plugin: Any) -> None:
    file = plugin("import no_such_module_anywhere\n")
    done = start("call", "terminal", '{"command": "echo hi"}')
    assert json.loads(done.stdout)["output"] == "hi\n"
    assert str(file) in done.stderr
    assert "No module named 'no_such_module_anywhere'" in done.stderr


def test_a_gate_that_hangs_is_closed(plugin: Any, config: Any) -> None:
    from agent.api import assemble
    from tools.dispatch.scope import Limits

    plugin(HANGING_GATE)
    config("plugins: {enabled: [mine]}\nsandbox: {mode: none}\nsnapshots: {enabled: false}\n")  # so that only the gate is slow
    with assemble() as crib:
        session = crib.open_session()
        session.scope.limits = Limits(gate_seconds=1.0)
        try:
            executed = session.call("terminal", {"command": "touch ran"})
        finally:
            session.close_sync()
    assert "the plugin 'mine' did not answer within 1 s" in str(executed.result.message)
    assert not Path("ran").exists()


def test_a_broken_configuration_is_refused_whole(start: Start, plugin: Any) -> None:
    config = plugin("").parent.parent / "config.yaml"
    for broken, said in (
        ("plugins: {enabled: [a]", "invalid YAML"),
        ("nonsense_key: 1\n", "nonsense_key"),
        ("[]\n", "config.yaml"),
    ):
        config.write_text(broken)
        for args in (["call", "terminal", '{"command": "touch ran"}'], ["chat"]):
            done = start(*args, text='@terminal {"command": "touch ran"}\n')
            assert done.returncode == 2
            assert said in done.stderr
    assert not Path("ran").exists()


def test_keys_stay_out_of_children_results_and_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork has no environment of its own in ``/proc``, so these are new programs."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-abcdefghijklmnopqrstuvwxyz0123")
    monkeypatch.setenv("DATABASE_URL", "postgres://me:hunter2hunter2@db/x")
    for tool, args in (
        ("terminal", {"command": "env; echo $OPENAI_API_KEY"}),
        ("terminal", {"command": "cat /proc/$PPID/environ"}),
        ("read_file", {"path": "/proc/self/environ"}),
        ("search_files", {"path": "/proc/self/environ", "pattern": "."}),
    ):
        line = [COMMAND, "--verbose", "call", tool, json.dumps(args)]
        done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert "sk-abc" not in done.stdout + done.stderr
        assert "hunter2" not in done.stdout + done.stderr
