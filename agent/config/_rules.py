"""The part of the schema about an operator's own rules, as they are written; tools/approval/operator_rules.py reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from agent.config._setting import setting
from toolcrib.contract.dataclass import dataclass

_COMMANDS = "a command, or a list of commands"


@dataclass(frozen=True, slots=True)
class OperatorRule:
    form: ClassVar[str] = (
        "{key: build.clean, level: allow, command: rm, options: -rf, operands: build|dist, why: made anew, example: rm -rf build}"
    )
    key: str = setting(..., "What a grant for it covers.", expect="a name such as deploy.production")
    level: Literal["allow", "ask", "ask-once", "block"] = setting(..., "What happens to a command that it matches.")
    command: str = setting(..., "Names of programs, separated by blanks.", expect="text")
    why: str = setting(..., "What the person who is asked reads.", expect="text")
    example: tuple[str, ...] = setting(..., "Commands that it must match.", expect=_COMMANDS, single=True)
    counter: tuple[str, ...] = setting((), "Commands that it must not match.", expect=_COMMANDS, single=True)
    sub: str = setting("", "Subcommands: 'remote add|remove'.", expect="text")
    options: str = setting("", "Options, separated by blanks.", expect="text")
    operands: str = setting("", "A regular expression for a whole operand.", expect="text")


@dataclass(frozen=True, slots=True)
class OperatorToolRule:
    form: ClassVar[str] = "{tool: mcp_mail_*, decision: ask, why: sends mail in my name}"
    tool: str = setting(..., "The tool's name, or a glob.", expect="text")
    decision: Literal["allow", "ask", "deny"] = setting(..., "What happens to a call that it matches.")
    why: str = setting(..., "What the person who is asked, or the model, reads.", expect="text")
    args: Mapping[str, str] = setting(
        dict,
        "Names of arguments, each with a glob, or re: and a regular expression.",
        expect="names of arguments, each with a glob, or with re: and a regular expression",
    )


RULES_DOC = """\
Commands that you want to be asked about, refuse or run unasked, besides what is known to be dangerous. They are tried on
their own examples at start. A rule that asks or refuses matches where one of its options is given, and one operand or value
of an option is like operands; one that asks also where that is not known before the command runs, as with $TARGET. A rule
that allows covers only a whole command: no option but those in options, no operand but those that match operands, no
redirect, no sudo; and what is refused, or asked every time, it does not allow.
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
      why: every build makes them again
      example: [rm -rf build dist]
      counter: [rm -rf build src, sudo rm -rf build]"""

TOOLS_DOC = """\
What is decided about calls of a tool, whatever its effects. tool is a name or a glob, args are globs (* stays within a
folder, ** does not) or re: and a regular expression; path is also every file that a call would touch. Of several that match
the strictest counts: deny, then ask, then allow. What commands do to files is no argument: that is for rules.
  tools:
    - tool: mcp_mail_*
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
