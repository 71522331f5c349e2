"""check_fns that return a reason (003-6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolcrib import ToolRegistry, Unavailable
from tools.availability import needs_binary, needs_env, needs_module


def reason(verdict: object) -> str:
    assert isinstance(verdict, Unavailable)
    assert not verdict
    return verdict.reason


def test_an_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """003-6"""
    monkeypatch.setenv("FIRST_KEY", "x")
    monkeypatch.delenv("SECOND_KEY", raising=False)
    assert needs_env("FIRST_KEY")() is True
    assert reason(needs_env("FIRST_KEY", "SECOND_KEY", "THIRD_KEY")()) == "set SECOND_KEY and THIRD_KEY"
    monkeypatch.setenv("FIRST_KEY", "")
    assert reason(needs_env("FIRST_KEY", hint="from example.com/keys")()) == "set FIRST_KEY: from example.com/keys"


def test_a_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """003-6"""
    assert needs_binary("sh")() is True
    assert needs_binary("no-such-program", "sh")() is True
    assert reason(needs_binary("no-such-program", hint="apt install it")()) == "no-such-program not found on PATH: apt install it"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert reason(needs_binary("sh")()) == "sh not found on PATH: install sh"


def test_a_program_that_comes_or_goes_meanwhile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    monkeypatch.setenv("PATH", f"{first}:{second}")
    check = needs_binary("come-and-go", "other")
    for folder in (first, second):
        folder.mkdir()
        assert "not found" in reason(check())
        program = folder / "come-and-go"
        program.touch(mode=0o755)
        assert (check(), check()) == (True, True)
        program.chmod(0o644)
        assert "not found" in reason(check())
        program.unlink()
    (second / "other").touch(mode=0o755)
    assert check() is True
    monkeypatch.setenv("PATH", str(first))
    assert "not found" in reason(check())


def test_a_module() -> None:
    """003-6"""
    assert needs_module("json.decoder")() is True
    assert reason(needs_module("no_such_module")()) == "Python module no_such_module not found: pip install 'no_such_module'"
    assert "pip install 'toolcrib[sql]'" in reason(needs_module("no_such_parent.child", extra="sql")())


def test_shared_check_fn_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """003-8"""
    assert needs_env("SHARED_KEY") is needs_env("SHARED_KEY")
    assert needs_binary("rg", hint="x") is needs_binary("rg", hint="x")
    assert needs_module("json") is needs_module("json")
    assert needs_env("SHARED_KEY") is not needs_env("OTHER_KEY")
    registry = ToolRegistry()
    for name in ("a", "b"):
        registry.register(name, "t", {"description": name}, lambda args: None, check_fn=needs_env("SHARED_KEY"))
    monkeypatch.delenv("SHARED_KEY", raising=False)
    assert registry.availability() == {"a": "set SHARED_KEY", "b": "set SHARED_KEY"}
    monkeypatch.setenv("SHARED_KEY", "x")
    assert registry.availability() == {"a": None, "b": None}
