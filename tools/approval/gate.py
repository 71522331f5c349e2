"""The gate that asks a person (or refuses) before a call does what it should not do unasked."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeAlias

from toolcrib import (
    Answer,
    Block,
    Decision,
    DeletesFile,
    Effect,
    Environment,
    ReadsFile,
    RunsCommand,
    Suspend,
    SuspendTicket,
    ToolCall,
    ToolCallContext,
    ToolcribError,
    ToolEntry,
    WritesFile,
    hookimpl,
)
from toolcrib._store import AuditEntry, AuditLog, Grant, GrantStore
from toolcrib._types import Json
from tools.approval.findings import TOOL_RULE, UNKNOWN_PATH, Finding, digestible, from_json, visible
from tools.approval.grants import covers
from tools.approval.judge import Harmless, Judgement, judge
from tools.approval.offers import Asked, grants_of, offers, split
from tools.approval.setting import Setting
from tools.approval.snapshot import ROUNDS, GatheredFiles, SessionFiles

APPROVAL = "approval"
"""The name that this gate is registered under."""

ACTION = "approve_tool"
ANSWER_SCHEMA: Mapping[str, Json] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "scope": {"enum": ["once", "path", "task", "session", "uses", "until", "always"]},
        "uses": {"type": "integer", "minimum": 1},
        "minutes": {"type": "integer", "minimum": 1},
        "reason": {"type": "string"},
    },
    "required": ["approved"],
}


class RuleSays(NamedTuple):
    """What an operator's rule for a tool decides; ``tool`` is the name or pattern that the rule stands under."""

    decision: Literal["allow", "ask", "deny"]
    tool: str
    why: str = ""


ToolRules: TypeAlias = Callable[[str, Any], RuleSays | None]
"""(tool's name, arguments) -> what the operator decided about such calls, None where nothing."""

_PASSIVE = frozenset({"read", "other"})


class ApprovalGate:
    """A plugin with the hooks ``tool_gate`` and ``on_answer``.

    ``project_root`` (absolute) bounds what a session grant covers, the call's own folder where it is None. ``audit`` receives
    every decision about a call that acts, without the secrets that ``redact`` takes out.
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
    ) -> None:
        self.grants = grants
        self._setting = setting or Setting()
        self._root = project_root
        self._audit = audit
        self._tool_rules = tool_rules
        self._redact = redact
        self._files = SessionFiles()
        self._harmless = Harmless()

    @hookimpl
    def tool_gate(self, call: ToolCall, entry: ToolEntry, ctx: ToolCallContext) -> Decision | Awaitable[Decision | None] | None:
        """None: nothing to ask, granted before, or answered with yes. Block: refused by rule or by a person.

        Awaitable only where files must be looked at first: scripts that the command would run, links on the paths it names.
        """
        if not ctx.effects and entry.kind in _PASSIVE and self._tool_rules is None:
            return None
        files = GatheredFiles(self._files.of(ctx.run_identity.session_id))
        if self._harmless.knows(ctx.effects) and not files.has_taints:
            return self._decide(call, ctx, Judgement(), files)
        judged = judge(entry, ctx.effects, setting=self._setting, files=files)
        if not (files.is_open or judged.findings or judged.files):
            self._harmless.add(ctx.effects)
        if files.is_open or any(_may_be_granted(finding) for finding in judged.findings):
            return self._read_on(call, entry, ctx, files)
        return self._decide(call, ctx, judged, files)

    async def _read_on(self, call: ToolCall, entry: ToolEntry, ctx: ToolCallContext, files: GatheredFiles) -> Decision | None:
        for _ in range(ROUNDS):
            await files.gather(ctx.environment)
            judged = judge(entry, ctx.effects, setting=self._setting, files=files)
            if not files.is_open:
                break
        else:
            files.give_up()
            judged = judge(entry, ctx.effects, setting=self._setting, files=files)
        judged.findings = [await _with_links(finding, ctx.environment) for finding in judged.findings]
        return self._decide(call, ctx, judged, files)

    @hookimpl
    def on_answer(self, call: ToolCall, ticket: SuspendTicket, answer: Answer, ctx: ToolCallContext) -> None:
        """Keep what the answer grants beyond this one call, and record who decided."""
        if ticket.action != ACTION:
            return
        findings = [from_json(finding) for finding in ticket.parameters["findings"]]
        if not _approves(answer):
            self._note(call, ctx, "denied", answer.by, findings, reason=_reason(answer))
            return
        scope = _granted_scope(ticket, answer)
        asked = self._asked(findings, ctx)
        for grant in grants_of(asked, scope, answer.payload, by=answer.by, at=answer.at or time.time()):
            self.grants.add(grant)
        self._note(call, ctx, f"approved:{scope}", answer.by, findings, reason=answer.reason or "")

    # what is decided

    def _decide(self, call: ToolCall, ctx: ToolCallContext, judged: Judgement, files: GatheredFiles) -> Decision | None:
        findings = [finding for finding in judged.findings if finding.level != "allow"]
        rule = None if self._tool_rules is None else self._tool_rules(call.name, call.args)
        if rule is not None:
            findings = _with_rule(findings, rule)
            if rule.decision == "deny":
                self._note(call, ctx, "blocked", f"rule:{rule.tool}", findings)
                return Block(f"Refused by the operator's rule for {rule.tool!r}: {rule.why or 'no reason is given'}.")
        if refused := [finding for finding in findings if finding.level == "block"]:
            self._note(call, ctx, "blocked", "rule", refused)
            return Block(_refusal(refused))
        open_findings = self._ungranted(findings, ctx)
        if not open_findings:
            self._pass(call, ctx, judged, "granted" if findings else "allowed", findings)
            return None
        binds = _digest(call, ctx, open_findings, files)
        answer = ctx.answer_to(binds)
        if answer is None:
            return Suspend(self._ticket(call, ctx, open_findings, binds))
        if not _approves(answer):
            return Block(
                f"Denied by the person: {_reason(answer)} Do not try it another way; ask what to do instead, or go on without it."
            )
        self._files.remember(ctx.run_identity.session_id, judged.files)
        return None

    def _pass(self, call: ToolCall, ctx: ToolCallContext, judged: Judgement, how: str, findings: Sequence[Finding]) -> None:
        self._files.remember(ctx.run_identity.session_id, judged.files)
        if findings or any(not isinstance(effect, ReadsFile) for effect in ctx.effects):
            self._note(call, ctx, how, "grant" if findings else "rule", findings)

    def _ungranted(self, findings: Sequence[Finding], ctx: ToolCallContext) -> list[Finding]:
        """What no grant covers. Counted grants are spent where they complete the cover, and only then."""
        if not findings:
            return []
        identity, cwd = ctx.run_identity, _cwd(ctx.effects)
        kept: Sequence[Grant] = self.grants.all(identity.session_id)
        uncovered: list[Finding] = []
        counted: set[str] = set()
        for finding in findings:
            for part in split(finding):
                fitting = [
                    grant
                    for grant in kept
                    if covers(grant, part, session_id=identity.session_id, cwd=cwd, task_id=identity.task_id)
                ]
                if not fitting:
                    uncovered.append(finding)
                    break
                if all(grant.scope == "uses" for grant in fitting):
                    counted.add(fitting[0].id)
        if uncovered or all(self.grants.spend(grant) for grant in sorted(counted)):
            return uncovered
        return list(findings)

    # what is asked

    def _asked(self, findings: Sequence[Finding], ctx: ToolCallContext) -> Asked:
        cwd = _cwd(ctx.effects)
        identity = ctx.run_identity
        return Asked(identity.session_id, identity.task_id, cwd, self._root or cwd, _command(ctx.effects), findings)

    def _ticket(self, call: ToolCall, ctx: ToolCallContext, findings: Sequence[Finding], binds: str) -> SuspendTicket:
        covered = offers(self._asked(findings, ctx))
        parameters: dict[str, Json] = {
            "tool": call.name,
            "findings": [digestible(finding) for finding in findings],
            "scopes": list(covered),
            "covers": covered,
            "where": ctx.environment.identity,
        }
        command = _command(ctx.effects)
        if command is not None:
            parameters |= {"command": command, "cwd": _cwd(ctx.effects)}
        else:
            paths = [effect.path for effect in ctx.effects if isinstance(effect, WritesFile | DeletesFile | ReadsFile)]
            parameters |= {"path": paths[0]} if len(paths) == 1 else {"paths": paths} if paths else {}
        whys = "; ".join(dict.fromkeys(finding.why for finding in findings))
        shown = command if command is not None else parameters.get("path", call.name)
        message = f"{call.name}: {visible(str(shown))}\n{visible(whys)}"
        return SuspendTicket(ACTION, message, call, parameters, ANSWER_SCHEMA, binds=binds)

    # what is recorded

    def _note(
        self, call: ToolCall, ctx: ToolCallContext, decision: str, by: str, findings: Sequence[Finding], reason: str = ""
    ) -> None:
        """``keys`` and ``findings`` of the call, and ``command`` and ``cwd`` or ``paths``: enough to judge it again."""
        if self._audit is None:
            return
        detail: dict[str, Json] = {"keys": [finding.key for finding in findings]}
        if findings:
            detail["findings"] = [{**finding.to_json(), "text": self._redact(finding.text)} for finding in findings]
            for finding in detail["findings"]:
                finding.pop("argv", None)
        if reason:
            detail["reason"] = self._redact(reason)
        command = _command(ctx.effects)
        if command is not None:
            detail |= {"command": self._redact(command), "cwd": _cwd(ctx.effects)}
        elif paths := [effect.path for effect in ctx.effects if isinstance(effect, WritesFile | DeletesFile | ReadsFile)]:
            detail["paths"] = paths
        self._audit.record(AuditEntry(time.time(), ctx.run_identity.session_id, call.id, call.name, decision, by, detail))


def _may_be_granted(finding: Finding) -> bool:
    return finding.level == "ask" and any(path != UNKNOWN_PATH for path in finding.paths)


async def _with_links(finding: Finding, environment: Environment) -> Finding:
    """With what its paths lead to by links: a grant must cover both, or a link would lead out of what it was given for."""
    if not _may_be_granted(finding):
        return finding
    paths = dict.fromkeys(finding.paths)
    for path in finding.paths:
        if path == UNKNOWN_PATH:
            continue
        try:
            paths[await environment.resolve(path)] = None
        except (OSError, ValueError, ToolcribError):
            paths[UNKNOWN_PATH] = None
    return finding if len(paths) == len(finding.paths) else replace(finding, paths=tuple(paths))


def _with_rule(findings: list[Finding], rule: RuleSays) -> list[Finding]:
    """``allow`` answers what a person might have answered with a lasting yes, and no more; ``ask`` adds a question."""
    if rule.decision == "allow":
        return [finding for finding in findings if finding.level != "ask"]
    if rule.decision == "ask":
        return [*findings, Finding(f"{TOOL_RULE}{rule.tool}", "ask", rule.why or "an operator's rule asks about it", rule.tool)]
    return findings


def _digest(call: ToolCall, ctx: ToolCallContext, findings: Sequence[Finding], files: GatheredFiles) -> str:
    """What one answer covers: this tool with these arguments, here, in this session, for these findings and files."""
    bound = {
        "tool": call.name,
        "args": call.args,
        "effects": [repr(effect) for effect in ctx.effects],
        "cwd": _cwd(ctx.effects),
        "environment": [ctx.environment.identity, getattr(ctx.environment, "generation", 0)],
        "files": files.digests(),
        "session": ctx.run_identity.session_id,
        "findings": [digestible(finding) for finding in findings],
    }
    text = json.dumps(bound, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _command(effects: Sequence[Effect]) -> str | None:
    """The command of a call that runs exactly one and does nothing else."""
    return effects[0].command if len(effects) == 1 and isinstance(effects[0], RunsCommand) else None


def _cwd(effects: Sequence[Effect]) -> str:
    return next((effect.cwd for effect in effects if isinstance(effect, RunsCommand)), "")


def _approves(answer: Answer) -> bool:
    return answer.action == "resume" and isinstance(answer.payload, Mapping) and answer.payload.get("approved") is True


def _granted_scope(ticket: SuspendTicket, answer: Answer) -> str:
    """A scope that was not offered counts as once."""
    scope = answer.payload.get("scope", "once")
    return scope if isinstance(scope, str) and scope in ticket.parameters.get("scopes", ()) else "once"


def _reason(answer: Answer) -> str:
    given = answer.payload.get("reason") if isinstance(answer.payload, Mapping) else None
    text = str(given or answer.reason or "no reason was given").strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _refusal(findings: Sequence[Finding]) -> str:
    parts = [f"{finding.why} (rule {finding.key}: {visible(finding.text, 120)})" for finding in findings]
    return (
        f"Refused, whatever was granted: {'; '.join(dict.fromkeys(parts))}."
        " Nobody can approve this here. Work on paths inside the project, or tell the person what to run themselves."
    )
