"""``!command`` in the chat: run it for the user and show it live. The next message gives the output to the model, except with
``!!``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agent.cli.beside import Beside
from agent.cli.fullscreen import drawing
from agent.events import ToolFinished, ToolStarted
from toolcrib.contract.context import ActivityEvent
from toolcrib.contract.display import ToolDisplay
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.session import ExecutedCall
from toolcrib.contract.types import Json, ToolCall, ToolCallStatus, ToolResult, ToolStatus

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.cli.livescreen import LiveScreen
    from agent.cli.render import Screen
    from agent.conversation.session import Session
    from agent.events import Event

SHARED_BYTES = 256 << 10
"""Maximum number of bytes of outputs that wait for the next message; the oldest outputs are dropped."""
NAME = "you"
"""Shown in place of a tool's name."""
_DISPLAY = ToolDisplay(emoji="💻", verb="run", subject=("command",))
_TAG = "command-output"


async def run_line(
    session: Session, line: str, screen: Screen | LiveScreen, show: Callable[[Event], None], beside: list[Beside]
) -> None:
    """Run the command after ``!`` or ``!!``. ``show`` receives its events, ``beside`` its output for the next message.

    Raises ToolcribError.
    """
    from agent.policy.self_protection import refuse_below_any

    private = line.startswith("!!")
    command = line.lstrip("!").strip()
    if not screen.interactive:
        raise ToolcribError(f"{line[:1]}COMMAND works only at a terminal; @terminal {{...}} is judged and can be piped in")
    if not command:
        raise ToolcribError(
            "give a command: !COMMAND runs it and sends its output with your next message, !!COMMAND only runs it"
        )
    refuse_below_any("!COMMAND")
    if program := drawing(command):
        local = "Ctrl-Z, then run it and fg" if not session.backend.is_remote else f"toolcrib env shell {session.backend.name}"
        raise ToolcribError(f"{program} needs its own terminal, so it was not run; use {local}, or another terminal")
    data = await _shown(session, command, show)
    if not private and session.model and data is not None:
        _share(session, command, data, screen, beside)


async def _shown(session: Session, command: str, show: Callable[[Event], None]) -> Mapping[str, Json] | None:
    """Run a command and show it. Return its result in the terminal tool's form, or None if it did not run."""
    from agent.conversation.own_command import run_own
    from tools.terminal_tool import LastOutput, describe, for_person

    call = ToolCall(ToolCall.new_id(), NAME, {"command": command})
    printed = LastOutput(_reporter(session, call))
    show(ToolStarted(call, _DISPLAY.emoji, _DISPLAY))
    session.watch = show
    begun, data = time.monotonic(), dict[str, Any]()
    opened = session.scope.opened
    folder = session.scope.start if opened is None else opened.cwd
    try:
        outcome = await run_own(session, command, printed)
        data = session.scope.redactor.data(describe(command, outcome, 0))
        if outcome.cwd != folder:
            data["cwd"] = outcome.cwd
        if outcome.notice:
            data["notice"] = outcome.notice
        result = ToolResult(NAME, ToolStatus.SUCCESS, data, views={"person": for_person(data)})
        status = ToolCallStatus.SUCCEEDED
    except asyncio.CancelledError:
        if (task := asyncio.current_task()) is not None and task.cancelling():  # the whole chat is ending
            raise
        said = session.scope.redactor.text(str(printed))
        data = {"output": said, "exit_code": 130, "where": "", "meaning": "interrupted"}
        result, status = ToolResult.error(NAME, said or "interrupted"), ToolCallStatus.CANCELLED
    except ToolcribError as error:
        result, status = ToolResult.error(NAME, str(error)), ToolCallStatus.FAILED
    finally:
        printed.end()
        session.reports.end(call.id)
    show(ToolFinished(ExecutedCall(call, result, status, time.monotonic() - begun), _DISPLAY.emoji, _DISPLAY))
    return data or None


def _reporter(session: Session, call: ToolCall) -> Callable[[str], object]:
    from tools.redact import RedactingSink

    session.reports.begin(call.id)
    sink = RedactingSink(session.reports, session.scope.redactor)
    return lambda text: sink.emit(ActivityEvent(call.id, "terminal-output", {"text": text}))


def _share(session: Session, command: str, data: Mapping[str, Any], screen: Screen | LiveScreen, beside: list[Beside]) -> None:
    """Add the output to the context of the next message."""
    from tools.terminal_tool import for_person

    said = session.scope.redactor.text(command)
    about = f"is what the command `{said}` printed, which the person ran in the session's shell"
    beside.append(Beside(_TAG, about, for_person({"where": "local", **data})))
    outputs = [part for part in beside if part.tag == _TAG]
    while len(outputs) > 1 and sum(len(part.text.encode("utf-8", "surrogatepass")) for part in outputs) > SHARED_BYTES:
        beside.remove(outputs.pop(0))
        screen.print_note("the oldest output is not sent with your next message: all outputs together are too long")
