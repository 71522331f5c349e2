"""Enabling and disabling tools and toolsets, and the effects."""

from __future__ import annotations

import json
from typing import Any


def test_a_tool_is_switched_off_and_on_again(run: Any, config: Any, agree: Any) -> None:
    file = config("# mine\ntools:\n  timeout: 60 # short\n")
    done = run("tools", "disable", "terminal", "patch")
    assert done.code == 0
    assert 'tools.disabled: [] -> ["terminal", "patch"]' in done.out
    assert "terminal on cli: off: disabled in the configuration" in done.out
    assert "terminal" not in run("completion", "--names", "tools").out.split()
    assert "nothing to change" in run("tools", "disable", "terminal").out
    enabled = run("tools", "enable", "terminal")
    waits = "tools.disabled was written and waits for a confirmation: nothing starts until a user confirms it at a terminal"
    assert f"toolcrib: {waits}: toolcrib config confirm" in enabled.err
    agree()
    assert "terminal on cli: on" in run("tools", "enable", "terminal").out
    assert "terminal" in run("completion", "--names", "tools").out.split()
    for comment in ("# mine", "# short"):
        assert comment in file.read_text()


def test_a_mistyped_tool_that_stays_on_is_told(run: Any, config: Any) -> None:
    file = config("tools: {disabled: [termnal, of_a_plugin]}\nusers: {ada: {disabled_tools: [wrte_file]}}\n")
    assert run("tools").err.splitlines() == [
        f"toolcrib: {file}: tools.disabled: unknown tool 'termnal'; did you mean 'terminal'?",
        f"toolcrib: {file}: users.ada.disabled_tools: unknown tool 'wrte_file'; did you mean 'write_file'?",
    ]


def test_on_one_platform(run: Any, agree: Any) -> None:
    done = run("tools", "disable", "terminal", "--platform", "telegram")
    assert "platforms.telegram.disabled_tools" in done.out
    assert "terminal on telegram: off" in done.out
    assert "terminal" in run("completion", "--names", "tools").out.split()
    granted = {one["name"]: one["granted"] for one in json.loads(run("tools", "--json", "--platform", "telegram").out)}
    assert not granted["terminal"]
    run("tools", "disable", "terminal")
    run("tools", "enable", "terminal", "--platform", "telegram")
    agree()
    done = run("tools", "enable", "terminal", "--platform", "telegram")
    assert "terminal on telegram: off: disabled in the configuration (disabled tools)" in done.out


def test_a_wrong_switch_changes_nothing(run: Any, config: Any, agree: Any) -> None:
    file = config("tools: {disabled: [gone]}\n")
    before = file.read_text()
    assert "did you mean 'terminal'?" in run("tools", "disable", "termnal").err
    assert "unknown platform 'fax'" in run("tools", "disable", "terminal", "--platform", "fax").err
    assert "give the tools" in run("tools", "enable").err
    for words, key in ((), "users.42"), (("--platform", "telegram"), "users.telegram:42"):
        refused = run("tools", "disable", "terminal", "--user", "42", *words)
        assert f"--user only shows tools; to change one user's: toolcrib config set {key}.disabled_tools" in refused.err
    assert file.read_text() == before
    assert 'tools.disabled: ["gone"] -> []' in run("tools", "enable", "gone").out
    agree()
    assert "gone" not in run("tools").out
    config("profiles: {work: {}}\n")
    assert "profiles.work.tools.disabled" in run("tools", "disable", "terminal", "--profile", "work").err


def test_what_a_user_gets_and_what_it_costs(run: Any, config: Any) -> None:
    config("users: {'42': {disabled_tools: [terminal]}}\n")
    plain = run("toolsets", "resolve").out
    assert "terminal  " in plain
    assert "characters of the JSON / 4" in plain
    told = run("toolsets", "resolve", "--platform", "cli", "--user", "42", "--explain").out
    gets, not_gets = told.split("and does not get:\n")
    assert "terminal" not in [row.split()[1] for row in gets.splitlines() if row.startswith("  ")]
    assert "not for the user '42'" in not_gets
    whole = json.loads(run("toolsets", "resolve", "--user", "42", "--json").out)
    by_name = {tool["name"]: tool for tool in whole["tools"]}
    assert by_name["terminal"] == {**by_name["terminal"], "granted": False, "tokens": None}
    assert whole["tokens"] == sum(tool["tokens"] or 0 for tool in whole["tools"]) > 100
    assert "--user needs `toolsets resolve`" in run("toolsets", "--user", "42").err
