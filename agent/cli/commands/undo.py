"""``toolcrib undo``: take back what file tools changed, and bring it back again."""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING

from agent.cli.app import FAILED, OK, UNASKED, open_crib
from agent.cli.options import count
from agent.policy.self_protection import folders_of, refuse_below
from toolcrib.contract.errors import EnvironmentFailed, StoreFailed, ToolcribError

if TYPE_CHECKING:
    from agent.process import Crib
    from agent.undo import UndoPlan, UndoRequest
    from toolcrib.contract.store import SessionInfo
    from tools.undo.restore import Done

HELP = "Undo changes of file tools; --redo makes them again."
_EPILOG = """\
examples:
  toolcrib undo                    the last turn that changed files, of the last such session of this folder
  toolcrib undo --dry-run          only show what it would do
  toolcrib undo                    once more: the turn before that
  toolcrib undo --redo             redo what the last undo reverted
  toolcrib undo --list             what was changed, by which turn and call
  toolcrib undo --turn 7           that turn; --call ID, that call; --call alone, the last call
  toolcrib undo --file src/a.py    only that file of it
  toolcrib undo --session 4f1c     in that session; `toolcrib sessions` lists them

What write_file and patch replace or delete is kept in the state folder, for as long and as much as `undo` in the configuration
says. You see the difference that it makes, and are asked; --yes does it unasked. A file that was changed since is left alone,
but for --force, and then --redo has its content. Not undone: what commands in the terminal and other tools did, and files that
were too big to keep; both are named. The next message tells the session's model.

With snapshots.enabled, what commands changed in the project is undone with the turn too. Changes that no call made, by you or by
programs in the background, are listed as `background`, with the commands that such programs were started by; only --call with
the id of such a change undoes it.

The exit code is 0 where all was undone, 1 where something could not be undone or there was nothing, 4 where nobody could be
asked.
"""
_SESSIONS = 200


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--turn", metavar="N", nargs="?", const="", help="a turn: the last one (as without it), or that number")
    which.add_argument(
        "--call", metavar="ID", nargs="?", const="", help="a call: the last one, or that id (or how it begins or ends)"
    )
    which.add_argument("--redo", action="store_true", help="redo what the last undo reverted")
    which.add_argument("--list", action="store_true", help="show what was changed, of one session or of the last ones")
    parser.add_argument("--file", metavar="PATH", action="append", default=[], help="only this file of it; may be repeated")
    parser.add_argument("--session", metavar="ID", default="", help="the session (the beginning of its id)")
    parser.add_argument("--backend", metavar="NAME", default="", help="in that backend, instead of the session's own")
    parser.add_argument("--dry-run", action="store_true", help="show what it would do, and do nothing")
    parser.add_argument("--force", action="store_true", help="also files that have changed since")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--limit", metavar="N", type=count, default=20, help="--list: the last N (default: 20)")
    parser.add_argument("--json", action="store_true", help="as JSON; it does not ask either, so it needs --yes or --dry-run")


def run(args: argparse.Namespace) -> int:
    from agent.undo import NothingToUndoError
    from tools.dispatch.bridge import run_async

    with open_crib(args, looks=True, as_confirmed=args.list) as crib:
        if args.list:
            return run_async(_list(crib, args))
        if not args.dry_run:
            refuse_below(folders_of(crib.config), "taking changes back")
        try:
            return run_async(_run(crib, args))
        except (NothingToUndoError, EnvironmentFailed, StoreFailed) as error:
            print(f"toolcrib: {error}", file=sys.stderr)
            return FAILED


async def _list(crib: Crib, args: argparse.Namespace) -> int:
    from agent.cli.format_undo import SPARE, WHOLE, rows, step_json
    from agent.cli.render import table

    journal = crib.store.changes
    sessions = [(await _info(crib, args.session)).id] if args.session else await journal.sessions(args.limit)
    steps = [step for one in sessions for step in await journal.steps(one)]
    steps = sorted(steps, key=lambda step: (step.at, step.id))[-args.limit :]
    if args.json:
        print(json.dumps([step_json(step) for step in reversed(steps)], ensure_ascii=False, indent=2))
    elif steps:
        table(rows(steps, time.time(), str(crib.project_dir)), spare=SPARE, whole=WHOLE)
    else:
        print("file tools changed nothing yet")
    return OK


async def _info(crib: Crib, prefix: str) -> SessionInfo:
    info = await crib.store.sessions.get(prefix)
    if info is None:
        raise ToolcribError(f"no session begins with {prefix!r}; `toolcrib undo --list` shows those that changed files")
    return info


async def _last(crib: Crib, args: argparse.Namespace) -> SessionInfo:
    """Return the last session of this folder with something to undo or redo."""
    from agent.undo import NothingToUndoError

    wanted, here = _wanted(args), []
    if crib.config.snapshots.enabled:
        await _recover(crib, args)
    for session_id in await crib.store.changes.sessions(_SESSIONS):
        info = await crib.store.sessions.get(session_id)
        if info is not None and info.cwd == str(crib.project_dir):
            here.append(info)
    if wanted.id and len(here) > 1:
        raise ToolcribError("say in which session: --session ID; `toolcrib undo --list` shows them")
    if not here:
        raise NothingToUndoError(
            f"no session of this folder ({crib.project_dir}) changed files; `toolcrib undo --list` shows others, for --session"
        )
    if wanted.id:
        return here[0]
    done_at = {info.id: await crib.undo(info.id).could(wanted) for info in here}
    return max(here, key=lambda info: done_at[info.id])


async def _recover(crib: Crib, args: argparse.Namespace) -> None:
    """Record the changes by calls of this folder's last session, in case its process was killed."""
    for info in await crib.store.sessions.list(1, cwd=str(crib.project_dir)):
        environment = crib.open_environment(info, args.backend)
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
                print("  something else may be undone: `toolcrib undo --list` shows it, for --session, --turn or --call")
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
        print("toolcrib: nothing was done: nobody can be asked here; --yes does it unasked", file=sys.stderr)
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
