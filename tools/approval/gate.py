"""The gate that asks a person (or refuses) before a call does what it should not do unasked."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence

from toolcrib import (
    Answer,
    Block,
    DeletesFile,
    Effect,
    ReadsFile,
    RunsCommand,
    Suspend,
    SuspendTicket,
    ToolCall,
    ToolCallContext,
    ToolEntry,
    WritesFile,
    hookimpl,
)
from toolcrib._store import AuditEntry, AuditLog, Grant, GrantStore
from toolcrib._types import Json
from tools.approval.findings import MAX_COMMAND_CHARS, Finding, digestible, visible
from tools.approval.grants import covers, new_grant, simple_argv
from tools.approval.judge import judge

APPROVAL = "approval"
"""The name that this gate is registered under."""

ACTION = "approve_tool"
ANSWER_SCHEMA: Mapping[str, Json] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "scope": {"enum": ["once", "session", "always"]},
        "reason": {"type": "string"},
    },
    "required": ["approved"],
}

_PASSIVE = frozenset({"read", "other"})


class ApprovalGate:
    """A plugin with the hooks ``tool_gate`` and ``on_answer``, both synchronous.

    ``protected`` are absolute folders or files of toolcrib's own; ``project_root`` (absolute) bounds what a session grant
    covers, the call's own folder where it is None. ``audit`` receives every decision but a silent yes.
    """

    def __init__(
        self,
        grants: GrantStore,
        *,
        protected: Sequence[str] = (),
        project_root: str | None = None,
        audit: AuditLog | None = None,
        max_command_chars: int = MAX_COMMAND_CHARS,
    ) -> None:
        self.grants = grants
        self._protected = tuple(protected)
        self._root = project_root
        self._audit = audit
        self._max_chars = max_command_chars

    @hookimpl
    def tool_gate(self, call: ToolCall, entry: ToolEntry, ctx: ToolCallContext) -> Block | Suspend | None:
        """None: nothing to ask, granted before, or answered with yes. Block: refused by rule or by a person."""
        if not ctx.effects and entry.kind in _PASSIVE:
            return None
        findings = judge(entry, ctx.effects, protected=self._protected, max_command_chars=self._max_chars)
        if not findings:
            return None
        refused = [finding for finding in findings if finding.level == "block"]
        if refused:
            self._record(call, ctx, "blocked", "rule", refused)
            return Block(_refusal(refused))
        open_findings = self._ungranted(findings, ctx)
        if not open_findings:
            self._record(call, ctx, "granted", "grant", findings)
            return None
        binds = _digest(call, ctx, open_findings)
        answer = ctx.answer_to(binds)
        if answer is None:
            return Suspend(self._ticket(call, ctx, open_findings, binds))
        if not _approves(answer):
            return Block(
                f"Denied by the person: {_reason(answer)} Do not try it another way; ask what to do instead, or go on without it."
            )
        return None

    @hookimpl
    def on_answer(self, call: ToolCall, ticket: SuspendTicket, answer: Answer, ctx: ToolCallContext) -> None:
        """Keep what the answer grants beyond this one call, and record who decided."""
        if ticket.action != ACTION:
            return
        keys = [finding["key"] for finding in ticket.parameters.get("findings", ())]
        if not _approves(answer):
            self._note(call, ctx, "denied", answer.by, {"keys": keys, "reason": _reason(answer)})
            return
        scope = _granted_scope(ticket, answer)
        command, cwd = ticket.parameters.get("command"), ticket.parameters.get("cwd", "")
        argv = simple_argv(command) if isinstance(command, str) else None
        if scope == "always" and argv is not None and cwd:
            self.grants.add(new_grant("always", "", cwd, argv=argv, by=answer.by, at=_at(answer)))
        elif scope == "session":
            session = ctx.run_identity.session_id
            for key in dict.fromkeys(keys):
                self.grants.add(new_grant("session", key, self._root or cwd, session_id=session, by=answer.by, at=_at(answer)))
        else:
            scope = "once"
        self._note(call, ctx, f"approved:{scope}", answer.by, {"keys": keys})

    # what is asked

    def _ungranted(self, findings: Sequence[Finding], ctx: ToolCallContext) -> list[Finding]:
        session, cwd = ctx.run_identity.session_id, _cwd(ctx.effects)
        command = _command(ctx.effects)
        argv = simple_argv(command) if command is not None else None
        kept: Sequence[Grant] = self.grants.all(session)
        return [
            finding
            for finding in findings
            if finding.level != "allow"
            and not any(covers(grant, finding, session_id=session, cwd=cwd, argv=argv) for grant in kept)
        ]

    def _scopes(self, findings: Sequence[Finding], ctx: ToolCallContext) -> list[str]:
        """What an answer may choose from. A scope that would not cover the same call again is not offered."""
        scopes = ["once"]
        if any(finding.level == "ask-once" for finding in findings):
            return scopes
        session, cwd, command = ctx.run_identity.session_id, _cwd(ctx.effects), _command(ctx.effects)
        root = self._root or cwd
        trial = [new_grant("session", finding.key, root, session_id=session) for finding in findings]
        if root and all(
            covers(grant, finding, session_id=session, cwd=cwd) for grant, finding in zip(trial, findings, strict=True)
        ):
            scopes.append("session")
        if command is not None and cwd and simple_argv(command) is not None:
            scopes.append("always")
        return scopes

    def _ticket(self, call: ToolCall, ctx: ToolCallContext, findings: Sequence[Finding], binds: str) -> SuspendTicket:
        parameters: dict[str, Json] = {
            "tool": call.name,
            "findings": [finding.to_json() for finding in findings],
            "scopes": self._scopes(findings, ctx),
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

    def _record(self, call: ToolCall, ctx: ToolCallContext, decision: str, by: str, findings: Sequence[Finding]) -> None:
        self._note(call, ctx, decision, by, {"keys": [finding.key for finding in findings]})

    def _note(self, call: ToolCall, ctx: ToolCallContext, decision: str, by: str, detail: Mapping[str, Json]) -> None:
        if self._audit is not None:
            self._audit.record(AuditEntry(time.time(), ctx.run_identity.session_id, call.id, call.name, decision, by, detail))


def _digest(call: ToolCall, ctx: ToolCallContext, findings: Sequence[Finding]) -> str:
    """What one answer covers: this tool with these arguments, here, in this session, for these findings."""
    bound = {
        "tool": call.name,
        "args": call.args,
        "effects": [repr(effect) for effect in ctx.effects],
        "cwd": _cwd(ctx.effects),
        "environment": ctx.environment.identity,
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


def _at(answer: Answer) -> float:
    return answer.at or time.time()
