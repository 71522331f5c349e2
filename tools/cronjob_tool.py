"""The schema of ``cronjob``, and the effects of a call. Its handler belongs to the agent loop: agent/cron/handler.py."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.effects import SchedulesJob
from toolcrib.contract.errors import InvalidArguments
from toolcrib.contract.identity import LOCAL_PLATFORMS
from toolcrib.contract.types import Json
from tools.registry import registry

CREATES, CHANGES = "add", "change"
HERE = "here"
MISSED = ("once", "skip")


def effects(args: dict[str, Any], ctx: ToolCallContext) -> tuple[SchedulesJob, ...]:
    """Return the job that needs an approval: a new one, or one that replaces another; () for all other actions.

    Raises InvalidArguments for a schedule that is invalid or too frequent.
    """
    action = args.get("action")
    if action not in (CREATES, CHANGES):
        return ()
    return (planned_by(args, ctx.settings, ctx.run_identity.platform),)


def planned_by(args: Mapping[str, Any], settings: Mapping[str, Any], platform: str) -> SchedulesJob:
    """Return the complete job for the arguments and the operator's settings; ``platform``: the platform of the request.

    Raises InvalidArguments.
    """
    from tools.schedules.parse import read
    from tools.schedules.schedule import lasting

    now = time.time()
    missing = [key for key in ("schedule", "task") if not str(args.get(key) or "").strip()]
    if args["action"] == CHANGES and not args.get("job"):
        missing.append("job")
    if missing:
        raise InvalidArguments(f"{args['action']} needs {' and '.join(missing)}; a change replaces the whole job")
    schedule = read(args["schedule"], args.get("zone") or "", now=now, usual=str(settings.get("cron.zone") or ""))
    least = float(settings.get("cron.shortest_interval", 0.0))
    if (shortest := schedule.begun(now).shortest(now)) < least:
        words = f"it runs every {lasting(shortest)}, but the shortest interval is {lasting(least)} (cron.shortest_interval)"
        raise InvalidArguments(f"schedule: {words}; choose a longer interval")
    return SchedulesJob(
        task=args["task"].strip(),
        schedule=json.dumps(schedule.to_json(), sort_keys=True),
        name=" ".join(str(args.get("name") or "").split()),
        to=_to_words(str(args.get("to") or HERE), platform),
        unattended=str(args.get("unattended") or settings.get("cron.unattended") or "deny"),
        missed=str(args.get("missed") or settings.get("cron.missed") or "once"),
        replaces=str(args.get("job") or "") if args["action"] == CHANGES else "",
    )


def _to_words(to: str, platform: str) -> str:
    if to != HERE:
        return f"the chat {to}"
    if platform in LOCAL_PLATFORMS or not platform:
        return "its own session, listed by `toolcrib cron history`"
    return "this chat"


def _schema() -> dict[str, Json]:
    text: dict[str, Json] = {"type": "string"}
    return {
        "description": (
            "Schedule a task to run later or repeatedly, with the result sent to this chat: reminders, reports, checks."
            " The user approves each job. Write a task that needs no knowledge of this conversation. list shows the user's"
            " jobs; change replaces a whole job; stop ends its current run."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "action": {"enum": [CREATES, "list", CHANGES, "pause", "resume", "stop", "remove", "history"]},
                "schedule": {
                    **text,
                    "maxLength": 200,
                    "description": "One of these forms: in 20 minutes; tomorrow at 8am; on friday at 17:00; 2026-12-24 18:00;"
                    " every 2 hours; every day at 9 and 17:30; every weekday at 9; every monday and thursday at 18:30; every 3"
                    " days at 8; on the 1st of each month at 07:30; 0 9 * * 1-5 (cron).",
                },
                "task": {**text, "maxLength": 8000, "description": "What to do and what to answer."},
                "name": {**text, "maxLength": 60},
                "zone": {**text, "maxLength": 60, "description": "IANA name, such as Europe/Berlin; the user's by default."},
                "job": {**text, "maxLength": 32, "description": "Id, for all but add and list."},
                "to": {**text, "maxLength": 500, "description": "Another chat of the user, as PLATFORM:CHAT."},
                "unattended": {
                    **text,
                    "maxLength": 60,
                    "description": "For calls that need approval: deny, park (they wait), or a configured rule set.",
                },
                "missed": {"enum": list(MISSED)},
            },
            "required": ["action"],
            "additionalProperties": False,
        },
    }


registry.register(
    name="cronjob",
    toolset="cronjob",
    schema=_schema(),
    handler=None,
    kind="other",
    effects=effects,
    lasting="may change scheduled jobs",
    needs="jobs",
    emoji="⏰",
)
