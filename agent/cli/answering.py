"""Answer an approval request of any session: ask the user at the terminal, record the answer once, and run the call."""

from __future__ import annotations

import argparse
import asyncio
import sys
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from agent.cli.app import FAILED, INTERRUPTED, OK
from agent.cli.ask import TerminalAsker
from agent.cli.choosing import chosen, covers_of, offered, said_in_words
from agent.cli.escape import exact, one_line
from agent.cli.parked import parked_lines, still_open
from agent.cli.refusing import BY
from agent.cli.signals import interrupting
from agent.conversation.answers import hosted, persons_session
from agent.desk.request import SessionRequest
from agent.policy.self_protection import folders_of
from toolcrib.contract.context import Principal
from toolcrib.contract.errors import Denied, InvalidArguments, ToolcribError
from tools.approval.prompt import PromptLine, physical, prompt_of

if TYPE_CHECKING:
    from agent.cli.terminal import Terminal
    from agent.conversation.session import Session
    from agent.desk.approvals import ApprovalDesk, ApprovalRequest
    from agent.process import Crib
    from toolcrib.contract.store import TicketRecord
    from toolcrib.contract.types import SuspendTicket

_LEAVES_OPEN = "not answered; the ticket is still pending"
_MOST_TRIES = 5


@dataclass(frozen=True, slots=True)
class RequestedAnswer:
    """The command line's answer to a ticket; "" and None for missing options. ``deny`` is the reason for a denial."""

    prefix: str
    scope: str = ""
    deny: str | None = None
    uses: int | None = None
    minutes: int | None = None
    go_on: bool = False

    @classmethod
    def of(cls, args: argparse.Namespace) -> RequestedAnswer:
        """Read the answer from parsed options. Raises ToolcribError if the options contradict each other or name no ticket."""
        wanted = cls(args.id, args.scope, args.deny, args.uses, args.minutes, args.go_on)
        if not wanted.prefix:
            raise ToolcribError("give the ticket: toolcrib approvals answer TICKET; list tickets: toolcrib approvals")
        if wanted.scope and wanted.deny is not None:
            raise ToolcribError("--scope approves and --deny denies: give only one of them")
        for number, scope in (("uses", "uses"), ("minutes", "until")):
            if getattr(wanted, number) is not None and wanted.scope not in (scope, number):
                raise ToolcribError(f"--{number} needs --scope {number}")
        return wanted


def answer_ticket(crib: Crib, runner: asyncio.Runner, args: argparse.Namespace) -> int:
    """Record the answer to a ticket, and run its call unless another process does. Return the exit code. Raises ToolcribError."""
    from agent.cli.terminal import controlling_terminal

    wanted = RequestedAnswer.of(args)
    if crib.grants.problem is not None:
        raise crib.grants.problem
    request = runner.run(crib.desk.approvals.find(wanted.prefix))
    record = request.record
    if record.state != "pending":
        return _refused(record)
    with controlling_terminal(folders_of(crib.config)) as terminal:
        terminal.lines_only = crib.config.display.screen_reader
        try:
            settled = runner.run(_settle(crib.desk.approvals, request, wanted, terminal))
        except EOFError:
            terminal.show(_LEAVES_OPEN)
            return FAILED
        except KeyboardInterrupt as error:
            error.add_note(_LEAVES_OPEN)
            raise
    if not settled:
        return _refused(runner.run(crib.desk.approvals.find(record.ticket.id)).record)
    return _act(crib, runner, record, go_on=wanted.go_on)


# -- the answer --------------------------------------------------------------------------------------------------------


async def _settle(approvals: ApprovalDesk, request: ApprovalRequest, wanted: RequestedAnswer, terminal: Terminal) -> bool:
    """Record the answer. Return False if it was refused, because the ticket was settled meanwhile.

    Raises EOFError and KeyboardInterrupt if the user gives no answer, and ToolcribError after too many invalid answers.
    """
    ticket = request.record.ticket
    said = _said(ticket, wanted)
    if said is not None:
        prompt = prompt_of(ticket)
        lines = [*prompt.call, *prompt.about, *map(PromptLine, _meaning(ticket, said))]
        terminal.show("\n".join(physical(lines, terminal.size[0])))
    for _ in range(_MOST_TRIES):
        payload = await TerminalAsker(terminal).put(ticket) if said is None else said
        try:
            await approvals.decide(request, payload, who=Principal(), by=BY)
        except InvalidArguments as error:
            if said is not None:
                raise
            terminal.show(f"  {exact(str(error))}")
        except Denied:
            return False
        else:
            return True
    raise ToolcribError(_LEAVES_OPEN)


def _said(ticket: SuspendTicket, wanted: RequestedAnswer) -> Any:
    """Return the payload that the command line gives, or None if the user must be asked. Raises ToolcribError."""
    if wanted.deny is not None:
        return {"approved": False, "reason": wanted.deny} if wanted.deny else {"approved": False}
    if not wanted.scope:
        return None
    if ticket.resume_mode != "replay":
        raise ToolcribError("this ticket asks a question; omit --scope")
    scopes = offered(ticket)
    number = wanted.uses if wanted.uses is not None else wanted.minutes
    payload = chosen(wanted.scope, "" if number is None else str(number), scopes)
    if payload is None:
        raise ToolcribError(f"this ticket can be answered with --scope {', '.join(scopes)}, not {wanted.scope!r}")
    return payload


def _meaning(ticket: SuspendTicket, payload: Any) -> list[str]:
    if not payload["approved"]:
        return [f"  denied{f': {exact(reason)}' if (reason := payload.get('reason')) else ''}"]
    return [f"  {said_in_words(payload, covers_of(ticket))}"]


def _refused(record: TicketRecord) -> int:
    """Print why the ticket takes no more answers: who answered it, and when. Return the exit code."""
    name, answer = record.ticket.id[:12], record.answer
    if record.state == "expired" and (answer is None or answer.by == "nobody"):
        when = f" on {_when(record.expires_at)}" if record.expires_at is not None and answer is None else ""
        why = f": {one_line(answer.reason, 200)}" if answer is not None and answer.reason else ""
        text = f"the ticket {name} expired{when}{why}, so its call was not run; it takes no more answers"
    else:
        by = f" by {exact(answer.by)}" if answer is not None and answer.by else ""
        at = f" on {_when(answer.at)}" if answer is not None and answer.at else ""
        text = f"the ticket {name} was already answered: {record.state}{by}{at}; a second answer does not count"
    print(f"toolcrib: {text}", file=sys.stderr)
    return FAILED


def _when(at: float | None) -> str:
    return "-" if not at else f"{datetime.fromtimestamp(at):%Y-%m-%d %H:%M}"


# -- what follows ------------------------------------------------------------------------------------------------------


def _act(crib: Crib, runner: asyncio.Runner, record: TicketRecord, *, go_on: bool) -> int:
    """Run the answered call, and with ``go_on`` the rest of its run, unless another process does. Return the exit code."""
    session_id = runner.run(persons_session(crib.store, record.session_id))
    if runner.run(hosted(crib.store, session_id)):
        print(f"answered; the process that runs the session {session_id[:12]} continues", file=sys.stderr)
        return OK
    if runner.run(crib.store.runs.current(session_id)) is None:
        print(f"answered; {_nobody_waits(record, session_id)}", file=sys.stderr)
        return OK
    if go_on:
        return _continue(crib, runner, session_id)
    try:
        return _run_call(crib, runner, session_id)
    except ToolcribError as error:
        print(f"toolcrib: answered, but the call cannot run here: {error}", file=sys.stderr)
        print(f"toolcrib: to continue the run: toolcrib run --resume {session_id[:12]}", file=sys.stderr)
        return OK


def _nobody_waits(record: TicketRecord, session_id: str) -> str:
    if session_id == record.session_id and not record.ticket.relays:
        return "no run of the session waits for it"
    return f"the delegate continues with its session: toolcrib run --resume {session_id[:12]}"


async def _open(crib: Crib, session_id: str) -> Session:
    """Open the session for its own principal. New approval requests are parked again."""
    info = await crib.find_session(session_id)
    return await crib.desk.open(
        SessionRequest(
            platform=info.platform, user=info.user, suspends=True, resume=info.id, delegates="awaited", leaves_open=True
        )
    )


def _run_call(crib: Crib, runner: asyncio.Runner, session_id: str) -> int:
    """Run the answered call; another command continues the rest of the run. Return the exit code."""
    from agent.cli.commands.run import closing
    from agent.cli.render import Screen
    from agent.cli.view import View

    session = runner.run(_open(crib, session_id))
    view = View(Screen(interactive=False))
    with closing(session, runner), interrupting(session.interrupt) as came:
        try:
            result = runner.run(session.advance(view, calls_only=True))
            waits = [] if result is None else runner.run(still_open(session, result.tickets))
        except asyncio.CancelledError:
            result, waits = None, []
        finally:
            view.end()
    if came:
        print(f"toolcrib: interrupted; your answer is kept: toolcrib run --resume {session_id[:12]}", file=sys.stderr)
        return INTERRUPTED
    if result is not None and result.stopped == "parked":
        print("\n".join(parked_lines(session_id, waits, 0)), file=sys.stderr)
    return OK


def _continue(crib: Crib, runner: asyncio.Runner, session_id: str) -> int:
    """Run the answered call, and continue the run as `toolcrib run` does. Return the exit code."""
    from agent.cli.commands.run import closing, report_error, say_how_it_ended
    from agent.cli.faults import exit_code
    from agent.cli.oneshot import TaskRun
    from agent.cli.render import Screen
    from agent.cli.view import View
    from agent.model_choice.models import ModelChoice

    try:
        session = runner.run(_open(crib, session_id))
        shot, view = TaskRun(session, ModelChoice(), timeout=None), View(Screen(interactive=False), only_answer=True)
        with closing(session, runner), interrupting(shot.interrupt):
            try:
                outcome = runner.run(shot.run("", [view], lambda model: None))
            finally:
                view.end()
    except ToolcribError as error:
        report_error(error, None)
        return exit_code(error)
    say_how_it_ended(outcome, None)
    return outcome.code
