"""The state folder can't be created: commands that only read work, and commands that write name the fix."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

LOOKS = (
    ["--help"],
    ["tools"],
    ["tools", "show", "terminal"],
    ["toolsets"],
    ["toolsets", "resolve"],
    ["plugins"],
    ["explain", "ls"],
    ["env", "list"],
    ["completion", "--names", "backends"],
    ["parse", "hello"],
    ["config", "check"],
    ["config", "show"],
    ["completion", "bash"],
)
WRITES = (
    ["call", "todo", "{}"],
    ["chat"],
    ["run", "hello", "--model", "m", "--base-url", "http://127.0.0.1:9/v1"],
    ["sessions"],
    ["trace", "4f1c"],
    ["undo", "--list"],
    ["approvals"],
    ["explain", "--replay"],
)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that no user can create, even root: a file is in the way."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TOOLCRIB_STATE", str(tmp_path / "file" / "state"))
    return tmp_path / "file"


@pytest.mark.parametrize("words", LOOKS, ids=" ".join)
def test_what_only_looks_works(run: Any, state: Path, words: list[str]) -> None:
    done = run(*words)
    assert (done.code, done.err) == (0, "")
    assert done.out


@pytest.mark.parametrize("words", WRITES, ids=" ".join)
def test_what_must_write_names_the_folder_and_the_fix(run: Any, state: Path, words: list[str]) -> None:
    done = run(*words)
    assert done.code in (1, 2)
    assert done.out == ""
    assert "can't be opened: Not a directory; make its folder writable" in done.err
    assert f"({state})" in done.err
    assert "TOOLCRIB_STATE" in done.err


def test_no_state_is_made_by_looking(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCRIB_STATE", str(tmp_path / "state"))
    assert run("tools").code == 0
    assert not (tmp_path / "state").exists()


def test_help_with_a_plugin(run: Any, state: Path, config: Callable[[str], Path]) -> None:
    file = config("plugins: {enabled: [greets]}\n")
    (file.parent / "plugins").mkdir()
    (file.parent / "plugins" / "greets.py").write_text(
        "import types\nfrom toolcrib import hookimpl\n@hookimpl\ndef register_command(add):\n"
        "    add('greet', types.SimpleNamespace(HELP='Says hi.', configure=lambda p: None, run=lambda args: print('hi')))\n"
    )
    assert "greet        Says hi." in run("--help").out
    assert (run("greet").code, run("greet").out) == (0, "hi\n")


def test_grants_that_cannot_be_kept_count_nowhere(run: Any, state: Path, config: Callable[[str], Path], tmp_path: Path) -> None:
    """explain leaves out these grants and reports that; no session opens, with or without them."""
    config(f"store: {{path: {tmp_path}/s.db}}\ncommand_allowlist: [{{argv: [rm, -rf, build], cwd: {tmp_path}, version: 1}}]\n")
    done = run("explain", "rm -rf build")
    assert "decided by: a user" in done.out
    assert done.err.startswith("toolcrib: permanent grants are left out: ")
    assert done.err.count("\n") == 1
    assert run("tools").err == ""
    for words in (["call", "todo", "{}"], ["chat"], ["approvals"]):
        done = run(*words)
        assert done.code == 2
        assert "allowlist.json.lock cannot be opened: Not a directory" in done.err
        assert done.out == ""
    assert "allowlist.json.lock cannot be opened" in run("doctor").out


def test_doctor_looks_at_the_rest(run: Any, state: Path) -> None:
    done = run("doctor")
    assert done.code == 1
    assert "toolcrib.db can't be opened" in done.out
    assert "backend local" in done.out
