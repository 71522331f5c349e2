"""``toolcrib undo``: revert changes of file tools, and redo them."""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING

from agent.cli.app import FAILED, OK, UNASKED, open_crib
from agent.cli.options import count
from agent.policy.self_protection import folders_of, is_below, refuse_below
from toolcrib.contract.errors import EnvironmentFailed, StoreFailed, ToolcribError

if TYPE_CHECKING:
    from agent.process import Crib
    from agent.undo import UndoPlan, UndoRequest
    from toolcrib.contract.store import SessionInfo
    from tools.undo.restore import Done

HELP = "Revert changes of file tools and, with snapshots, of commands; --redo reapplies them."
_EPILOG = """\
examples:
  toolcrib undo                    the last turn that changed files, in this folder's last session with changes
  toolcrib undo --dry-run          only show what would be reverted
  toolcrib undo                    again: the turn before that
  toolcrib undo --redo             redo what the last undo reverted
  toolcrib undo --list             list changes by turn and call
  toolcrib undo --turn 7           that turn; --call ID: that call; --call: the last call
  toolcrib undo --file src/a.py    only that file
  toolcrib undo --session 4f1c     in that session; `toolcrib sessions` lists them

Contents that write_file and patch replace or delete are kept in the state folder, within the limits of `undo` in the
configuration. undo shows the difference and asks; --yes does not ask. A file that has changed since is skipped, unless you add
--force; --redo then restores its content. Changes by terminal commands and other tools, and files that were too large to keep,
are not reverted, but listed. The session's model is informed with the next message.

With snapshots.enabled, changes that commands made in the project are reverted with the turn too. Changes without a call, by you
or by background programs, are listed as `background` with the commands that started such programs; only --call with the id of
such a change reverts it.

The exit code is 0 if everything was reverted, 1 if something could not be reverted or nothing was found, 4 if no user could be
asked.
"""
_SESSIONS = 200


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--turn", metavar="N", nargs="?", const="", help="revert turn N; without N the last turn (default)")
    which.add_argument(
        "--call",
        metavar="ID",
        nargs="?",
        const="",
        help="revert the call with this id, or its beginning or end; without ID the last call",
    )
    which.add_argument("--redo", action="store_true", help="redo what the last undo reverted")
    which.add_argument("--list", action="store_true", help="list changes of the last sessions, or of --session")
    parser.add_argument("--file", metavar="PATH", action="append", default=[], help="only this file; may be repeated")
    parser.add_argument("--session", metavar="ID", default="", help="the session (the beginning of its id)")
    parser.add_argument("--backend", metavar="NAME", default="", help="use this backend instead of the session's own")
    parser.add_argument("--dry-run", action="store_true", help="show what would be done, and do nothing")
    parser.add_argument("--force", action="store_true", help="also revert files that have changed since")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--limit", metavar="N", type=count, default=20, help="--list: the last N (default: 20)")
    parser.add_argument("--json", action="store_true", help="print JSON; does not ask, so it needs --yes or --dry-run")


def run(args: argparse.Namespace) -> int:
    from agent.undo import NothingToUndoError
    from tools.dispatch.bridge import run_async

    with open_crib(args, looks=True, as_confirmed=args.list) as crib:
        if args.list:
            return run_async(_list(crib, args))
        if not args.dry_run:
            refuse_below(folders_of(crib.config), "reverting changes")
        try:
            return run_async(_run(crib, args))
        except (NothingToUndoError, EnvironmentFailed, StoreFailed) as error:
            print(f"toolcrib: {error}", file=sys.stderr)
            return FAILED


async def _list(crib: Crib, args: argparse.Namespace) -> int:
    from agent.cli.format_undo import SPARE, WHOLE, rows, step_json
    from agent.cli.render import table

    journal = crib.store.changes
    await _recover_left(crib)
    sessions = [(await _info(crib, args.session)).id] if args.session else await journal.sessions(args.limit)
    steps = [step for one in sessions for step in await journal.steps(one)]
    steps = sorted(steps, key=lambda step: (step.at, step.id))[-args.limit :]
    if args.json:
        print(json.dumps([step_json(step) for step in reversed(steps)], ensure_ascii=False, indent=2))
    elif steps:
        table(rows(steps, time.time(), str(crib.project_dir)), spare=SPARE, whole=WHOLE)
    else:
        print("nothing to undo yet: no change is recorded")
    return OK


async def _recover_left(crib: Crib) -> None:
    """Record what background processes changed since their toolcrib was killed, unless this is a session's command."""
    from agent.background.requests import sessions_with_processes

    left = [session_id for session_id, lives in (await sessions_with_processes(crib.store)).items() if not lives]
    if not left or not crib.config.snapshots.enabled or is_below(folders_of(crib.config)):
        return
    for session_id in left:
        if (info := await crib.store.sessions.get(session_id)) is not None:
            try:
                await _recover(crib, info)
            except ToolcribError as error:  # such as a project that was deleted
                what = f"changes of session {session_id[:12]} since it was killed could not be recorded"
                print(f"toolcrib: {what}: {error}", file=sys.stderr)


async def _info(crib: Crib, prefix: str) -> SessionInfo:
    info = await crib.store.sessions.get(prefix)
    if info is None:
        raise ToolcribError(f"no session begins with {prefix!r}; list sessions that changed files: toolcrib undo --list")
    return info


async def _last(crib: Crib, args: argparse.Namespace) -> SessionInfo:
    """Return the last session of this folder with something to undo or redo."""
    from agent.undo import NothingToUndoError

    wanted, here = _wanted(args), []
    if crib.config.snapshots.enabled:
        for last in await crib.store.sessions.list(1, cwd=str(crib.project_dir)):
            await _recover(crib, last, args.backend)
    for session_id in await crib.store.changes.sessions(_SESSIONS):
        info = await crib.store.sessions.get(session_id)
        if info is not None and info.cwd == str(crib.project_dir):
            here.append(info)
    if wanted.id and len(here) > 1:
        raise ToolcribError("give the session: --session ID; list sessions: toolcrib undo --list")
    if not here:
        raise NothingToUndoError(
            f"no session of this folder ({crib.project_dir}) changed files; list others, for --session: toolcrib undo --list"
        )
    if wanted.id:
        return here[0]
    done_at = {info.id: await crib.undo(info.id).could(wanted) for info in here}
    return max(here, key=lambda info: done_at[info.id])


async def _recover(crib: Crib, info: SessionInfo, backend: str = "") -> None:
    """Record the changes by calls of a session, in case its process was killed."""
    environment = crib.open_environment(info, backend)
    try:
        await crib.undo(info.id).recover(environment)
    finally:
        await environment.close()


async def _run(crib: Crib, args: argparse.Namespace) -> int:
    info = await _info(crib, args.session) if args.session else await _last(crib, args)
    from agent.cli.escape import tame
    from agent.cli.format_undo import PREVIEW_LINES, compared

    undo, environment = crib.undo(info.id), crib.open_environment(info, args.backend)
    try:
        plan = await undo.plan(_wanted(args), environment)
        idle = args.dry_run or not plan.acting
        if idle or not (args.json or args.yes):
            if plan.acting and not args.json:
                print(tame(compared(await undo.preview(plan, environment), PREVIEW_LINES)))
            _show(plan, None, info, args)
        if idle:
            if plan.refused and not plan.acting and not args.json:
                print("  to revert something else, choose with --session, --turn or --call: toolcrib undo --list")
            return FAILED if plan.refused else OK
        if not args.yes and (answer := _may(args)) != OK:
            return answer
        done = await undo.carry_out(plan, environment)
        _show(plan, done, info, args)
        return FAILED if done.refused else OK
    finally:
        await environment.close()


def _wanted(args: argparse.Namespace) -> UndoRequest:
    from agent.undo import UndoRequest

    if args.redo:
        return UndoRequest("redo", force=args.force, paths=args.file)
    if args.call is not None:
        return UndoRequest("call", args.call, args.force, args.file)
    return UndoRequest("turn", args.turn or "", args.force, args.file)


def _may(args: argparse.Namespace) -> int:
    """Return OK if the user agrees, else another exit code."""
    from agent.cli.terminal import confirm_by_word, is_interactive

    if args.json or not is_interactive():
        print("toolcrib: nothing was done: no user can be asked here; add --yes", file=sys.stderr)
        return UNASKED
    if confirm_by_word("Apply these changes?"):
        return OK
    print("nothing was done")
    return FAILED


def _show(plan: UndoPlan, carried: Done | None, info: SessionInfo, args: argparse.Namespace) -> None:
    from agent.cli.escape import one_line
    from agent.cli.format_undo import as_json, done, planned

    if args.json:
        print(json.dumps(as_json(plan, carried), ensure_ascii=False, indent=2))
        return
    if carried is None or args.yes:
        print(f"session {info.id[:12]}{f': {one_line(info.title, 60)}' if info.title else ''}")
    print("\n".join(planned(plan, time.time(), "--force") if carried is None else done(plan, carried)))
