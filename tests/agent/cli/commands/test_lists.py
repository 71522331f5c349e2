"""``toolcrib tools``, ``toolsets``, ``plugins`` and ``completion``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from agent.catalog import Cache
from toolcrib.testing import ChatServer

NEEDS_A_KEY = """
from toolcrib import Unavailable, hookimpl
@hookimpl
def register_tools(registry):
    registry.register("weather", "weather", {"description": "Tell the weather. At length.", "parameters": {"type": "object"}},
                      lambda args: "sun", check_fn=lambda: Unavailable("set WEATHER_KEY"), emoji="⛅")
"""


def test_tools_are_listed_with_their_reasons(run: Any, user_plugin: Any) -> None:
    """003-9: the reason is kept for people."""
    user_plugin("weather", NEEDS_A_KEY)
    done = run("tools")
    assert done.code == 0
    available, missing = done.out.split("\nnot on cli:\n")
    assert "💻  terminal        terminal        Run a bash command\n" in available
    assert "weather" not in available
    assert "set WEATHER_KEY" in missing
    assert "weather" not in run("tools", "--names").out


def test_tools_as_json(run: Any, user_plugin: Any) -> None:
    user_plugin("weather", NEEDS_A_KEY)
    found = {line["name"]: line for line in json.loads(run("tools", "--json").out)}
    assert found["weather"]["granted"] is False
    assert found["weather"]["reason"] == "set WEATHER_KEY"
    assert found["terminal"] == {**found["terminal"], "granted": True, "reason": None, "emoji": "💻", "toolset": "terminal"}


def test_one_tool(run: Any) -> None:
    assert json.loads(run("tools", "show", "terminal").out)["parameters"]["required"] == ["command"]
    assert "did you mean 'todo'?" in run("tools", "show", "todoo").err
    assert run("tools", "show").code == 2


def test_toolsets(run: Any, config: Any) -> None:
    file = config("toolsets: {custom: {mine: {description: Only looking, tools: [read_file, gone]}}}\n")
    listed = run("toolsets").out
    assert f"Only looking (from {file})" in listed
    assert "toolcrib-cli" in listed
    shown = run("toolsets", "show", "mine").out
    assert "read_file" in shown
    assert "no such tool is registered here" in shown
    assert run("toolsets", "show").code == 2
    assert "did you mean 'coding'?" in run("toolsets", "show", "codin").err


def test_what_a_platform_gets_and_why_not_the_rest(run: Any, config: Any) -> None:
    """003-12, 003-14"""
    config("platforms: {telegram: {disabled_tools: [terminal]}}\n")
    done = run("toolsets", "--platform", "telegram")
    gets, not_gets = done.out.split("and not:\n")
    assert "read_file" in gets
    assert "terminal  switched off" in not_gets
    assert "clarify" in run("toolsets", "--platform", "api").out.split("and not:\n")[1]
    assert "unknown platform 'fax'" in run("toolsets", "--platform", "fax").err
    assert "unknown platform 'fax'" in run("tools", "--platform", "fax").err


def test_plugins(run: Any, user_plugin: Any, config: Any) -> None:
    assert "no plugins" in run("plugins").out
    file = user_plugin("good", NEEDS_A_KEY)
    file.with_name("bad.py").write_text("import nothing_like_it")
    file.with_name("resting.py").write_text("")
    config("plugins: {enabled: [good, bad, gone]}\n")
    done = run("plugins")
    states = {line.split()[0]: line.split()[3] for line in done.out.split("\n\n")[0].splitlines()[1:]}
    assert states == {"good": "loaded", "bad": "failed", "resting": "off", "gone": "failed"}
    assert "bad: ModuleNotFoundError: No module named 'nothing_like_it'" in done.out
    assert "gone: there is no such plugin" in done.out
    assert done.err == ""


def test_an_untrusted_project_plugin_shows_how_to_trust_it(run: Any, tmp_path: Path) -> None:
    folder = tmp_path / ".toolcrib" / "plugins"
    folder.mkdir(parents=True)
    (folder / "sneaky.py").write_text("raise SystemExit('ran')")
    done = run("plugins")
    assert "not trusted" in done.out
    assert "trusted_projects" in done.out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(run: Any, shell: str) -> None:
    done = run("completion", shell)
    assert done.code == 0
    for word in ("doctor", "toolsets", "platform"):
        assert word in done.out


_PROBE = 'COMP_WORDS=(toolcrib {words}); COMP_CWORD={at}; _toolcrib; printf "%s\\n" "${{COMPREPLY[@]}}"'


def _completed(script: str, words: str, at: int, folder: Path) -> list[str]:
    """Return what bash offers, with a `toolcrib` that is this one."""
    path = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    code = f"{script}\n{_PROBE.format(words=words, at=at)}"
    run = ["bash", "--norc", "-c", code]
    return subprocess.run(run, capture_output=True, text=True, check=True, timeout=60, env=path, cwd=folder).stdout.split()


def test_the_bash_completion_completes(run: Any, config: Any, tmp_path: Path) -> None:
    config("profiles: {fast: {}}\ntoolsets: {custom: {reading: {tools: [read_file]}}}\n")
    with ChatServer(ChatServer.text("Yes.")) as server:
        assert run("run", "--base-url", server.base_url, "--model", "m", "Hello?").code == 0
    session = json.loads(run("sessions", "--json").out)[0]["id"]
    script = run("completion", "bash").out
    for words, at, expected in [
        ("do", 1, ["doctor"]),
        ("tools --pl", 2, ["--platform"]),
        ("completion z", 2, ["zsh"]),
        ("undo --red", 2, ["--redo"]),
        ("run --sa", 2, ["--save-images"]),
        ("models --pro", 2, ["--profile", "--probe"]),
        ("chat --cwd ''", 3, []),
        ("call ter", 2, ["terminal"]),
        ("tools show pa", 3, ["patch"]),
        ("toolsets edit rea", 3, ["reading"]),
        ("config get tools.dis", 3, ["tools.disabled"]),
        ("env test lo", 3, ["local"]),
        ("chat --backend lo", 3, ["local"]),
        ("chat --profile fa", 3, ["fast"]),
        ("toolsets resolve --platform tele", 4, ["telegram"]),
        (f"sessions show {session[:4]}", 3, [session[:12]]),
        (f"run --resume {session[:4]}", 3, [session[:12]]),
    ]:
        assert _completed(script, words, at, tmp_path) == expected, words


def test_what_a_server_calls_a_model_is_not_run_by_the_shell(run: Any, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    models = [{"name": name, "context": None, "tools": None} for name in ("good:7b", f"$(touch {mark})", "`id`", "a b")]
    cache = Cache()
    cache.path.parent.mkdir(parents=True, exist_ok=True)
    cache.path.write_text(json.dumps({"x": {"at": time.time(), "models": models}}))
    assert run("completion", "--names", "models").out == "good:7b\n"
    assert _completed(run("completion", "bash").out, "chat --model ''", 3, tmp_path) == ["good:7b"]
    assert not mark.exists()


def test_completion_needs_a_shell(run: Any) -> None:
    assert "name the shell: toolcrib completion bash, zsh or fish" in run("completion").err


def test_a_session_is_exported(run: Any, tmp_path: Path) -> None:
    with ChatServer(ChatServer.text("**Yes.**")) as server:
        assert run("run", "--base-url", server.base_url, "--model", "m", "Is it done?").code == 0
    session = json.loads(run("sessions", "--json").out)[0]["id"]
    assert "# Is it done?\n" in run("sessions", "export", session[:6]).out
    done = run("sessions", "export", session, "-o", "talk.html")
    assert (done.out, done.err) == ("", "talk.html: written\n")
    assert "<strong>Yes.</strong>" in (tmp_path / "talk.html").read_text()
    assert "is there already" in run("sessions", "export", session, "-o", "talk.html").err
    assert run("sessions", "export", session, "-o", "talk.html", "--force").code == 0
    assert json.loads(run("sessions", "export", session, "--format", "json").out)["records"][0]["text"] == "Is it done?"
    assert "say which" in run("sessions", "export").err


def test_old_sessions_are_forgotten_when_a_person_says_so(run: Any) -> None:
    assert run("call", "todo", "{}").code == 0
    assert run("sessions", "prune").code == 2
    assert run("sessions", "prune", "--older-than", "90d").out == "forgotten: 0 sessions\n"
    refused = run("sessions", "prune", "--older-than", "0s")
    assert refused.code != 0
    assert "Forget 1 session for good, with their calls" in refused.err
    assert run("sessions", "prune", "--older-than", "0s", "--yes").out == "forgotten: 1 session\n"
    assert json.loads(run("sessions", "prune", "--older-than", "0s", "--json").out) == {"forgotten": 0}
