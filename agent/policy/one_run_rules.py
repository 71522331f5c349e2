"""Rules that allow something for one run: the user gives them on the command line, in the form of approval.rules and .tools.

They are checked like the configuration's rules and apply in addition, in this process only: nothing is stored. No such rule
allows calls that are always asked about or refused, and none loosens a session's mode.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.config import BrokenConfig, OperatorRule, OperatorToolRule, parse_config, parse_value
from agent.policy.permissions import command_words, matched_tools, tool_words
from agent.policy.self_protection import folders_of, refuse_below
from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import ConfigError
from toolcrib.contract.paths import real_path, with_home
from tools.approval.modes import CONFIRM_KEY
from tools.approval.operator_rules import as_text
from tools.judge.characters import spelled
from tools.judge.findings import TOOL_RULE

if TYPE_CHECKING:
    from agent.config import Config
    from toolcrib.contract.registry import ToolRegistry
    from toolcrib.contract.types import SuspendTicket

FORM = "{command: rm, options: -r -rf, operands: build|dist, example: rm -rf build dist}"
LIKE = f"a rule looks like '{FORM}'"
_MOST_BYTES = 64_000
_MOST_TYPED = 500
"""Maximum number of characters of a rule that a message shows."""
_ONLY_ALLOWS = (
    "a rule for one run can only allow: set level (for a tool: decision) to allow or omit it; put other rules into config.yaml"
)


def with_allowed(
    config: Config, texts: Sequence[str], files: Sequence[str], project_dir: Path
) -> tuple[Config, Sequence[OperatorRule | OperatorToolRule]]:
    """Return the configuration with these rules, and the rules. ``texts`` are rules, ``files`` have lists of rules.

    Raises ConfigError for an invalid rule, and for a file in the project, where a session could have written it; and Denied below
    a session.
    """
    refuse_below(folders_of(config), "--allow")
    rules: list[OperatorRule] = []
    tools: list[OperatorToolRule] = []
    for number, text in enumerate(texts, 1):
        _read(text, "--allow" if len(texts) == 1 else f"--allow (number {number})", rules, tools)
    for file in files:
        _read(_content(with_home(file), project_dir), f"--allow-file {file}", rules, tools)
    approval = replace(config.approval, rules=(*config.approval.rules, *rules), tools=(*config.approval.tools, *tools))
    return replace(config, approval=approval), [*rules, *tools]


def allowed_words(rules: Sequence[OperatorRule | OperatorToolRule], registry: ToolRegistry) -> list[str]:
    """Return a description of each rule, with its limits: a missing tool, or an example that it can't allow."""
    return [_of_tool(one, registry) if isinstance(one, OperatorToolRule) else _of_command(one) for one in rules]


def rule_for(ticket: SuspendTicket) -> str:
    """Return the rule that allows exactly this call, as JSON; "" if no rule can allow it, or the rule is too long or has
    characters that look like others.

    No rule allows calls that are always asked about, that an operator's rule asks about, or that the mode asks about.
    """
    findings = ticket.parameters.get("findings") or ()
    if ticket.call is None or ticket.relays or not findings or not isinstance(ticket.call.args, Mapping):
        return ""
    if any(one["level"] != "ask" or one["key"].startswith((TOOL_RULE, CONFIRM_KEY)) for one in findings):
        return ""
    args = {name: _exactly(as_text(value)) for name, value in ticket.call.args.items()}
    rule = json.dumps({"tool": ticket.call.name, **({"args": args} if args else {})}, ensure_ascii=False)
    return rule if len(rule) <= _MOST_TYPED and spelled(rule) == rule else ""


def _exactly(text: str) -> str:
    """Return a rule's pattern that matches only this text."""
    return f"re:{re.escape(text)}" if not text or text.startswith("re:") or {*"*?"} & {*text} else text


def _of_tool(rule: OperatorToolRule, registry: ToolRegistry) -> str:
    words = tool_words(rule)
    if matched_tools(rule, registry, registry.names()):
        return words
    near = registry.closest(rule.tool)
    return f"{words}; but no such tool exists here{f', did you mean {near!r}?' if near else ''}"


def _of_command(rule: OperatorRule) -> str:
    from tools.approval.operator_rules import never_allowed

    never = [f"`{one}`" for one in never_allowed(asdict(rule))]
    return f"{command_words(rule)}; but never {' nor '.join(never)}, which no rule can allow" if never else command_words(rule)


def _content(file: Path, project_dir: Path) -> str:
    try:
        real = real_path(file)
        if real.is_relative_to(project_dir):
            raise ConfigError(
                f"--allow-file: {file} is in the project, so a session may have written it; put it elsewhere, such as"
                " beside config.yaml"
            )
        data = real.read_bytes() if real.is_file() or not real.exists() else None  # reading a missing file reports the error
    except OSError as error:
        raise ConfigError(f"--allow-file: {file} can't be read: {error.strerror or error}") from None
    if data is None or len(data) > _MOST_BYTES:
        raise ConfigError(f"--allow-file: {file} is not a regular file of at most {_MOST_BYTES:,} bytes")
    return data.decode("utf-8", "replace")


def _read(text: str, source: str, rules: list[OperatorRule], tools: list[OperatorToolRule]) -> None:
    try:
        given = parse_value(text, dict)
    except ConfigError:
        given = None
    if isinstance(given, Mapping) and set(given) <= {"rules", "tools"} and given:
        entries = [*(given.get("rules") or ()), *(given.get("tools") or ())]
    else:
        entries = given if isinstance(given, list) else [given]
    if not entries or not all(isinstance(one, Mapping) for one in entries):
        raise ConfigError(f"{source}: expected a rule in the form of approval.rules or approval.tools, such as '{FORM}'")
    for number, entry in enumerate(entries, 1):
        where = source if len(entries) == 1 else f"{source}: entry {number}"
        _read_entry(_filled(entry, where), where, rules, tools)


def _read_entry(entry: Mapping[str, Any], where: str, rules: list[OperatorRule], tools: list[OperatorToolRule]) -> None:
    key = "tools" if _is_for_tools(entry) else "rules"
    place = f"approval.{key}[0]"
    try:
        found = parse_config(json.dumps({"approval": {key: [entry]}}, default=str).encode(), Path(where)).approval
    except BrokenConfig as error:
        words = "; ".join(": ".join(filter(None, (fault.key[len(place) :].lstrip("."), fault.text))) for fault in error.faults)
        raise ConfigError(f"{where}: {words}; {LIKE}") from None
    from tools.approval.operator_rules import operator_rules, tool_rules

    try:
        operator_rules([asdict(one) for one in found.rules])
        tool_rules([asdict(one) for one in found.tools])
    except ConfigError as error:
        words = re.sub(r"^( \([^)]*\))?: ", "", str(error).removeprefix(place))
        raise ConfigError(f"{where}: {words}; {LIKE}") from None
    rules += found.rules
    tools += found.tools


def _filled(entry: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return the entry with the defaults of a rule for one run. Raises ConfigError for an entry that does not allow."""
    kind = "decision" if _is_for_tools(entry) else "level"
    if entry.get(kind, "allow") != "allow":
        raise ConfigError(f"{source}: {kind}: {_ONLY_ALLOWS}")
    usual = {kind: "allow", "why": "allowed for this run"}
    if kind == "level":
        usual["key"] = "run.allow"
    return {**usual, **entry}


def _is_for_tools(entry: Mapping[str, Any]) -> bool:
    return "tool" in entry or "toolset" in entry
