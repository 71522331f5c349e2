"""``toolcrib tools``, ``toolsets``, ``plugins`` and ``completion``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from toolcrib.testing import ChatServer

NEEDS_A_KEY = """
from toolcrib import Unavailable, hookimpl
@hookimpl
def register_tools(registry):
    registry.register("weather", "weather", {"description": "Tell the weather. At length.", "parameters": {"type": "object"}},
                      lambda args: "sun", check_fn=lambda: Unavailable("set WEATHER_KEY"), emoji="⛅")
"""


def test_tools_are_listed_with_their_reasons(run: Any, user_plugin: Any) -> None:
    """003-9: people see the reasons."""
    user_plugin("weather", NEEDS_A_KEY)
    done = run("tools")
    assert done.code == 0
    available, missing = done.out.split("\nmissing on cli:\n")
    assert "💻  terminal        terminal        Run a bash command\n" in available
    assert "weather" not in available
    assert "set WEATHER_KEY" in missing
    assert "weather" not in run("completion", "--names", "tools").out


def test_tools_as_json(run: Any, user_plugin: Any) -> None:
    user_plugin("weather", NEEDS_A_KEY)
    found = {line["name"]: line for line in json.loads(run("tools", "--json").out)}
    assert found["weather"]["granted"] is False
    assert found["weather"]["reason"] == "set WEATHER_KEY"
    assert found["terminal"] == {**found["terminal"], "granted": True, "reason": None, "emoji": "💻", "toolset": "terminal"}


def test_what_a_tool_costs_stands_before_it(run: Any, user_plugin: Any) -> None:
    user_plugin("weather", NEEDS_A_KEY)
    found = {line["name"]: line for line in json.loads(run("tools", "--json").out)}
    assert found["weather"]["cost"] > 0, "what it would cost"
    available, missing = run("tools", "list").out.split("\nmissing on cli:\n")
    assert f"{found['terminal']['cost']:>6,}  💻  terminal" in available
    assert f"{found['weather']['cost']:>6,}  ✗  weather" in missing
    assert f"{sum(line['cost'] for line in found.values() if line['granted']):,}  tokens per request, for 12 tools" in available
    resolved = json.loads(run("toolsets", "resolve", "--json").out)
    assert {one["name"]: one["tokens"] for one in resolved["tools"] if one["granted"]} == {
        line["name"]: line["cost"] for line in found.values() if line["granted"]
    }


def test_a_missing_tool_says_how_to_get_it(run: Any, config: Any, agree: Any) -> None:
    """For each reason why the tool is missing, following the advice makes it available."""
    file = config(
        "tools: {disabled: [todo]}\n"
        "delegates: {max_depth: 0}\n"
        "toolsets: {disabled: [memory]}\n"
        "users: {'42': {disabled_tools: [terminal]}}\n"
        "platforms: {telegram: {enabled_toolsets: [file, todo], disabled_tools: [patch], allow_local: true}}\n"
    )

    def fixes(*args: str) -> dict[str, str]:
        return {line["name"]: line["fix"] for line in json.loads(run("tools", "--json", *args).out)}

    assert fixes()["todo"] == "toolcrib tools enable todo"
    assert fixes()["delegate_task"] == "toolcrib config set delegates.max_depth 1"
    assert fixes()["memory"] == f"remove memory from toolsets.disabled ({file}:3)"
    assert fixes()["read_file"] == ""
    assert fixes("--user", "42")["terminal"] == "remove it from disabled_tools, or its toolset from disabled_toolsets, there"
    there = fixes("--platform", "telegram")
    assert there["patch"] == "toolcrib tools enable patch --platform telegram"
    assert there["terminal"] == "toolcrib config set platforms.telegram.enabled_toolsets '[file, todo, terminal]'"
    words = there["terminal"].split(" ", 4)
    run(*words[1:4], words[4].strip("'"))
    agree()
    granted = {line["name"]: line["granted"] for line in json.loads(run("tools", "--json", "--platform", "telegram").out)}
    assert granted["terminal"]
    assert run("tools", "list", "--user", "42").out.count("disabled_toolsets, there") == 1


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
    assert "no such tool here" in shown
    assert run("toolsets", "show").code == 2
    assert "did you mean 'coding'?" in run("toolsets", "show", "codin").err


def test_what_a_platform_gets_and_why_not_the_rest(run: Any, config: Any) -> None:
    """003-12, 003-14"""
    config("platforms: {telegram: {disabled_tools: [terminal], allow_local: true}}\n")
    done = run("toolsets", "--platform", "telegram")
    gets, not_gets = done.out.split("and does not get:\n")
    assert "read_file" in gets
    assert "terminal  disabled in the configuration (disabled tools)" in not_gets
    assert "clarify" in run("toolsets", "--platform", "api").out.split("and does not get:\n")[1]
    assert "unknown platform 'fax'" in run("toolsets", "--platform", "fax").err
    assert "unknown platform 'fax'" in (said := run("tools", "--platform", "fax").err)
    assert "for your own platform define toolsets.custom.toolcrib-fax" in said


def test_plugins(run: Any, user_plugin: Any, config: Any) -> None:
    bundled = run("plugins").out
    assert "only toolcrib's own plugins; install others" in bundled
    assert {line.split()[1] for line in bundled.split("\n\n")[0].splitlines()[1:]} == {"bundled"}
    file = user_plugin("good", NEEDS_A_KEY)
    file.with_name("bad.py").write_text("import nothing_like_it")
    file.with_name("resting.py").write_text("")
    config("plugins: {enabled: [good, bad, gone]}\n")
    done = run("plugins")
    states = {line.split()[0]: line.split()[3] for line in done.out.split("\n\n")[0].splitlines()[1:] if " bundled " not in line}
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


def test_a_session_is_exported(run: Any, tmp_path: Path) -> None:
    with ChatServer(ChatServer.text("**Yes.**")) as server:
        assert run("run", "--base-url", server.base_url, "--model", "m", "Is it done?").code == 0
    session = json.loads(run("sessions", "--json").out)[0]["id"]
    assert "# Is it done?\n" in run("sessions", "export", session[:6]).out
    done = run("sessions", "export", session, "-o", "talk.html")
    assert (done.out, done.err) == ("", "wrote talk.html\n")
    assert "<strong>Yes.</strong>" in (tmp_path / "talk.html").read_text()
    assert "already exists" in run("sessions", "export", session, "-o", "talk.html").err
    assert run("sessions", "export", session, "-o", "talk.html", "--force").code == 0
    assert json.loads(run("sessions", "export", session, "--format", "json").out)["records"][0]["text"] == "Is it done?"
    assert "give the" in run("sessions", "export").err


def test_old_sessions_are_forgotten_when_a_person_says_so(run: Any) -> None:
    assert run("call", "todo", "{}").code == 0
    assert run("sessions", "prune").code == 2
    assert run("sessions", "prune", "--older-than", "90d").out == "deleted: 0 sessions\n"
    refused = run("sessions", "prune", "--older-than", "0s")
    assert refused.code != 0
    assert "Delete 1 session permanently, with their calls" in refused.err
    assert "(This includes sessions of `toolcrib call`, which are not listed.)" in refused.err
    assert run("sessions", "prune", "--older-than", "0s", "--yes").out == "deleted: 1 session\n"
    assert json.loads(run("sessions", "prune", "--older-than", "0s", "--json").out) == {"forgotten": 0}


def test_without_depth_nobody_has_delegates(run: Any, config: Any) -> None:
    config("delegates: {max_depth: 0}\n")
    found = {one["name"]: one for one in json.loads(run("tools", "--json").out)}
    assert not found["delegate_task"]["granted"]
    assert found["delegate_task"]["reason"] == "disabled in the configuration (delegates.max_depth is 0)"
