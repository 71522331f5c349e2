"""``/plan``: switch to plan mode, and accept, edit or reject the model's plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.cli.words import PLAN_HINT
from agent.providers._history import whole
from toolcrib.contract.errors import ToolcribError
from tools.approval.modes import DEFAULT, MODES, PLAN, Mode

if TYPE_CHECKING:
    from agent.cli.conversation import Conversation

_ACCEPTS = "I accept your plan. Carry it out."
_ACCEPTS_EDITED = "I accept your plan with my changes. Carry out this version:"
_REJECTS = "I reject your plan:"


async def obey_plan(chat: Conversation, rest: str) -> None:
    """Run ``/plan``. Raises ToolcribError."""
    word, _, more = rest.partition(" ")
    more = more.strip()
    if not word:
        await chat.set_mode(PLAN)
        chat.screen.print_note("mode plan: the model only reads, and ends with a plan; then /plan accept carries it out")
        return
    if word not in ("accept", "edit", "reject") or (word == "edit" and more):
        raise ToolcribError("use /plan, /plan accept [MODE], /plan edit or /plan reject [TEXT]")
    if chat.session.mode.now != PLAN:
        raise ToolcribError("this session is not in plan mode; to switch to it: /plan")
    plan = await _last_reply(chat)
    if not plan:
        raise ToolcribError("there is no plan yet: write what the model should plan")
    if word == "accept":
        await _accept(chat, plan, more)
    elif word == "edit":
        await _edit(chat, plan)
    elif more:
        await chat.say(f"{_REJECTS} {more}", "")
    else:
        chat.edited_plan = ("", "")
        chat.screen.print_note("rejected; the session stays in plan mode: write what the model should plan instead")


async def _last_reply(chat: Conversation) -> str:
    """Return the text of the model's last answer, "" if there is none."""
    _, records = await chat.session.transcript.last_exchanges(1)
    answers = [str(whole(record)["text"]) for record in records if record["role"] == "assistant" and not record.get("calls")]
    return answers[-1].strip() if answers else ""


async def _accept(chat: Conversation, plan: str, wanted: str) -> None:
    """Leave plan mode, and send the acceptance to the model. Without a wanted mode, return to the configured one."""
    modes: list[Mode] = [mode for mode in MODES if mode != PLAN]
    configured = chat.session.config.approval.mode
    if wanted and wanted not in modes:
        raise ToolcribError(f"use /plan accept with one of these modes: {', '.join(modes)}")
    mode = await chat.set_mode(wanted or (configured if configured in modes else DEFAULT))
    chat.screen.print_note(f"mode {mode}: the model carries out the plan")
    (before, edited), chat.edited_plan = chat.edited_plan, ("", "")
    await chat.say(f"{_ACCEPTS_EDITED}\n\n{edited}" if before == plan else _ACCEPTS, "")


async def _edit(chat: Conversation, plan: str) -> None:
    """Open the plan in the user's editor. ``/plan accept`` sends the edited plan, unless the model has answered since."""
    if chat.reader is None:
        raise ToolcribError("no editor can be started here; write what to change as a message")
    before, edited = chat.edited_plan
    edited = await chat.reader.edited(edited if before == plan else plan) or ""
    if not edited.strip():
        raise ToolcribError(
            "the plan was not changed: the editor failed, or the file is empty; $VISUAL or $EDITOR names the editor"
        )
    chat.edited_plan = (plan, edited.strip())
    chat.show_reply(edited)
    chat.screen.print_note(PLAN_HINT)
