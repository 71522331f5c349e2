"""Verdicts of the approval gate on a command, from the gate itself: nothing is run or recorded, and no grant is used up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from toolcrib.contract.dataclass import dataclass, replace
from toolcrib.contract.decision import Block, Decision, SetResult, Suspend
from toolcrib.contract.store import Grant
from toolcrib.contract.types import ToolCall
from tools.approval.modes import CONFIRM, CONFIRM_KEY, PLAN, confirmed
from tools.approval.policy import Policy, Weighed
from tools.dispatch.scope import CallScope
from tools.judge.findings import TOOL_RULE, Finding, Level
from tools.judge.layers import Handling, handling

if TYPE_CHECKING:
    from agent.config import Config
    from tools.dispatch.pipeline import Dispatcher

LEVELS: Sequence[Level] = ("allow", "ask", "ask-once", "block")
"""Levels from "runs without approval" to "refused"."""
_TOOL = "terminal"


@dataclass(frozen=True, slots=True)
class Explanation:
    """A verdict. ``level`` is the gate's decision with grants and rules: allow, ask, ask-once or block.

    ``refused`` is the reason if the gate refuses the command. ``weighed`` is None if it was refused before the policy weighed it.
    """

    command: str
    level: Level
    refused: str = ""
    weighed: Weighed | None = None

    @property
    def findings(self) -> Sequence[Finding]:
        """All findings, including findings that a rule or grant allows."""
        weighed = self.weighed
        if weighed is None:
            return ()
        found = list(weighed.judged.findings)
        if weighed.rule is not None and weighed.rule.decision == "ask":
            why = weighed.rule.why or "an operator's rule requires approval"
            found.append(Finding(f"{TOOL_RULE}{weighed.rule.tool}", "ask", why, weighed.rule.tool))
        if weighed.acts and weighed.mode == CONFIRM:
            found.append(confirmed(weighed.acts, _TOOL))
        return found

    @property
    def mode(self) -> str:
        """The mode of the session, "" if the policy did not weigh the command."""
        return "" if self.weighed is None else self.weighed.mode

    @property
    def commands(self) -> Sequence[tuple[str, ...]]:
        """Every simple command that ``command`` runs, resolved."""
        return () if self.weighed is None else self.weighed.judged.commands

    @property
    def looked_at(self) -> Sequence[str]:
        """The scripts that were read to judge the command."""
        return () if self.weighed is None else self.weighed.judged.looked_at

    def handling(self, finding: Finding, home: str = "") -> Handling | None:
        """Return how the sandbox and the snapshots handle a finding, or None if the command would run without them."""
        if self.weighed is None or self.weighed.layers is None or finding.level == "allow":
            return None
        return handling(finding, self.weighed.layers, home)

    def decider(self, finding: Finding, person: str) -> str:
        """Return, in words, who or what decides on a finding: a rule, a grant or plan mode, "no user is asked" if the sandbox or
        an undo handles the finding, or else ``person``.
        """
        if finding.level in ("allow", "block"):
            return f"the rule {finding.key}"
        held = self.handling(finding)
        if held is not None and held.by in ("sandbox", "undo"):
            return "no user is asked"
        if self.weighed is not None and self.weighed.acts and self.mode == PLAN:
            return "plan mode, which denies the call"
        if finding.key == CONFIRM_KEY:
            return f"{person}: the session is in mode {self.mode}"
        rule = None if self.weighed is None else self.weighed.rule
        if rule is not None and (rule.decision == "deny" or (rule.decision == "allow" and finding.level == "ask")):
            return f"the operator's rule for {rule.tool!r}{f' ({rule.why})' if rule.why else ''}"
        grant = None if self.weighed is None else self.weighed.grants.get(finding)
        return person if grant is None else f"the grant {_worded(grant)}"


def _worded(grant: Grant) -> str:
    if grant.argv:
        return f"{grant.id[:8]} (`{' '.join(grant.argv)}` in {grant.root})"
    return f"{grant.id[:8]} ({grant.key} below {grant.root}, {grant.scope})"


async def explain(dispatcher: Dispatcher, scope: CallScope, command: str, cwd: str = "") -> Explanation:
    """Return the gates' verdict on a command in a scope, as for a call of ``terminal``. ``cwd`` is a folder for this call only.

    Raises EnvironmentFailed if the scope's environment is unavailable, and TypeError if the scope has no policy.
    """
    heard: list[Weighed] = []
    args = {"command": command, **({"cwd": cwd} if cwd else {})}
    decision = await foreseen(dispatcher, scope, ToolCall(ToolCall.new_id(), _TOOL, args), heard.append)
    refused = decision.reason if isinstance(decision, Block) else ""
    return Explanation(command, _level(decision), refused, heard[-1] if heard else None)


async def foreseen(
    dispatcher: Dispatcher, scope: CallScope, call: ToolCall, weighed: Callable[[Weighed], None] = lambda weighed: None
) -> Decision | None:
    """Return the gates' decision on a call of this scope, None if it would run. Raises what ``explain`` raises."""
    if not isinstance(scope.policy, Policy):
        raise TypeError("a scope without a Policy can't be used here, because its decisions would be recorded")
    asking = replace(
        scope,
        open_environment=lambda: scope.environment,
        policy=scope.policy.only_asking(weighed),
        asker=None,
        suspends=False,
        ledger=None,
        tickets=None,
        undo=None,
        activity_sink=None,
    )
    return await dispatcher.foresee(call, asking)


def _level(decision: Decision | None) -> Level:
    match decision:
        case Block():
            return "block"
        case Suspend(ticket):
            return highest(["ask", *(one.get("level") for one in ticket.parameters.get("findings") or ())])
        case SetResult() | None:
            return "allow"


def highest(levels: Sequence[Any]) -> Level:
    """Return the strictest of these levels, allow if there are none."""
    return max((level for level in LEVELS if level in levels), key=LEVELS.index, default="allow")


def asked_about(config: Config, platform: str, findings: Sequence[Finding]) -> str:
    """Return who is asked about these findings: first the model of approval.smart if it may answer, then the user."""
    smart, here = config.approval.smart, config.platforms.get(platform)
    may_answer = all(one.level == "ask" and not one.key.startswith(TOOL_RULE) for one in findings)
    if smart.enabled and may_answer and (here is None or here.smart_approval):
        return f"the model of approval.smart ({smart.model or config.model.name or 'the configured one'}), else a user"
    return "a user, in a session; if no user can be asked, the call is denied"
