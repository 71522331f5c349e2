"""The ticket of a call that needs an approval: the approval request, and the schema of its decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.effects import SchedulesJob, SendsMessage
from toolcrib.contract.types import Json, SuspendTicket, ToolCall
from tools.approval.binding import inputs_of, paths_of, starts_of
from tools.approval.differences import Differences
from tools.approval.grants import covers
from tools.approval.offers import Asked, offers
from tools.approval.policy import Policy
from tools.approval.prompt import MOST_PLAIN, worded
from tools.contained.outside import judged_in
from tools.judge.findings import digestible, visible

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


def ticket_of(
    action: str,
    asked: Asked,
    delegate: Mapping[str, str] | None,
    call: ToolCall,
    ctx: ToolCallContext,
    binds: str,
    changed: Differences | None,
    unheld: Sequence[str] = (),
) -> SuspendTicket:
    """Return the approval request for a call. ``delegate``: the delegate that makes the call; None for the session's own model.

    ``unheld`` has the reasons why the sandbox and the snapshots do not contain the call, if it runs with them. Text only for
    users who can approve is in the parameters ``sends``, and in ``prompt_aside`` in place of ``prompt``.
    """
    command, cwd, findings = asked.command, asked.cwd, asked.findings
    covered = offers(asked)
    parameters: dict[str, Json] = {
        "tool": call.name,
        "findings": [digestible(finding) for finding in findings],
        "scopes": list(covered),
        "covers": covered,
        "where": judged_in(ctx).identity,
    }
    if unheld:
        parameters["unheld"] = list(unheld)
    if delegate is not None:
        parameters["delegate"] = dict(delegate)
    if cwd:
        parameters["cwd"] = cwd
    if command is not None:
        parameters["command"] = command
        if starts := starts_of(ctx.effects):
            parameters["starts"] = starts
    else:
        paths = paths_of(ctx.effects)
        parameters |= {"path": paths[0]} if len(paths) == 1 else {"paths": paths} if paths else {}
    if written := inputs_of(ctx.effects):
        parameters["inputs"] = written
    sent = [effect for effect in ctx.effects if isinstance(effect, SendsMessage)]
    if sent:
        parameters["sends"] = [_message(one, one.whom) for one in sent]
    if (job := next((effect for effect in ctx.effects if isinstance(effect, SchedulesJob)), None)) is not None:
        from tools.schedules.preview import preview

        parameters["job"] = {"facts": preview(job), "task": job.task}
    if changed is not None:
        parameters |= {"diff": changed.text, "diff_for": sorted(changed.stands_for)}
    parameters["prompt"] = str(worded(call.name, call.args, parameters, most=MOST_PLAIN))
    if any(one.aside for one in sent):
        parameters["sends"] = [_message(one, one.aside or one.whom) for one in sent]
        parameters["prompt_aside"] = str(worded(call.name, call.args, parameters, most=MOST_PLAIN))
    whys = "; ".join(dict.fromkeys(finding.why for finding in findings))
    shown = f"to {sent[0].whom or sent[0].to}" if sent else parameters.get("path", call.name) if command is None else command
    if written:
        given = written[0].get("keys") or written[0]["text"].removesuffix("\n")
        shown = f"to the input of {written[0]['name']}: {given}"
    message = f"{call.name}: {visible(str(shown))}\n{visible(whys)}"
    return SuspendTicket(action, message, call, parameters, ANSWER_SCHEMA, binds=binds)


async def delegate_of(policy: Policy, asked: Asked) -> Mapping[str, str] | None:
    """Return the delegate that asks, None for a session's own model. If a grant of a session above the delegate's covers a
    finding, ``granted`` describes this grant, which does not cover a delegate's calls.
    """
    for session_id in policy.above:
        for grant in await policy.grants.all(session_id, asked.principal):
            own = grant.scope != "always" and grant.principal == asked.principal
            if own and any(covers(grant, one, session_id=session_id, cwd=asked.cwd) for one in asked.findings):
                return {**(policy.delegate or {}), "granted": f"{grant.key} below {grant.root}"}
    return policy.delegate


def _message(effect: SendsMessage, whom: str) -> dict[str, Json]:
    return {"to": effect.to, "whom": whom, "text": effect.text, "files": list(effect.files)}
