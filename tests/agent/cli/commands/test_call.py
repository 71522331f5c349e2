"""``toolcrib call``."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tools.environments.local.holding import sandbox_here

WHERE = {"workspace": "local:workspace", "own": "local:own", "none": "local"}
NEEDS_A_KEY = """
from toolcrib import Unavailable, hookimpl
@hookimpl
def register_tools(registry):
    registry.register("weather", "weather", {"description": "Tell the weather."}, lambda args: "sun",
                      check_fn=lambda: Unavailable("set WEATHER_KEY"))
"""


def test_a_call_answers_json(run: Any) -> None:
    done = run("call", "terminal", '{"command": "echo hello"}')
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out) == {"output": "hello\n", "exit_code": 0, "where": WHERE[sandbox_here("workspace").mode]}


def test_for_people(run: Any) -> None:
    done = run("call", "terminal", '{"command": "printf \'a\\\\033[2Jb\'"}', "--plain")
    assert done.out == "ab\n[exit code 0]\n"


def test_arguments_from_a_file_and_from_stdin(run: Any, tmp_path: Path) -> None:
    (tmp_path / "args.json").write_text('{"command": "echo file"}')
    assert "file" in run("call", "terminal", "@args.json").out
    assert "stdin" in run("call", "terminal", "-", stdin=b'{"command": "echo stdin"}').out
    assert run("call", "todo").code == 0


def test_a_failed_tool_is_1(run: Any) -> None:
    done = run("call", "read_file", '{"path": "nowhere"}')
    assert done.code == 1
    assert "nowhere" in json.loads(done.out)["error"]
    assert run("call", "terminal", "{}").code == 1


def test_failures_for_people(run: Any, user_plugin: Any) -> None:
    assert run("call", "terminal", '{"command": "rm -rf /"}', "--plain").out.startswith("Denied")
    source = "import toolcrib\n@toolcrib.hookimpl\ndef register_tools(registry):\n"
    user_plugin("bad", source + "    registry.register('bad', 'bad', {'description': 'Fail.'}, lambda args: 1 / 0)\n")
    assert run("call", "bad", "{}", "--plain").out == "ZeroDivisionError: division by zero\n"


def test_a_command_s_own_exit_code_is_data(run: Any) -> None:
    done = run("call", "terminal", '{"command": "exit 3"}')
    assert done.code == 0
    assert json.loads(done.out)["exit_code"] == 3


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ('{"command": ls}', "line 1, column 13"),
        ('{"command": ls}', "\n              ^"),
        ("", "line 1, column 1"),
        ("[1]", "must be a JSON object"),
        ('{"a":\n\n  oops}', "line 3, column 3"),
        ("[" * 100_000, "nested too deep"),
        ("@missing.json", "missing.json cannot be read"),
        ("@latin.json", "latin.json is not UTF-8"),
    ],
)
def test_bad_arguments_are_2_and_name_the_place(run: Any, tmp_path: Path, given: str, said: str) -> None:
    (tmp_path / "latin.json").write_bytes(b'{"command": "\xe9"}')
    done = run("call", "terminal", given)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    if "JSON" in said or "column" in said:
        assert """toolcrib call terminal '{"command": "ls"}'""" in done.err


def test_an_unknown_tool_is_2_and_names_the_nearest(run: Any) -> None:
    done = run("call", "terminl", "{}")
    assert (done.code, done.out) == (2, "")
    assert "did you mean 'terminal'?" in done.err


def test_a_tool_that_can_not_work_here_is_2_and_says_what_it_needs(
    run: Any, user_plugin: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """003-9"""
    user_plugin("weather", NEEDS_A_KEY)
    done = run("call", "weather", "{}")
    assert (done.code, done.out, done.err) == (2, "", "toolcrib: weather is not available here: set WEATHER_KEY\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    done = run("call", "terminal", '{"command": "ls"}')
    assert (done.code, done.out) == (2, "")
    assert "toolcrib: terminal is not available here: " in done.err
    assert "bash" in done.err


def test_what_needs_approval_is_denied_without_a_terminal(run: Any, config: Any, tmp_path: Path) -> None:
    """003-28"""
    config("approval: {mode: cautious}\n")
    (tmp_path / "build").mkdir()
    done = run("call", "terminal", '{"command": "rm -rf build"}')
    assert done.code == 3
    assert "standard input is not a terminal. Run it in a terminal" in json.loads(done.out)["error"]
    assert (tmp_path / "build").exists()


def test_a_question_gets_no_answer_without_a_terminal(run: Any) -> None:
    done = run("call", "clarify", '{"question": "Why?"}', stdin=b"because\n")
    assert done.code == 3
    assert "no user can be asked" in done.out


def test_a_tool_that_was_switched_off_is_not_run(run: Any, config: Any) -> None:
    config("tools: {disabled: [terminal]}\n")
    done = run("call", "terminal", '{"command": "echo hello"}')
    assert done.code != 0
    assert "hello" not in done.out


def test_the_full_text_of_a_large_result_is_there_afterwards(run: Any, tmp_path: Path) -> None:
    command = "seq 100000"
    done = run("call", "terminal", json.dumps({"command": command}))
    named = re.findall(r"/[^\s\"]*toolcrib-kept-[^\s\"]*\.txt", done.out)
    assert named
    kept = Path(named[0])
    assert kept.read_text().split()[-1] == "100000"
    shutil.rmtree(kept.parent)
