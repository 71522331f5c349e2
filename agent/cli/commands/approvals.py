"""``toolcrib approvals``: grants, pending approval requests, and past decisions."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from agent.cli import format_grants
from agent.cli.app import FAILED, OK, open_crib, running_crib
from agent.cli.options import count
from agent.policy.self_protection import folders_of, refuse_below
from toolcrib.contract.context import Principal
from toolcrib.contract.errors import Denied, ToolcribError

if TYPE_CHECKING:
    from agent.desk.approvals import ApprovalDesk
    from agent.policy.approvals import Approvals
    from agent.process import Crib
    from toolcrib.contract.store import TicketRecord

HELP = "List and answer pending approval requests; list, narrow and revoke grants; show past decisions."
_EPILOG = """\
examples:
  toolcrib approvals                        pending requests of all sessions, then all grants in force
  toolcrib approvals show 81aa              everything that an approval of this request would cover
  toolcrib approvals answer 81aa            answer at a prompt, as in the chat; then the call runs
  toolcrib approvals answer 81aa --scope once --continue      approve without a prompt, and continue the run here
  toolcrib approvals answer 81aa --deny "not on a Friday"
  toolcrib approvals narrow 4f1c build      limit a grant to a subfolder of its folder
  toolcrib approvals revoke 4f1c            revoke a grant
  toolcrib approvals list                   only grants
  toolcrib approvals pending                only pending requests
  toolcrib approvals deny 81aa "not now"    deny a request, whichever session it belongs to
  toolcrib approvals history --limit 50     past decisions with the person or rule that decided

You answer a request (a ticket) at a terminal, never through a pipe, and only once: the first answer counts. If another process
has the session open and waits for the answer, that process continues. Otherwise the call runs here, after all its checks, and
with --continue the rest of the run follows. If anything that the request depends on has changed since, the answer does not apply,
and a new ticket waits. `toolcrib explain` shows how a command is judged.

exit codes of answer and deny: 0 answered, 1 refused (too late, or already answered), 2 unknown ticket or no terminal; with
--continue, those of `toolcrib run`.
"""
_ACTIONS = ("list", "narrow", "revoke", "pending", "show", "answer", "deny", "history")
_CHANGES = ("narrow", "revoke", "deny")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("action", nargs="?", choices=_ACTIONS, help="what to do (default: list pending requests and all grants)")
    parser.add_argument("id", metavar="ID", nargs="?", default="", help="the beginning of a grant's or ticket's id")
    parser.add_argument("detail", metavar="DETAIL", nargs="?", default="", help="narrow: the folder; deny: the reason")
    parser.add_argument("--session", metavar="ID", default="", help="only this session (the beginning of its id)")
    parser.add_argument("--limit", metavar="N", type=count, default=20, help="history: the last N decisions (default: 20)")
    parser.add_argument("--json", action="store_true", help="print lists as JSON; without an action, the grants")
    group = parser.add_argument_group("answer")
    group.add_argument("--continue", dest="go_on", action="store_true", help="continue the run here, if no other process does")
    group.add_argument("--scope", metavar="SCOPE", default="", help="approve with this scope, one that the ticket offers")
    group.add_argument("--deny", metavar="REASON", help="deny; the model receives the reason")
    group.add_argument("--uses", metavar="N", type=count, help="with --scope uses: for this many calls")
    group.add_argument("--minutes", metavar="N", type=count, help="with --scope minutes: for this many minutes")


def run(args: argparse.Namespace) -> int:
    from tools.dispatch.bridge import run_async

    _check(args)
    if args.action == "answer":
        from agent.cli.answering import answer_ticket

        with running_crib(args, looks=True) as (crib, runner):
            refuse_below(folders_of(crib.config), "answering a ticket")
            return answer_ticket(crib, runner, args)
    with open_crib(args, looks=True, as_confirmed=args.action not in _CHANGES) as crib:
        if args.action in _CHANGES:
            refuse_below(folders_of(crib.config), "changing grants")
        if crib.grants.problem is not None:
            raise crib.grants.problem
        try:
            run_async(_act(crib, args))
        except Denied as error:
            if args.action != "deny":
                raise
            print(f"toolcrib: {error}", file=sys.stderr)
            return FAILED
    return OK


async def _act(crib: Crib, args: argparse.Namespace) -> None:
    from agent.policy.approvals import Approvals

    session = (await crib.find_session(args.session)).id if args.session else None
    approvals = Approvals(crib.store, crib.grants)
    match args.action:
        case "pending":
            _show(
                args,
                await _waiting(crib, session),
                format_grants.ticket_rows,
                "no request is pending",
                format_grants.SPARE_OF_TICKETS,
            )
        case "history":
            found, none = await approvals.history(session, args.limit), "no decisions yet"
            _show(args, found, format_grants.entry_rows, none, format_grants.SPARE_OF_ENTRIES, whole=(5,))
        case "show":
            print(await _whole(crib.desk.approvals, args.id))
        case "list" | None:
            if args.action is None and not args.json:
                await _show_waiting(crib, await _waiting(crib, session))
            none = "no grants; approving in the chat with a scope longer than one call creates one"
            _show(
                args, await approvals.grants(session), format_grants.grant_rows, none, format_grants.SPARE_OF_GRANTS, whole=(1,)
            )
            if waiting := crib.grants.unconfirmed():
                print(f"toolcrib: {_unconfirmed(len(waiting))}: start `toolcrib chat`", file=sys.stderr)
        case _:
            print(await _change(approvals, args, crib))


async def _waiting(crib: Crib, session: str | None) -> list[TicketRecord]:
    return [one.record for one in await crib.desk.approvals.waiting(session)]


async def _show_waiting(crib: Crib, found: Sequence[TicketRecord]) -> None:
    from agent.cli.render import table

    if found:
        rows = [["TICKET", "WHO", "ASKED", "EXPIRES", "SESSION", "WHAT"], *[await _waiting_row(crib, one) for one in found]]
        table(rows, spare=(4, 3, 2, 1))
        print("\n`toolcrib approvals answer TICKET` answers a ticket\n")


async def _waiting_row(crib: Crib, record: TicketRecord) -> list[str]:
    from agent.cli.escape import exact
    from agent.conversation.answers import asked_of

    asked = await asked_of(crib.store, record)
    who = "-" if asked is None else exact(":".join(filter(None, (asked.platform, asked.user))))
    expires = "never" if record.expires_at is None else format_grants.when(record.expires_at)
    what = exact(format_grants.line(format_grants.on_one(record.ticket.message)))
    return [record.ticket.id[:8], who, format_grants.when(record.at), expires, record.session_id[:8], what]


def _check(args: argparse.Namespace) -> None:
    """Raise ToolcribError for arguments that would be ignored, such as a second id."""
    changes = args.action in ("narrow", "revoke", "deny", "answer", "show")
    if args.id and not changes:
        raise ToolcribError(f"`toolcrib approvals {args.action}` takes no id; use --session to select a session")
    if args.detail and args.action in ("revoke", "answer", "show"):
        raise ToolcribError(f"give one id: toolcrib approvals {args.action} ID")
    if args.action != "answer" and (args.go_on or args.scope or args.deny is not None or args.uses or args.minutes):
        raise ToolcribError("--continue, --scope, --deny, --uses and --minutes need `toolcrib approvals answer TICKET`")
    if args.session and changes:
        raise ToolcribError(f"--session is only for lists; `toolcrib approvals {args.action}` takes an id")


def _unconfirmed(count: int) -> str:
    return f"{count} of the entries of command_allowlist apply only after you confirm them"


async def _change(approvals: Approvals, args: argparse.Namespace, crib: Crib) -> str:
    from agent.cli.escape import exact

    if not args.id:
        raise ToolcribError(f"give the id: toolcrib approvals {args.action} ID")
    if args.action == "revoke":
        return f"revoked: {exact(format_grants.covers(await approvals.revoke(args.id)))}"
    if args.action == "deny":
        request = await crib.desk.approvals.deny(args.id, who=Principal(), by="toolcrib approvals", reason=args.detail)
        record = request.record
        shown = exact(format_grants.line(format_grants.on_one(record.ticket.message)))
        return f"denied: {shown}{await _left(crib, record.session_id)}"
    if not args.detail:
        raise ToolcribError("give the folder: toolcrib approvals narrow ID FOLDER")
    return f"narrowed: {exact(format_grants.covers(await approvals.narrow(args.id, args.detail)))}"


async def _left(crib: Crib, session_id: str) -> str:
    """Return advice on how to continue a run that waited for the answer, or "" if none is needed."""
    from agent.conversation.answers import hosted, persons_session

    session_id = await persons_session(crib.store, session_id)
    if await crib.store.runs.current(session_id) is None or await hosted(crib.store, session_id):
        return ""
    return f"\n`toolcrib run --resume {session_id[:12]}` continues the run"


async def _whole(approvals: ApprovalDesk, prefix: str) -> str:
    """Return the text of a ticket's prompt, with everything that an approval would cover."""
    from agent.cli.choosing import covers_of
    from agent.cli.escape import exact
    from agent.cli.terminal import columns_of
    from tools.approval.prompt import PromptLine, physical, prompt_of

    if not prefix:
        raise ToolcribError("give the ticket: toolcrib approvals show TICKET")
    record = (await approvals.find(prefix)).record
    prompt = prompt_of(record.ticket)
    covers = [PromptLine(f"  {scope}: {exact(str(words))}") for scope, words in covers_of(record.ticket).items()]
    return "\n".join(physical([*prompt.call, *prompt.about, *covers], columns_of(sys.stdout)))


def _show(
    args: argparse.Namespace, found: Sequence[Any], rows: Any, none: str, spare: Sequence[int] = (), whole: Sequence[int] = ()
) -> None:
    from agent.cli.render import table

    if args.json:
        print(json.dumps([_as_json(one) for one in found], ensure_ascii=False, indent=2))
    elif found:
        table(rows(found), spare=spare, whole=whole)
    else:
        print(none)


def _as_json(one: Any) -> Mapping[str, Any]:
    from toolcrib.contract.store import TicketRecord

    if isinstance(one, TicketRecord):
        record: TicketRecord = one
        return {
            "id": record.ticket.id,
            "session": record.session_id,
            "at": record.at,
            "expires_at": record.expires_at,
            "message": record.ticket.message,
            "parameters": dict(record.ticket.parameters),
        }
    return asdict(one)
