"""``toolcrib`` itself: its commands, its help, and how it reports errors."""

from __future__ import annotations

import codecs
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from agent.cli.app import built_in, parser_of
from agent.cli.parsing import fitted
from toolcrib.testing import ChatServer

COMMAND = str(Path(sys.executable).with_name("toolcrib"))
ADDS_A_COMMAND = """
import types
from toolcrib import hookimpl
def run(args):
    {body}
@hookimpl
def register_command(add):
    add("{name}", types.SimpleNamespace(HELP="From a plugin.", configure=lambda parser: None, run=run))
"""


@pytest.mark.parametrize("words", [["--version"], ["-V"], ["--verbose", "--version"]])
def test_version(run: Any, words: list[str]) -> None:
    done = run(*words)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("toolcrib 0.")


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"]])
def test_help_names_every_command(run: Any, words: list[str]) -> None:
    done = run(*words)
    assert done.code == 0
    for name in built_in():
        assert f"  {name} " in done.out
    assert ("examples:" in done.out) == bool(words)


@pytest.mark.parametrize("name", sorted(built_in()))
def test_every_command_teaches(run: Any, name: str) -> None:
    for words in ([name, "--help"], ["--help", name]):
        done = run(*words)
        assert done.code == 0
        assert f"usage: toolcrib {name}" in done.out
        assert "--config" in done.out


def test_every_command_is_one_file() -> None:
    assert {"call", "chat", "completion", "config", "doctor", "plugins", "tools", "toolsets"} <= set(built_in())


@pytest.mark.parametrize("columns", [60, 100, 200])
def test_a_help_breaks_between_words(run: Any, columns: int) -> None:
    whole = run("--help").out
    lines = fitted(whole, columns).splitlines()
    assert max(map(len, lines)) <= columns
    assert "".join(lines).replace(" ", "") == whole.replace(" ", "").replace("\n", "")
    first = next(at for at, line in enumerate(lines) if line.startswith("  approvals    List and answer"))
    assert columns == 200 or lines[first + 1].startswith(" " * 15 + lines[first + 1].strip()[0])


@pytest.mark.parametrize(("typed", "meant"), [("tool", "tools"), ("chta", "chat"), ("docter", "doctor")])
def test_an_unknown_command_names_the_nearest(run: Any, typed: str, meant: str) -> None:
    done = run(typed)
    assert done.code == 2
    assert f"did you mean {meant!r}?" in done.err
    assert done.out == ""


def test_nothing_near(run: Any) -> None:
    assert "list commands: toolcrib --help" in run("xyzzy").err


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (["call", "todo", "-"], b"{}"),
        (["explain", "-"], b"ls"),
        (["explain", "--jsonl"], b'{"command": "ls"}'),
        (["parse"], b"ls"),
        (["parse", "--jsonl"], b'{"text": "ls"}'),
        (["chat"], b"todo {}"),
    ],
)
def test_a_byte_order_mark_before_piped_input_is_dropped(run: Any, words: list[str], given: bytes) -> None:
    plain, marked = run(*words, stdin=given), run(*words, stdin=codecs.BOM_UTF8 + given)
    assert (marked.code, marked.out) == (plain.code, plain.out)
    assert "\ufeff" not in marked.out + marked.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--nonsense"], "toolcrib: unknown option --nonsense\n`toolcrib --help` shows details\n"),
        (
            ["tools", "--jsn"],
            "toolcrib tools: unknown option --jsn; did you mean --json?\n`toolcrib tools --help` shows details\n",
        ),
        (["sessions", "-word"], "toolcrib sessions: unknown option -word\n`toolcrib sessions --help` shows details\n"),
        (
            ["undo", "--limit", "x"],
            "toolcrib undo: --limit: expected a whole number, got 'x'\n`toolcrib undo --help` shows details\n",
        ),
        (["doctor", "now"], "toolcrib doctor: too many words: now\n`toolcrib doctor --help` shows details\n"),
    ],
)
def test_a_wrong_command_line_is_told_in_two_lines(run: Any, words: list[str], said: str) -> None:
    done = run(*words)
    assert (done.code, done.out, done.err) == (2, "", said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["run", "--goal", "tidy up"],
            'toolcrib run: unknown option --goal; write the task without an option: toolcrib run "..."\n',
        ),
        (
            ["chat", "--prompt=hello"],
            'toolcrib chat: unknown option --prompt; write the task without an option: toolcrib chat "..."\n',
        ),
        (["-p", "hi"], 'toolcrib: -p needs a command: toolcrib run "..." runs one task; '),
        (["--continue"], "toolcrib: --continue needs a command: toolcrib chat --continue continues"),
        (["chat", "--resume"], "toolcrib chat: --resume: give the session; list sessions: toolcrib sessions"),
        (["fix the test"], "toolcrib: unknown command 'fix the test'; toolcrib run \"...\" runs one task"),
        (["resume"], "toolcrib: unknown command 'resume'; toolcrib chat --continue continues"),
    ],
)
def test_a_command_line_that_others_know_leads_to_ours(run: Any, words: list[str], said: str) -> None:
    done = run(*words)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(said)
    assert done.err.count("\n") <= 2


def test_a_command_line_without_its_words_shows_the_usage(run: Any) -> None:
    done = run("call")
    assert done.code == 2
    assert "usage: toolcrib call" in done.err


def test_a_broken_configuration_is_told_whole(run: Any, config: Callable[[str], Path]) -> None:
    file = config("toolz: {}\nmax_turns: many\n")
    for words in (["tools"], ["chat"], ["call", "terminal"], ["plugins"], ["nonsense"]):
        done = run(*words)
        assert done.code == 2
        assert f"{file}:1" in done.err
        assert f"{file}:2" in done.err
        assert "Traceback" not in done.err
    assert run("--help").code == 0


@pytest.mark.parametrize("after", [False, True])
def test_another_configuration_file(run: Any, tmp_path: Path, after: bool) -> None:
    file = tmp_path / "other.yaml"
    file.write_text("tools: {disabled: [terminal]}\n")
    option, names = ["--config", str(file)], ["completion", "--names", "tools"]
    words = [*names, *option] if after else [*option, *names]
    assert "terminal" in run(*names).out.split()
    assert "terminal" not in run(*words).out.split()
    file.unlink()
    done = run(*words)
    assert (done.code, done.out) == (2, "")  # nothing runs: the file might have disabled a tool
    assert f"--config: {file} does not exist" in done.err
    assert f"✗ --config: {file} does not exist" in run("doctor", *option).out


def test_the_log_is_short_unless_asked_for(run: Any, user_plugin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    user_plugin("broken", "raise RuntimeError('out of cheese')")
    short = run("tools").err
    assert "out of cheese" in short
    assert short.startswith("toolcrib: error: ")
    assert "Traceback" not in short
    assert "agent.plugin_host.plugins DEBUG" in run("tools", "--verbose").err
    monkeypatch.setenv("TOOLCRIB_LOG", "debug")
    assert "agent.plugin_host.plugins DEBUG" in run("tools").err
    monkeypatch.setenv("TOOLCRIB_LOG", "loud")
    done = run("tools")
    assert done.code == 2
    assert "expected one of debug, info, warning, error" in done.err


def test_a_plugin_adds_a_command(run: Any, user_plugin: Any) -> None:
    user_plugin("extra", ADDS_A_COMMAND.format(name="brew", body="print('tea'); return 7"))
    done = run("brew")
    assert (done.code, done.out) == (7, "tea\n")
    assert "From a plugin." in run("--help").out
    assert "From a plugin." in run("brew", "--help").out
    assert "did you mean 'brew'?" in run("brwe").err


def test_a_plugin_does_not_replace_a_command(run: Any, user_plugin: Any) -> None:
    user_plugin("extra", ADDS_A_COMMAND.format(name="tools", body="print('tea')"))
    assert "tea" not in run("tools").out


def test_ctrl_c_is_130(run: Any, user_plugin: Any) -> None:
    user_plugin("extra", ADDS_A_COMMAND.format(name="brew", body="raise KeyboardInterrupt"))
    done = run("brew")
    assert (done.code, done.err) == (130, "toolcrib: interrupted\n")


def test_an_expected_error_of_a_plugin_has_no_traceback(run: Any, user_plugin: Any) -> None:
    user_plugin("extra", ADDS_A_COMMAND.format(name="brew", body="import toolcrib; raise toolcrib.PluginError('no tea left')"))
    done = run("brew")
    assert (done.code, done.err) == (2, "toolcrib: no tea left\n")


@pytest.mark.parametrize("body", ["1 / 0", "return 'seven'"])
def test_any_other_error_of_a_plugin_names_its_command(run: Any, user_plugin: Any, body: str) -> None:
    user_plugin("extra", ADDS_A_COMMAND.format(name="brew", body=body))
    done = run("brew")
    assert done.code == 1
    assert "the command 'brew' of a plugin" in done.err
    assert "Error: " in done.err
    assert "Traceback" not in done.err
    assert "Traceback" in run("brew", "--verbose").err


@pytest.mark.parametrize("command", [["env"], ["doctor"], ["call", "terminal", '{"command": "true"}']])
def test_a_folder_that_is_gone_is_said_in_one_line(tmp_path: Path, command: list[str]) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    code = f"import os, sys; os.rmdir({str(folder)!r}); from agent.cli import main; sys.exit(main(sys.argv[1:]))"
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", code, *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "toolcrib: the current folder no longer exists; change to another one" in done.stderr


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [COMMAND, "tools", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, cwd=tmp_path
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(60) == 141  # the code that a shell reports for a process that SIGPIPE ended


@pytest.mark.parametrize("words", [["--json"], []], ids=["json", "text"])
@pytest.mark.parametrize("merged", [False, True], ids=["stdout", "both"])
def test_a_run_whose_reader_goes_away_is_interrupted_quietly(tmp_path: Path, words: list[str], merged: bool) -> None:
    """The case of ``toolcrib run ... | head``, with and without ``2>&1``."""
    calls = [ChatServer.calls(("terminal", {"command": f"echo {n}"}), text="Look. " * 50, ids=[f"c{n}"]) for n in range(30)]
    answers_alone = not words and not merged  # text before calls goes to stderr, so the reader closes before it has read a word
    with ChatServer(*calls) as server:
        process = subprocess.Popen(
            [COMMAND, "run", "go", "--no-stdin", "--base-url", server.base_url, "--model", "m", "--max-turns", "30", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merged else subprocess.PIPE,
            cwd=tmp_path,
        )
        assert process.stdout is not None
        assert answers_alone or process.stdout.read(5)
        process.stdout.close()
        err = b""
        if process.stderr is not None:
            with process.stderr as stream:
                err = stream.read()
        assert process.wait(60) == 141
        assert len(server.requests) < 30
    assert b"Traceback" not in err
    assert b"Error" not in err


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_however_it_is_ended_what_it_started_ends_too(tmp_path: Path, sent: signal.Signals, code: int) -> None:
    """The check at the end of the test run would find a process that still sleeps."""
    mark = tmp_path / "started"
    process = subprocess.Popen(
        [COMMAND, "call", "terminal", f'{{"command": "touch {mark}; sleep 100"}}'],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
    )  # fmt: skip
    while not mark.exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(sent)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert "Traceback" not in err


@pytest.mark.parametrize("name", sorted(built_in()))
def test_each_help_explains_every_word_and_the_exit_codes(run: Any, name: str) -> None:
    parser = parser_of(name, import_module(built_in()[name]))
    assert [action.dest for action in parser._actions if not action.help] == []
    done = run(name, "--help")
    assert (done.code, done.err) == (0, "")
    assert "exit code" in done.out.lower()
    assert f"examples:\n  toolcrib {name}" in (parser.epilog or "") or name in ("run", "completion")


@pytest.mark.parametrize(
    "words",
    [
        ("call", "read_file", "--plain", '{"path": "/nothing"}'),
        ("call", "--plain", "read_file", '{"path": "/nothing"}'),
        ("sessions", "show", "--json", "zz"),
        ("approvals", "answer", "--scope", "once", "zz"),
        ("tools", "show", "--platform", "cli", "terminal"),
        ("toolsets", "diff", "file", "--platforms", "safe"),
        ("env", "test", "--json", "local"),
        ("explain", "--json", "ls"),
        ("run", "--json", "--timeout", "3", "hello", "--no-stdin"),
    ],
)
def test_options_may_stand_between_the_words(run: Any, words: tuple[str, ...]) -> None:
    assert "unknown option" not in run(*words).err
