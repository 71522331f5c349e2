"""The schema of an operator's own rules. tools/approval/operator_rules.py compiles them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from agent.config._setting import setting
from toolcrib.contract.dataclass import dataclass

_COMMANDS = "a command, or a list of commands"


@dataclass(frozen=True, slots=True)
class OperatorRule:
    form: ClassVar[str] = (
        "{key: build.clean, level: allow, command: rm, options: -rf, operands: build|dist, why: rebuilt, example: rm -rf build}"
    )
    key: str = setting(..., "Name of the rule, which grants refer to.", expect="a name such as deploy.production")
    level: Literal["allow", "ask", "ask-once", "block"] = setting(..., "What happens to commands that it matches.")
    command: str = setting(..., "Names of programs, separated by blanks.", expect="text")
    why: str = setting(..., "The reason, shown in the approval request.", expect="text")
    example: tuple[str, ...] = setting(..., "Commands that it must match.", expect=_COMMANDS, single=True)
    counter: tuple[str, ...] = setting((), "Commands that it must not match.", expect=_COMMANDS, single=True)
    sub: str = setting("", "Subcommands: 'remote add|remove'.", expect="text")
    options: str = setting("", "Options, separated by blanks.", expect="text")
    operands: str = setting("", "A regular expression for a whole operand.", expect="text")


@dataclass(frozen=True, slots=True)
class OperatorToolRule:
    form: ClassVar[str] = "{tool: mcp_mail_*, decision: ask, why: sends mail in my name}"
    implied: ClassVar[Mapping[str, tuple[str, str]]] = {"tool": ("toolset", "*")}
    """Keys that need not be set if another one is set, with that key and the value that they then have."""
    tool: str = setting(..., "The tool's name, or a glob. Need not be set if toolset is.", expect="text")
    decision: Literal["allow", "ask", "deny"] = setting(..., "What happens to calls that it matches.")
    why: str = setting(..., "The reason, shown in the approval request or to the model.", expect="text")
    args: Mapping[str, str] = setting(
        dict,
        "Names of arguments, each with a glob, or re: and a regular expression.",
        expect="names of arguments, each with a glob, or with re: and a regular expression",
    )
    toolset: str = setting("", "The tool's toolset, or a glob. If tool is set too, both must match.", expect="text")


RULES_DOC = """\
Your own rules for commands, besides the built-in ones: ask, block or allow. Each rule is tested with its own examples at
start. A rule that asks or blocks matches a command that has one of its options, and an operand or option value that matches
operands. A rule that asks also matches values that are unknown before the command runs, such as $TARGET. A rule that allows
matches only if it covers the whole command: no other options or operands, no redirect, no sudo. It does not allow commands
that are blocked or asked about every time.
  rules:
    - key: deploy.production
      level: ask   # or allow, ask-once (asked every time), block
      command: deployctl
      sub: release|rollback
      operands: prod.*
      why: changes what customers see
      example: [deployctl release prod-1, deployctl --region eu rollback --env=production web]
      counter: [deployctl release staging]
    - key: build.clean
      level: allow
      command: rm
      options: -r -rf
      operands: build|dist
      why: every build recreates them
      example: [rm -rf build dist]
      counter: [rm -rf build src, sudo rm -rf build]"""

TOOLS_DOC = """\
Rules for calls of a tool, whatever its effects. tool is a name or a glob. toolset, a name or a glob too, stands for all tools
of a toolset: mcp-mail for those of the MCP server mail. args are globs (* stays within a folder, ** does not) or re: and a
regular expression; path also matches every file that a call would touch. Of several rules that match, the strictest decides:
deny, then ask, then allow. For files that shell commands change, use approval.rules.
  tools:
    - toolset: mcp-mail
      decision: ask   # or allow, deny
      why: sends mail in my name
    - tool: write_file
      args: {path: "**/migrations/**"}
      decision: deny
      why: migrations are written by hand
    - tool: patch
      args: {path: "**/migrations/**"}
      decision: deny
      why: migrations are written by hand"""
