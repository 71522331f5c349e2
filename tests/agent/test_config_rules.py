"""An operator's own rules in config.yaml: read with file and line, and never from a project."""

from __future__ import annotations

import dataclasses
import textwrap
from pathlib import Path

import pytest

from agent.config import BrokenConfig, load_config
from agent.run import assemble
from toolcrib import ConfigError
from tools.approval.operator_rules import decide, tool_rules

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


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


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


def test_a_rule_that_contradicts_itself_is_told_with_its_place(file: Path) -> None:
    text = "# mine\napproval:\n  {}: [{{{}, why: y}}]\n"
    for key, entry in (
        ("rules", "key: a.b, level: ask, command: x, example: [z]"),
        ("tools", "tool: x, decision: ask, args: {p: 're:('}"),
    ):
        file.write_text(text.format(key, entry))
        with pytest.raises(ConfigError) as caught:
            assemble(config_file=file)
        assert str(caught.value).startswith(f"{file}:3: approval.{key}[0] (")


def test_a_project_can_set_no_rules(file: Path, tmp_path: Path) -> None:
    """003-23: what a repository brings is untrusted."""
    own = tmp_path / "project" / ".toolcrib" / "config.yaml"
    own.parent.mkdir(parents=True)
    own.write_text(RULES)
    config = load_config(file, project_dir=own.parents[1])
    assert config.approval.rules == ()
    assert config.approval.tools == ()
    assert "not used" in config.notices[0]
