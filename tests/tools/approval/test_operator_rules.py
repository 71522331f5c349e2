"""An operator's rules: rows besides those of the table, and decisions on tools by name and argument."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib import ConfigError
from tools.approval.operator_rules import MAX_ARG_CHARS, decide, operator_rules, tool_rules
from tools.judge.assess import assess
from tools.judge.findings import Finding
from tools.judge.meaning import interpret
from tools.judge.meaning.state import NoFiles, ShellNow

DEPLOY = {
    "key": "deploy.production",
    "level": "ask",
    "command": "deployctl",
    "sub": "release|rollback",
    "operands": "prod.*",
    "why": "changes what customers see",
    "example": ["deployctl release prod-1", "sudo deployctl -v rollback prod"],
    "counter": ["deployctl release staging", "deployctl list prod-1", "echo deployctl release prod-1"],
}
CLEAN = {
    "key": "build.clean",
    "level": "allow",
    "command": "rm",
    "options": "-rf -r",
    "operands": "build|dist",
    "why": "made by every build",
    "example": ["rm -rf build dist"],
    "counter": [
        "rm -rf build src",
        "rm -rf --no-preserve-root build",
        "sudo rm -rf build",
        "rm -rf build > a",
        "rm -rf $X build",
    ],
}


def findings(command: str, *entries: dict[str, Any]) -> list[Finding]:
    now = ShellNow(cwd="/home/dev/project", home="/home/dev", user="dev")
    return assess(interpret(command, now, NoFiles()), home="/home/dev", extra=operator_rules(entries))


def keys(command: str, *entries: dict[str, Any]) -> set[str]:
    return {finding.key.partition("@")[0] for finding in findings(command, *entries) if finding.level != "allow"}


# rows


@pytest.mark.parametrize("level", ["ask", "ask-once", "block"])
def test_a_row_of_an_operator_is_found_like_any_other(level: str) -> None:
    """003-23"""
    found = findings("cd x && deployctl release prod-1", {**DEPLOY, "level": level})
    assert [(one.key, one.level, one.why) for one in found] == [("deploy.production", level, "changes what customers see")]
    assert keys("deployctl release staging", DEPLOY) == set()


def test_options_match_in_clusters_and_abbreviated() -> None:
    entry = {
        **DEPLOY,
        "sub": "",
        "operands": "",
        "options": "-f --force",
        "example": ["deployctl -vf x"],
        "counter": ["deployctl -v x"],
    }
    assert keys("deployctl --force=yes x", entry) == keys("deployctl -xf", entry) == {"deploy.production"}


def test_allowed_commands_run_unasked_and_nothing_beside_them() -> None:
    assert keys("rm -rf build") == {"fs.recursive-delete"}
    assert keys("rm -rf build", CLEAN) == set()
    for command in (
        "rm -rf build src",
        "rm -rf build /",
        "rm -rf -v build",
        "sudo rm -rf build",
        "rm -rf build $(pick)",
        "rm -rf $(pick)",
        "rm -rf build*",
        "rm -rf build; rm -rf src",
        "rm -rf build; sudo rm -rf build",
        "rm -rf build | sudo rm -rf build",
        "ssh web rm -rf build",
        "rm -rf build > /etc/motd",
        "./rm -rf build; rm -rf src",
    ):
        assert keys(command, CLEAN), command


def test_what_is_refused_or_asked_every_time_cannot_be_allowed() -> None:
    allow = {
        "key": "x",
        "level": "allow",
        "command": "rm docker",
        "sub": "",
        "options": "-rf --privileged",
        "operands": ".*",
        "why": "x",
    }
    assert keys("rm -rf /", {**allow, "example": ["rm -rf /"]}) == {"fs.recursive-delete-root"}
    assert "container.host" in keys("docker run --privileged a", {**allow, "example": ["docker run --privileged a"]})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"key": "Deploy Prod"}, r"approval\.rules\[0\]: key: expected a name"),
        ({"key": None}, r"approval\.rules\[0\]: key: expected a name"),
        (
            {"level": "deny"},
            r"approval\.rules\[0\] \(deploy\.production\): level: expected one of allow, ask, ask-once, block, got 'deny'",
        ),
        ({"command": "/bin/deployctl"}, r"command: expected one or more names of commands, without a path"),
        ({"command": ""}, "command: expected"),
        ({"why": ""}, "why: expected a few words"),
        ({"options": "force"}, "options: expected options separated by spaces"),
        ({"operands": "("}, r"operands: expected a regular expression, got '\('"),
        ({"example": []}, "example: expected at least one command"),
        ({"example": "deployctl release prod"}, "example: expected at least one command"),
        (
            {"example": ["deployctl release dev"]},
            "example: the rule must match this command, but does not: 'deployctl release dev'",
        ),
        (
            {"example": ["deployctl release prod --help"]},
            "example: the rule must match this command, but does not: 'deployctl release prod --help'",
        ),
        (
            {"counter": ["x; deployctl release prod"]},
            "counter: the rule must not match this command, but does: 'x; deploy",
        ),
        ({"counter": [4]}, "counter: expected a list"),
    ],
)
def test_a_wrong_entry_is_told_with_its_place_and_what_was_expected(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        operator_rules([{**DEPLOY, **changes}])


def test_the_second_entry_is_told_as_the_second() -> None:
    with pytest.raises(ConfigError, match=r"approval\.rules\[1\]"):
        operator_rules([DEPLOY, {**DEPLOY, "level": "never"}])


@given(
    st.dictionaries(
        st.sampled_from([*DEPLOY, "options"]), st.none() | st.integers() | st.text() | st.lists(st.text(), max_size=2)
    )
)
def test_any_entry_is_rows_or_a_config_error(entry: dict[str, Any]) -> None:
    for given_entry in (entry, {**DEPLOY, **entry}):
        with contextlib.suppress(ConfigError):
            operator_rules([given_entry])


# tools


def decided(rules: list[dict[str, Any]], name: str, **args: Any) -> str | None:
    found = decide(tool_rules(rules), name, args)
    return found.decision if found else None


ASK = {"tool": "mcp_*", "decision": "ask", "why": "a server of others"}


def test_a_tool_is_matched_by_name_and_every_argument() -> None:
    """003-23"""
    rule = {"tool": "mcp_mail_*", "decision": "deny", "why": "x", "args": {"to": "*@rival.test", "options.draft": "false"}}
    assert decided([rule], "mcp_mail_send", to="a@rival.test", options={"draft": False}) == "deny"
    assert decided([rule], "mcp_mail_send", to="a@rival.test", options={"draft": True}) is None
    assert decided([rule], "mcp_mail_send", to="a@rival.test") is None
    assert decided([rule], "mcp_mail_send", to="a@friend.test", options={"draft": False}) is None
    assert decided([rule], "xmcp_mail_send", to="a@rival.test", options={"draft": False}) is None
    assert decided([{**rule, "args": {}}], "mcp_mail_") == "deny"


def test_a_tool_is_matched_by_its_toolset() -> None:
    rule = {"toolset": "mcp-mail", "decision": "deny", "why": "x"}
    assert decide(tool_rules([rule]), "send", {}, (), "mcp-mail") is not None
    assert decide(tool_rules([rule]), "send", {}, (), "mcp-mail2") is None
    assert decide(tool_rules([{**rule, "toolset": "mcp-*"}]), "send", {}, (), "mcp-mail2") is not None
    both = tool_rules([{**rule, "tool": "send*"}])
    assert decide(both, "send_it", {}, (), "mcp-mail") is not None
    assert decide(both, "list", {}, (), "mcp-mail") is None
    assert decide(both, "send_it", {}, (), "file") is None
    assert both[0].subject == "send* of the toolset mcp-mail"


def test_the_strictest_of_the_rules_that_match_counts_wherever_it_stands() -> None:
    allow, deny = {**ASK, "decision": "allow"}, {**ASK, "decision": "deny"}
    assert decided([allow, ASK, deny], "mcp_x") == decided([deny, ASK, allow], "mcp_x") == "deny"
    assert decided([allow, ASK], "mcp_x") == decided([ASK, allow], "mcp_x") == "ask"
    assert decided([allow], "mcp_x") == "allow"
    assert decided([], "mcp_x") is None
    first, second = tool_rules([{**ASK, "why": "one"}, {**ASK, "why": "two"}])
    assert decide([first, second], "mcp_x", {}) is first


@pytest.mark.parametrize(
    ("wanted", "given", "fits"),
    [
        ("src/*", "src/a.py", True),
        ("src/*", "src/a/b.py", False),
        ("src/**", "src/a/b.py", True),
        ("**/migrations/**", "migrations/1.py", True),
        ("**/migrations/**", "app/migrations/1.py", True),
        ("**/migrations/**", "app/xmigrations/1.py", False),
        ("?.py", "a.py", True),
        ("a.py", "axpy", False),
        ("re:src/.+[.]py", "src/a.py", True),
        ("re:src", "src/a.py", False),
        ("re:(?s).*rm.*", "a\nrm\n", True),
    ],
)
def test_arguments_are_globs_or_regular_expressions(wanted: str, given: str, fits: bool) -> None:
    assert (decided([{**ASK, "args": {"path": wanted}}], "mcp_x", path=given) == "ask") is fits


def test_a_path_is_denied_however_it_is_written_and_allowed_only_where_it_leads() -> None:
    deny = {"tool": "*", "decision": "deny", "why": "x", "args": {"path": "/etc/**"}}
    allow = {"tool": "*", "decision": "allow", "why": "x", "args": {"path": "src/**"}}
    assert decided([deny], "write_file", path="/srv/../etc/passwd") == "deny"
    assert decided([deny], "write_file", path="/etc/./passwd") == "deny"
    assert decided([allow], "write_file", path="src/a.py") == "allow"
    assert decided([allow], "write_file", path="src/../../etc/passwd") is None
    assert decided([deny], "write_file", path=["a", "/etc/x"]) == "deny"
    assert decided([allow], "write_file", path=["src/a", "/etc/x"]) is None
    assert decided([allow], "write_file", path=[]) is None


def test_an_exact_text_is_allowed_without_its_resolved_form() -> None:
    """The resolved form of a command is another command, so the rule does not allow that one."""
    for text, other in (("curl http://a/x", "curl http:/a/x"), ("echo a/../rm -r b*", "rm -r b*"), ("ls .//x", "ls x")):
        for wanted in {f"re:{re.escape(text)}", text if "*" not in text else f"re:{re.escape(text)}"}:
            rule = {"tool": "terminal", "decision": "allow", "why": "x", "args": {"command": wanted}}
            assert decided([rule], "terminal", command=text) == "allow"
            assert decided([rule], "terminal", command=other) is None


def test_an_argument_too_long_to_look_at_is_never_allowed() -> None:
    """The check fails closed: a rule that asks or denies counts as matched, a rule that allows does not."""
    long = "a" * (MAX_ARG_CHARS + 1)
    for decision, expected in (("allow", None), ("ask", "ask"), ("deny", "deny")):
        assert decided([{**ASK, "decision": decision, "args": {"text": "a*"}}], "mcp_x", text=long) == expected


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tool": ""}, r"approval\.tools\[0\]: tool: expected the name of a tool"),
        ({"decision": "block"}, r"approval\.tools\[0\] \(mcp_\*\): decision: expected one of allow, ask, deny, got 'block'"),
        ({"why": None}, "why: expected"),
        ({"args": ["path"]}, "args: expected names of arguments"),
        ({"args": {"path": 4}}, "args: expected names of arguments"),
        ({"args": {"path": "re:["}}, r"args\.path: expected a regular expression"),
    ],
)
def test_a_wrong_tool_rule_is_told_with_its_place(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        tool_rules([{**ASK, **changes}])


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(st.text(), st.dictionaries(st.text(), JSON, max_size=3), st.text(min_size=1), st.text(min_size=1))
def test_no_call_makes_a_rule_raise(name: str, args: dict[str, Any], glob: str, argument: str) -> None:
    for rule in tool_rules([{**ASK, "tool": glob}, {**ASK, "tool": "*", "args": {argument: glob.removeprefix("re:") or "*"}}]):
        rule.match(name, args)
