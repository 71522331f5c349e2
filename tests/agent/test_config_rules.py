"""An operator's own rules in config.yaml: read with file and line, and never from a project."""

from __future__ import annotations

import dataclasses
import itertools
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from agent.api import assemble
from agent.config import BrokenConfig, load_config
from agent.conversation.session import Session
from agent.store.memory import MemoryStore
from toolcrib import ConfigError
from tools.approval.operator_rules import decide, tool_rules
from tools.dispatch.bridge import run_async

RULES = """\
approval:
  rules:
    - key: deploy.production
      level: ask-once
      command: deployctl
      sub: release
      operands: prod.*
      why: changes what customers see
      example: [deployctl release prod-1]
      counter: [deployctl release dev]
  tools:
    - {tool: mcp_mail_*, decision: ask, why: sends mail}
    - {tool: write_file, args: {path: "**/migrations/**"}, decision: deny, why: by hand}
"""


def test_rules_are_read_and_understood_by_the_judge(file: Path) -> None:
    file.write_text(RULES)
    approval = load_config(file).approval
    (rule,) = approval.rules
    assert (rule.key, rule.level, rule.example, rule.options) == (
        "deploy.production",
        "ask-once",
        ("deployctl release prod-1",),
        "",
    )
    rules = tool_rules([dataclasses.asdict(entry) for entry in approval.tools])
    found = decide(rules, "write_file", {"path": "app/migrations/1.py"})
    assert found is not None
    assert (found.decision, found.why) == ("deny", "by hand")


def test_a_toolset_may_stand_for_the_tool(file: Path) -> None:
    file.write_text("approval: {tools: [{toolset: mcp-mail, decision: deny, why: not here}]}")
    rules = tool_rules([dataclasses.asdict(entry) for entry in load_config(file).approval.tools])
    assert decide(rules, "send", {}, (), "mcp-mail") is not None
    assert decide(rules, "send", {}, (), "file") is None
    file.write_text("approval: {tools: [{decision: deny, why: not here}]}")
    with pytest.raises(BrokenConfig, match="tool missing"):
        load_config(file)


def test_faults_are_told_with_their_lines(file: Path) -> None:
    file.write_text(
        textwrap.dedent("""\
        approval:
          rules:
            - {key: a, level: deny, command: x, why: y, example: [x]}
            - {key: a, level: ask, command: x}
          tools:
            - {tool: x, decision: refuse, why: y}
            - {tool: x, decision: ask, why: y, arguments: {}}
        """)
    )
    with pytest.raises(BrokenConfig) as caught:
        load_config(file)
    told = [(fault.line, fault.key) for fault in caught.value.faults]
    assert told == [
        (3, "approval.rules[0].level"),
        (4, "approval.rules[1]"),
        (6, "approval.tools[0].decision"),
        (7, "approval.tools[1].arguments"),
    ]


def test_one_text_is_an_example_and_a_missing_key_shows_a_rule(file: Path) -> None:
    file.write_text("approval:\n  rules: [{key: a.b, level: ask, command: x, why: y, example: x z, counter: q}]\n")
    (rule,) = load_config(file).approval.rules
    assert (rule.example, rule.counter) == (("x z",), ("q",))
    file.write_text("approval:\n  rules: [{level: allow, command: rm, example: rm x}]\n  tools: [{tool: x}]\n")
    with pytest.raises(BrokenConfig, match=r"key and why missing; the form is \{key: build\.clean") as caught:
        load_config(file)
    assert "decision and why missing; the form is {tool: mcp_mail_*" in str(caught.value)


def test_a_rule_that_contradicts_itself_is_told_with_its_place(file: Path) -> None:
    text = "# mine\napproval:\n  {}: [{{{}, why: y}}]\n"
    for key, entry in (
        ("rules", "key: a.b, level: ask, command: x, example: [z]"),
        ("tools", "tool: x, decision: ask, args: {p: 're:('}"),
    ):
        file.write_text(text.format(key, entry))
        with pytest.raises(ConfigError) as caught:
            assemble(config=load_config(file))
        assert str(caught.value).startswith(f"{file}:3: approval.{key}[0] (")


@pytest.fixture
def example(root: Path, tmp_path: Path) -> Iterator[Session]:
    """A session with the rules that config.example.yaml shows in its comments."""
    lines = (root / "config.example.yaml").read_text("utf-8").splitlines()
    shown = [[line[4:] for line in _block(lines, key)] for key in ("rules", "tools")]
    (tmp_path / "config.yaml").write_text("\n".join(["approval:", *(line for block in shown for line in block)]))
    with assemble(config_file=tmp_path / "config.yaml", project_dir=tmp_path, store=MemoryStore()) as crib:
        session = crib.open_session(suspends=True)
        yield session
        session.close_sync()


def _block(lines: Sequence[str], key: str) -> Iterator[str]:
    start = lines.index(f"  #   {key}:", lines.index("approval:"))
    return itertools.takewhile(lambda line: line.startswith("  #   "), lines[start:])


@pytest.mark.parametrize(
    ("command", "level"),
    [
        ("deployctl release prod-1", "ask"),
        ("deployctl rollback production", "ask"),
        ("deployctl release --env eu prod-1", "ask"),
        ("deployctl release --env prod-1 web", "ask"),
        ("deployctl release --env=prod web", "ask"),
        ("deployctl release -eprod web", "ask"),
        ("deployctl --region eu release prod-1", "ask"),
        ("deployctl -v --region=eu rollback web prod-2", "ask"),
        ("cd web && /opt/bin/deployctl release prod-1", "ask"),
        ('target=prod-1; deployctl release "$target"', "ask"),
        ('deployctl release "$(cat target)"', "ask"),
        ("bash -c 'deployctl release prod-1'", "ask"),
        ("deployctl release staging", "allow"),
        ("deployctl list prod-1", "allow"),
        ("deployctl list release prod-1", "allow"),
        ("deployctl release prod-1 --help", "allow"),
        ("rm -rf build dist", "allow"),
        ("rm -r build", "allow"),
        ("rm -rf build src", "ask"),
        ("rm -rf $(pick)", "ask"),
        ("rm -rf -v build", "ask"),
        ("rm -rf build > /etc/motd", "ask"),
    ],
)
def test_the_examples_rules_catch_what_they_are_about(example: Session, command: str, level: str) -> None:
    said = run_async(example.explain(command))
    assert said.level == level or (level, said.level) == ("ask", "ask-once"), said
    if "deployctl" in command and level == "ask":
        assert "deploy.production" in {one.key.partition("@")[0] for one in said.findings}


def test_the_examples_rules_for_tools_catch_what_they_are_about(example: Session, tmp_path: Path) -> None:
    folder = tmp_path / "app" / "migrations"
    folder.mkdir(parents=True)
    (folder / "1.py").write_text("a\n")
    (tmp_path / "link.py").symlink_to(folder / "1.py")
    added = "--- /dev/null\n+++ b/app/migrations/2.py\n@@ -0,0 +1 @@\n+b\n"
    for tool, args in (
        ("write_file", {"path": "app/migrations/1.py", "content": "b"}),
        ("write_file", {"path": str(folder / "sub" / "1.py"), "content": "b"}),
        ("write_file", {"path": "app/./x/../migrations/1.py", "content": "b"}),
        ("write_file", {"path": "link.py", "content": "b"}),
        ("patch", {"path": "app/migrations/1.py", "old": "a", "new": "b"}),
        ("patch", {"diff": added}),
    ):
        assert "migrations are written by hand" in str(example.call(tool, args).result.message), args
    assert example.call("terminal", {"command": "cd app/migrations"}).result.is_success
    assert "by hand" in str(example.call("write_file", {"path": "3.py", "content": "b"}).result.message)
    assert example.call("write_file", {"path": "../3.py", "content": "b"}).result.is_success
    assert [path.name for path in folder.iterdir()] == ["1.py"]


def test_a_project_can_set_no_rules(file: Path, tmp_path: Path) -> None:
    """003-23: files of a repository are untrusted."""
    own = tmp_path / "project" / ".toolcrib" / "config.yaml"
    own.parent.mkdir(parents=True)
    own.write_text(RULES)
    config = load_config(file, project_dir=own.parents[1])
    assert config.approval.rules == ()
    assert config.approval.tools == ()
    assert "ignored" in config.notices[0]
