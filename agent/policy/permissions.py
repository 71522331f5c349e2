"""Facts about the approval of a user's calls: the mode, smart approval, operator's rules, and permanent grants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.config import Config, OperatorRule, OperatorToolRule
from agent.policy.allowlist import covered
from toolcrib.contract.context import Principal
from toolcrib.contract.dataclass import dataclass, replace
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.registry import ToolRegistry
from tools.dispatch.bridge import run_async

if TYPE_CHECKING:
    from agent.workspace import Workspace
    from toolcrib.contract.store import Grant

MODES = {
    "default": "calls that match a rule are asked about or denied, all others run",
    "cautious": "calls that match a rule are asked about or denied, in a sandbox too, all others run",
    "confirm-edits": "every edit and every command that may write is asked about",
    "plan": "edits and commands that may write are denied",
}
_DECIDES = {"allow": "runs unasked", "ask": "asks", "ask-once": "asks every time", "block": "is refused", "deny": "is refused"}


@dataclass(frozen=True, slots=True)
class RuleInForce:
    """An operator's rule that applies to a granted tool. ``decision`` is allow, ask, ask-once, block or deny.

    ``about`` describes its matches; ``tools`` are the granted tools that it applies to.
    """

    key: str
    decision: str
    about: str
    why: str
    tools: tuple[str, ...]

    def __str__(self) -> str:
        return f"{_DECIDES[self.decision]}: {self.about}  ({self.why})"


@dataclass(frozen=True, slots=True)
class Permissions:
    """Facts that the approval gate uses. ``smart`` is the model that may approve first, "" for none.

    ``grants`` describe the permanent grants that cover the calls.
    """

    mode: str
    smart: str
    rules: tuple[RuleInForce, ...]
    grants: tuple[str, ...] = ()
    problem: str = ""
    """Reason why the store's grants are unknown, if they can't be read."""

    def lines(self) -> list[str]:
        """Return a description, one line per fact."""
        smart = f"smart approval: {self.smart} may approve first" if self.smart else "smart approval: off"
        return [f"mode {self.mode}: {MODES[self.mode]}", smart, *map(str, self.rules), *self._granted()]

    def _granted(self) -> list[str]:
        found = [f"permanent grant: {one}" for one in self.grants]
        return [*found, f"other grants can't be read: {self.problem}"] if self.problem else found


def permissions_of(workspace: Workspace, platform: str, tools: Sequence[str], user: str = "") -> Permissions:
    """Return the permissions for calls of these granted tools."""
    principal = Principal(platform, user)
    grants, problem = _lasting(workspace, principal)
    here = permissions_by(workspace.config, platform, tools, workspace.registry)
    return replace(here, grants=tuple(map(covered, grants)), problem=problem)


def _lasting(workspace: Workspace, principal: Principal) -> tuple[Sequence[Grant], str]:
    """Return the permanent grants, and the reason if they can't be read.

    Those of the local user are in the configuration, all others in the store.
    """
    config = workspace.config
    try:
        if principal.is_local:
            return workspace.grants.permanent(), ""
        if not config.store.enabled or (config.store_url is None and not config.store_path.exists()):
            return (), ""
        kept = run_async(workspace.store.grants.all(None, principal.key))
    except ToolcribError as error:
        return (), str(error)
    return [grant for grant in kept if grant.scope == "always" and grant.principal == principal.key], ""


def permissions_by(config: Config, platform: str, tools: Sequence[str], registry: ToolRegistry) -> Permissions:
    """Return the permissions that a configuration alone determines."""
    from tools.approval.operator_rules import subject_of

    commands = runs_commands(registry, tools)
    approval, here = config.approval, config.platforms.get(platform)
    smart = approval.smart.model or config.model.name or "the only model of its server"
    by = smart if approval.smart.enabled and (here is None or here.smart_approval) else ""
    rules = [RuleInForce(one.key, one.level, command_words(one), one.why, tuple(commands)) for one in approval.rules]
    rules += [
        RuleInForce(
            subject_of(one.tool, one.toolset), one.decision, tool_words(one), one.why, tuple(matched_tools(one, registry, tools))
        )
        for one in approval.tools
    ]
    return Permissions(approval.mode, by, tuple(rule for rule in rules if rule.tools))


def runs_commands(registry: ToolRegistry, tools: Sequence[str]) -> list[str]:
    """Return the tools that run commands: rules for commands apply to them."""
    entries = map(registry.get, tools)
    return [entry.name for entry in entries if entry is not None and entry.kind == "execute"]


def matched_tools(rule: OperatorToolRule, registry: ToolRegistry, tools: Sequence[str]) -> list[str]:
    """Return those of the tools that a rule is about."""
    from tools.approval.operator_rules import applies_to

    toolsets = {name: entry.toolset if (entry := registry.get(name)) is not None else "" for name in tools}
    return [name for name, toolset in toolsets.items() if applies_to(rule.tool, rule.toolset, name, toolset)]


def command_words(rule: OperatorRule) -> str:
    """Return a description of the calls that a rule for commands matches."""
    parts = [rule.command, rule.sub, rule.options, f"with operands like {rule.operands}" if rule.operands else ""]
    if not rule.operands and rule.level == "allow":
        parts.append("without operands")
    return f"{' '.join(part for part in parts if part)} ({rule.key})"


def tool_words(rule: OperatorToolRule) -> str:
    """Return a description of the calls that a rule for a tool matches."""
    from tools.approval.operator_rules import subject_of

    args = ", ".join(f"{name}: {wanted}" for name, wanted in rule.args.items())
    return f"calls of {subject_of(rule.tool, rule.toolset)}{f' with {args}' if args else ''}"
