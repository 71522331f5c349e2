"""The approval gate: ask the user about a call that needs an approval, or refuse it, before it runs."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.dataclass import replace
from toolcrib.contract.decision import Block, Decision, Suspend
from toolcrib.contract.effects import Effect, ReadsFile, UsesProcess
from toolcrib.contract.entry import ToolEntry
from toolcrib.contract.environment import KnowsHome
from toolcrib.contract.errors import EnvironmentFailed
from toolcrib.contract.hooks import hookimpl
from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.store import AuditEntry, AuditLog, Grant, GrantStore, OriginStore
from toolcrib.contract.types import Answer, Json, SuspendTicket, ToolCall
from tools.approval.binding import command_of, cwd_of, digest, logged, owner_of, paths_of
from tools.approval.contained import layers_of, notice_of, settled_layers
from tools.approval.deadlines import Deadlines
from tools.approval.modes import ADDING, DEFAULT, PLAN, Mode, acts, confirmed, refusal
from tools.approval.origins import Origins, SessionFiles
from tools.approval.policy import Policy, RuleSays, ToolRules, Weighed
from tools.contained.outside import judged_in
from tools.judge.findings import TOOL_RULE, Finding, Level, from_json, visible
from tools.judge.harmless import Harmless
from tools.judge.setting import Setting

if TYPE_CHECKING:  # the judge, and code only for approval requests, is imported when it is needed
    from tools.approval.offers import Asked
    from tools.approval.snapshot import GatheredFiles
    from tools.judge.calls import Judgement
    from tools.judge.layers import Layers

APPROVAL = "approval"
"""The name that this gate is registered under."""

ACTION = "approve_tool"

_PASSIVE = frozenset({"read", "other"})


class _Case(NamedTuple):
    """A call at the gate, with the policy that applies."""

    call: ToolCall
    entry: ToolEntry
    ctx: ToolCallContext
    policy: Policy


class ApprovalGate:
    """A plugin with the hooks ``tool_gate`` and ``on_answer``. It applies ``ctx.policy``, or its own if a call has none.

    The arguments make its own policy; see Policy. ``origins`` stores where files came from, ``deadlines`` when grants end.
    """

    def __init__(
        self,
        grants: GrantStore,
        *,
        setting: Setting | None = None,
        project_root: str | None = None,
        audit: AuditLog | None = None,
        tool_rules: ToolRules | None = None,
        redact: Callable[[str], str] = str,
        origins: OriginStore | None = None,
        deadlines: Deadlines | None = None,
        mode: Mode = DEFAULT,
    ) -> None:
        self._deadlines = deadlines or Deadlines()
        files = SessionFiles(origins)
        self.policy = Policy(grants, setting or Setting(), project_root, audit, tool_rules, redact, files, mode=mode)

    @property
    def grants(self) -> GrantStore:
        return self.policy.grants

    def judge_by(self, setting: Setting) -> None:
        """Judge calls without a policy by this setting from now on. Grants and recorded downloads are kept."""
        self.policy = replace(self.policy, setting=setting, harmless=Harmless())

    @hookimpl
    def tool_gate(self, call: ToolCall, entry: ToolEntry, ctx: ToolCallContext) -> Decision | Awaitable[Decision | None] | None:
        """Return None if the call may run, Suspend if a user must be asked, Block if a rule, the mode or a user refuses it.

        The result is awaitable only if something must be looked up (files that the command would run, grants) or recorded.
        """
        policy = self._policy(ctx)
        passive = entry.kind == "read" or (entry.kind in _PASSIVE and policy.mode not in ADDING)
        if not ctx.effects and passive and policy.tool_rules is None:
            return None
        case = _Case(call, entry, ctx, policy)
        if isinstance(ctx.environment, KnowsHome):
            return self._at_home(case, ctx.environment)
        origins = policy.files.known(ctx.run_identity.session_id)
        return self._looked_up(case) if origins is None else self._judged(case, origins)

    async def _at_home(self, case: _Case, environment: KnowsHome) -> Decision | None:
        """Judge by the home of the environment's account, not by the home of the local user."""
        try:
            home = await environment.home()
        except (OSError, EnvironmentFailed):
            home = ""  # unavailable: the call then fails in the environment, and the next call asks for the home again
        setting = replace(case.policy.setting, home=home)
        # A command that is harmless with another home may be harmful with this one.
        return await self._looked_up(case._replace(policy=replace(case.policy, setting=setting, harmless=Harmless())))

    async def _looked_up(self, case: _Case) -> Decision | None:
        decision = self._judged(case, await case.policy.files.of(case.ctx.run_identity.session_id))
        return await decision if isinstance(decision, Awaitable) else decision

    def _judged(self, case: _Case, origins: Origins) -> Decision | Awaitable[Decision | None] | None:
        from tools.approval.snapshot import GatheredFiles
        from tools.judge.calls import Judgement, judge

        entry, effects, policy = case.entry, case.ctx.effects, case.policy
        workspace = policy.project_root or cwd_of(effects)
        files = GatheredFiles.of(origins, workspace)
        if policy.mode not in ADDING and not files.has_taints and policy.harmless.knows(effects):
            return self._decide(case, Judgement(), files)
        judged = judge(entry, effects, setting=policy.setting, files=files)
        if not (files.is_open or judged.findings or judged.files or judged.copies or judged.made):
            policy.harmless.add(effects)
        origins.only_new(judged)
        followed = _followed(layers_of(policy, entry, judged_in(case.ctx)) if judged.findings else None)
        if files.is_open or any(finding.level in followed for finding in judged.findings):
            return self._read_on(case, files, origins)
        return self._decide(case, judged, files)

    async def _read_on(self, case: _Case, files: GatheredFiles, origins: Origins) -> Decision | None:
        from tools.approval.leads import Follower
        from tools.approval.snapshot import ROUNDS
        from tools.judge.calls import judge

        environment, setting = judged_in(case.ctx), case.policy.setting
        await files.ask_jobs(case.ctx)
        for _ in range(ROUNDS):
            await files.gather(environment)
            judged = judge(case.entry, case.ctx.effects, setting=setting, files=files)
            if not files.is_open:
                break
        else:
            files.give_up()
            judged = judge(case.entry, case.ctx.effects, setting=setting, files=files)
        followed = _followed(await settled_layers(case.policy, case.entry, environment) if judged.findings else None)
        follower = Follower(environment, case.policy.project_root or cwd_of(case.ctx.effects), followed)
        judged.findings = [await follower.follow(finding) for finding in judged.findings]
        origins.only_new(judged)
        decision = self._decide(case, judged, files)
        return await decision if isinstance(decision, Awaitable) else decision

    @hookimpl
    def on_answer(self, call: ToolCall, ticket: SuspendTicket, answer: Answer, ctx: ToolCallContext) -> Awaitable[None] | None:
        """Store the grants that the answer gives beyond this call, and record who decided.

        A grant covers what the user was shown. The call's effects may differ now, and are judged again.
        """
        # Not async, though it is nearly always awaited: a dispatcher with an async hook cannot run calls without a loop.
        return self._heard(call, ticket, answer, ctx) if ticket.action == ACTION and not ticket.relays else None

    async def _heard(self, call: ToolCall, ticket: SuspendTicket, answer: Answer, ctx: ToolCallContext) -> None:
        policy = self._policy(ctx)
        findings = [from_json(finding) for finding in ticket.parameters["findings"]]
        if not _approves(answer):
            await self._note(policy, call, ctx, "denied", answer.by, findings, reason=_reason(answer))
            return
        from tools.approval.offers import grants_of

        scope = _granted_scope(ticket, answer)
        cwd = str(ticket.parameters.get("cwd", ""))
        asked = _asked(policy, ctx, findings, cwd, ticket.parameters.get("command"))
        at = answer.at or time.time()
        for grant in grants_of(asked, scope, answer.payload, by=answer.by, at=at, ticket_id=ticket.id):
            await policy.grants.add(grant)
            self._deadlines.watch(grant)
        await self._note(policy, call, ctx, f"approved:{scope}", answer.by, findings, reason=answer.reason or "")

    def _policy(self, ctx: ToolCallContext) -> Policy:
        """Return the policy of the call. Raises TypeError for an invalid one, which makes the gate deny the call."""
        given = ctx.policy
        if given is None:
            return self.policy
        if not isinstance(given, Policy):
            raise TypeError(f"ctx.policy is {type(given).__name__}, not a tools.approval.policy.Policy")
        return given

    # decisions

    def _decide(self, case: _Case, judged: Judgement, files: GatheredFiles) -> Awaitable[Decision | None] | None:
        """Return None if nothing objects and nothing must be remembered or recorded, else an awaitable decision."""
        policy = case.policy
        findings = [finding for finding in judged.findings if finding.level != "allow"]
        says, call = policy.tool_rules, case.call
        rule = None if says is None else says(call.name, call.args, paths_of(case.ctx.effects), case.entry.toolset)
        noted = policy.audit is not None and _is_noted(case.ctx.effects)
        leaves = judged.files or judged.copies or judged.made is not None
        why = acts(policy.mode, case.entry, case.ctx.effects, findings, policy.setting, files)
        if rule is None and not findings and not leaves and not noted and policy.on_weighed is None and not why:
            return None
        return self._weigh(case, judged, files, findings, rule, why)

    async def _weigh(
        self, case: _Case, judged: Judgement, files: GatheredFiles, findings: list[Finding], rule: RuleSays | None, why: str
    ) -> Decision | None:
        call, ctx, policy = case.call, case.ctx, case.policy
        grants: dict[Finding, Grant] = {}
        layers = layers_of(policy, case.entry, judged_in(ctx))
        if policy.on_weighed is not None:
            policy.on_weighed(Weighed(judged, cwd_of(ctx.effects), rule, grants, policy.mode, why, layers))
        if rule is not None:
            findings = _with_rule(findings, rule)
            if rule.decision == "deny":
                await self._note(policy, call, ctx, "blocked", f"rule:{rule.tool}", findings)
                return Block(f"Denied by the operator's rule for {rule.tool!r}: {rule.why or 'no reason given'}.")
        if refused := [finding for finding in findings if finding.level == "block"]:
            await self._note(policy, call, ctx, "blocked", "rule", refused)
            return Block(_refusal(refused))
        if why and policy.mode == PLAN:
            await self._note(policy, call, ctx, "blocked", f"mode:{PLAN}", findings)
            return Block(refusal(why))
        if why:
            findings = [*findings, confirmed(why, call.name, case.entry, ctx.effects)]
        asked_about = _unheld(findings, layers)
        open_findings = await _ungranted(policy, asked_about, ctx, self._deadlines, grants)
        if open_findings:
            from tools.approval.differences import differences

            changed = await differences(case.entry, ctx.effects, ctx.environment, policy.redact)
            digests = files.digests() if changed is None else {**files.digests(), **changed.digests}
            binds = digest(call, ctx, open_findings, digests, case.entry)
            answer = ctx.answer_to(binds)
            if answer is None:
                from tools.approval.ticket import delegate_of, ticket_of

                asked = _asked(policy, ctx, open_findings, cwd_of(ctx.effects), command_of(ctx.effects))
                unheld = _reasons(open_findings, layers)
                asks = await delegate_of(policy, asked)
                return Suspend(ticket_of(ACTION, asked, asks, call, ctx, binds, changed, unheld))
            if not _approves(answer):
                return Block(
                    f"Denied by the user: {_reason(answer)} Do not try it another way;"
                    " ask what to do instead, or continue without it."
                )
        left, owner = (judged.files, judged.copies, judged.made), owner_of(ctx.effects)
        await policy.files.remember(ctx.run_identity.session_id, *left, owner=owner)
        if not open_findings and (findings or _is_noted(ctx.effects)):
            said = ("granted", "grant") if asked_about else ("allowed", "layers" if findings else _allowed_by(judged, rule))
            ctx.notice = notice_of([one for one in findings if one not in asked_about])
            await self._note(policy, call, ctx, *said, findings)
        return None

    # the audit log

    async def _note(
        self,
        policy: Policy,
        call: ToolCall,
        ctx: ToolCallContext,
        decision: str,
        by: str,
        findings: Sequence[Finding],
        reason: str = "",
    ) -> None:
        """Record a decision with the call's findings, and its command and folder or its paths: enough to judge it again."""
        if policy.audit is None:
            return
        detail: dict[str, Json] = {"keys": [finding.key for finding in findings]}
        if findings:
            detail["findings"] = [{**finding.to_json(), "text": policy.redact(finding.text)} for finding in findings]
            for finding in detail["findings"]:
                finding.pop("argv", None)
        if reason:
            detail["reason"] = policy.redact(reason)
        detail |= logged(ctx.effects, policy.redact)
        await policy.audit.record(AuditEntry(time.time(), ctx.run_identity.session_id, call.id, call.name, decision, by, detail))


def _followed(layers: Layers | None) -> Sequence[Level]:
    """Return the levels of findings whose links are followed: levels that a grant or a layer may cover."""
    lasting: tuple[Level, ...] = ("ask",)
    return lasting if layers is None else (*lasting, "ask-once")


def _unheld(findings: list[Finding], layers: Layers | None) -> list[Finding]:
    """Return the findings that neither the sandbox nor a snapshot contains."""
    if layers is None or not findings:
        return findings
    from tools.judge.layers import remaining

    return remaining(findings, layers)


def _reasons(findings: Sequence[Finding], layers: Layers | None) -> Sequence[str]:
    """Return the reasons why the layers do not contain these findings; empty without layers."""
    if layers is None:
        return ()
    from tools.judge.layers import handling

    return list(dict.fromkeys(handling(finding, layers).why.removeprefix("asked: ") for finding in findings))


def _allowed_by(judged: Judgement, rule: RuleSays | None) -> str:
    key = next((one.key for one in judged.findings if one.level == "allow"), rule.tool if rule is not None else "")
    return f"rule:{key}" if key else "rule"


async def _ungranted(
    policy: Policy, findings: Sequence[Finding], ctx: ToolCallContext, deadlines: Deadlines, found: dict[Finding, Grant]
) -> list[Finding]:
    """Return the findings that no grant of this principal covers. Add the grants that cover the other findings to ``found``.

    Counted grants are spent only if all findings are covered.
    """
    if not findings:
        return []
    from tools.approval.grants import covers
    from tools.approval.offers import split

    identity, cwd = ctx.run_identity, cwd_of(ctx.effects)
    principal = identity.principal.key
    kept = [grant for grant in await policy.grants.all(identity.session_id, principal) if grant.principal == principal]
    for grant in [one for one in kept if deadlines.is_over(one)]:
        kept.remove(grant)
        await policy.grants.revoke(grant.id)  # permanently: a clock that is set back cannot revive it
        deadlines.forget(grant)
    uncovered: list[Finding] = []
    counted: set[str] = set()
    for finding in findings:
        for part in split(finding):
            fitting = [
                grant for grant in kept if covers(grant, part, session_id=identity.session_id, cwd=cwd, task_id=identity.task_id)
            ]
            if not fitting:
                uncovered.append(finding)
                found.pop(finding, None)
                break
            if all(grant.scope == "uses" for grant in fitting):
                counted.add(fitting[0].id)
            found[finding] = fitting[0]
    if uncovered:
        return uncovered
    for grant_id in sorted(counted):
        if not await policy.grants.spend(grant_id):
            return list(findings)
    return []


def _is_noted(effects: Sequence[Effect]) -> bool:
    return not all(isinstance(one, ReadsFile) or (isinstance(one, UsesProcess) and not one.changes) for one in effects)


def _asked(policy: Policy, ctx: ToolCallContext, findings: Sequence[Finding], cwd: str, command: str | None) -> Asked:
    from tools.approval.offers import Asked

    identity, root = ctx.run_identity, policy.project_root or cwd
    return Asked(identity.session_id, identity.task_id, cwd, root, command, findings, identity.principal.key)


def _with_rule(findings: list[Finding], rule: RuleSays) -> list[Finding]:
    """Return the findings with a rule applied: ``allow`` drops findings that a grant could cover, ``ask`` adds a finding."""
    if rule.decision == "allow":
        return [finding for finding in findings if finding.level != "ask"]
    if rule.decision == "ask":
        return [
            *findings,
            Finding(f"{TOOL_RULE}{rule.tool}", "ask", rule.why or "an operator's rule requires approval", rule.tool),
        ]
    return findings


def _approves(answer: Answer) -> bool:
    return answer.action == "resume" and isinstance(answer.payload, Mapping) and answer.payload.get("approved") is True


def _granted_scope(ticket: SuspendTicket, answer: Answer) -> str:
    """Return the answer's scope; ``once`` if the scope was not offered."""
    scope = answer.payload.get("scope", "once")
    return scope if isinstance(scope, str) and scope in ticket.parameters.get("scopes", ()) else "once"


def _reason(answer: Answer) -> str:
    given = answer.payload.get("reason") if isinstance(answer.payload, Mapping) else None
    text = str(given or answer.reason or "no reason given").strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _refusal(findings: Sequence[Finding]) -> str:
    parts = [f"{finding.why} (rule {finding.key}: {visible(finding.text, 120)})" for finding in findings]
    return (
        f"Denied, regardless of grants: {'; '.join(dict.fromkeys(parts))}."
        " No user can approve this here. Work on paths inside the project, or name the command for the user to run."
    )
