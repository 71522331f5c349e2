"""``toolcrib sessions``: stored sessions, and how to continue one."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.below import folders_of, refuse_below
from agent.cli.app import FAILED, OK, open_crib
from agent.cli.options import age, count
from toolcrib import ToolcribError

if TYPE_CHECKING:
    from agent.crib import Crib

HELP = "List the stored sessions and search them; show one, export it as a document, fork it, forget old ones."
_EPILOG = """\
examples:
  toolcrib sessions
  toolcrib sessions --here
  toolcrib sessions search staging port            where both words stand
  toolcrib sessions search '"bad gateway"' deplo*  a phrase, and a word that begins so; -word: where it does not stand
  toolcrib sessions show 4f1c
  toolcrib sessions export 4f1c > talk.md
  toolcrib sessions export 4f1c -o talk.html       or .md, .json
  toolcrib chat --resume 4f1c
  toolcrib sessions fork 4f1c                      a new session with the end of that one, where its context is full
  toolcrib sessions fork 4f1c --messages 2         with your last two messages and what followed them
  toolcrib sessions prune --older-than 90d    forgets those not used since: what was said, calls, who agreed, undo

The beginning of an id is enough where only one session begins so. `toolcrib trace ID` tells what was done in one.
"""
_LEASE_SECONDS = 10.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument(
        "action",
        nargs="?",
        choices=("list", "search", "show", "export", "fork", "prune"),
        default="list",
        help="what to do (default: list); the examples below show each",
    )
    parser.add_argument(
        "id", metavar="ID", nargs="?", default="", help="the session, for show, export and fork; what to search for"
    )
    parser.add_argument("words", metavar="WORD", nargs="*", help="search: more words that stand in the same message")
    parser.add_argument("--best", action="store_true", help="search: the best first, not the newest")
    parser.add_argument("--newer-than", metavar="AGE", type=age, help="search: only what was said since, such as 7d")
    parser.add_argument("--here", action="store_true", help="only those of this folder")
    parser.add_argument("--limit", metavar="N", type=count, default=20, help="how many to list or find (default: 20)")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="export: into this file, in the form of its ending")
    parser.add_argument("--format", choices=("markdown", "html", "json"), help="export: the form (default: markdown)")
    parser.add_argument("--force", action="store_true", help="export: write over a file that is there")
    parser.add_argument("--messages", metavar="N", type=count, help="fork: how many of your messages (default: what fits well)")
    parser.add_argument(
        "--older-than",
        metavar="AGE",
        type=age,
        help="prune: those not used for so long, such as 90d",
    )
    parser.add_argument("--yes", action="store_true", help="prune: do not ask")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    from tools.dispatch.bridge import run_async

    act = {"search": _search, "show": _show, "export": _export, "fork": _fork, "prune": _prune}.get(args.action, _list)
    with open_crib(args, looks=True) as crib:
        if args.words and args.action != "search":
            raise ToolcribError(f"one id is enough: toolcrib sessions {args.action} {args.id}")
        if args.action == "prune":
            refuse_below(folders_of(crib.config), "forgetting sessions")
        return run_async(act(crib, args))


async def _list(crib: Crib, args: argparse.Namespace) -> int:
    from agent.cli.render import table
    from agent.cli.stories import SPARE, session_rows

    cwd = str(crib.project_dir) if args.here else None
    found = await crib.store.sessions.list(args.limit, cwd=cwd)
    if args.json:
        print(json.dumps([asdict(info) for info in found], ensure_ascii=False, indent=2))
    elif found:
        table(session_rows(found, time.time()), spare=SPARE)
    else:
        print("no sessions yet; `toolcrib chat` begins one")
    return OK


async def _search(crib: Crib, args: argparse.Namespace) -> int:
    from agent.cli.searching import search

    await search(crib, args)
    return OK


async def _show(crib: Crib, args: argparse.Namespace) -> int:
    from agent.cli.stories import conversation

    if not args.id:
        raise ToolcribError("say which: toolcrib sessions show ID")
    info = await crib.find_session(args.id)
    records = await crib.store.sessions.messages(info.id)
    if args.json:
        print(json.dumps({**asdict(info), "records": list(records)}, ensure_ascii=False, indent=2))
    else:
        print("\n".join([*conversation(info, records), *await _broken_off(crib, info.id, records)]))
    return OK


async def _export(crib: Crib, args: argparse.Namespace) -> int:
    from agent.exporting import export, form_of, write

    if not args.id:
        raise ToolcribError("say which: toolcrib sessions export ID")
    if args.output is not None:  # what a command of a session writes, the judge has to see
        refuse_below(folders_of(crib.config), "exporting into a file")
    info = await crib.find_session(args.id)
    records = await crib.store.sessions.messages(info.id)
    if args.output is None:
        print(export(info, records, args.format or "markdown"), end="")
    else:
        write(args.output, export(info, records, args.format or form_of(args.output)), force=args.force)
        print(f"{args.output}: written", file=sys.stderr)
    return OK


async def _fork(crib: Crib, args: argparse.Namespace) -> int:
    from agent.cli.escape import one_line
    from agent.conversation.forking import fork

    if not args.id:
        raise ToolcribError("say which: toolcrib sessions fork ID")
    refuse_below(folders_of(crib.config), "beginning a session with another one's end")
    info = await crib.find_session(args.id)
    made = await fork(crib.store, info, args.messages, window=crib.config.model.context_window)
    if args.json:
        print(json.dumps({**asdict(made), "parent": info.id}, ensure_ascii=False))
        return OK
    print(made.id)
    print(f"{made.records} of {info.messages} records; `toolcrib chat --resume {made.id[:12]}` continues it", file=sys.stderr)
    if made.unanswered:
        print(f"not answered, and left out: {one_line(made.unanswered, 300)}", file=sys.stderr)
    return OK


async def _prune(crib: Crib, args: argparse.Namespace) -> int:
    from agent.cli.drafts import forget_before
    from agent.cli.storing import kept_damaged
    from agent.cli.terminal import confirm_by_word, is_interactive
    from agent.config import state_dir

    if args.older_than is None or args.id:
        raise ToolcribError("say how old: toolcrib sessions prune --older-than 90d")
    before = time.time() - args.older_than
    number = await crib.store.old(before)
    question = (
        f"Forget {number} session{'' if number == 1 else 's'} for good, with their calls and what can be undone of them?"
        " (Those of `toolcrib call`, which are in no list, are counted too.)"
    )
    if number and not args.yes:
        if not is_interactive():
            raise ToolcribError(f"{question} Nobody can be asked here: add --yes")
        if not confirm_by_word(question):
            return FAILED
    number = await crib.store.prune(before)
    forget_before(state_dir() / "drafts", before)
    kept = kept_damaged(crib.config)
    if args.json:
        print(json.dumps({"forgotten": number, "damaged": kept} if kept else {"forgotten": number}))
        return OK
    print(f"forgotten: {number} session{'' if number == 1 else 's'}")
    if kept:
        print("not forgotten: what is in damaged files that repairs of the store have kept; remove them yourself")
        print("\n".join(f"  {path}" for path in kept))
    return OK


async def _broken_off(crib: Crib, session_id: str, records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what is known of the last calls where nothing followed them: they wait for somebody, or their process was killed
    or is still at it.
    """
    from agent.cli.escape import one_line, tame

    await _recover(crib, session_id)
    lines = []
    for call in (records[-1].get("calls") or ()) if records else ():
        known = await crib.store.ledger.get(session_id, call["id"])
        if known is not None and known.status.is_terminal and known.result is not None:
            sign = "✗" if known.result.is_error else "·"
            lines.append(f"  {sign} {tame(known.call.name)}  {known.status.value}: {one_line(str(known.result.message), 160)}")
        elif known is not None:
            lines.append(f"  · {tame(known.call.name)}  {known.status.value}")
    return lines


async def _recover(crib: Crib, session_id: str) -> None:
    """End the calls of a process that was killed. A process that lives holds the session's lease while calls run."""
    from agent.store._owner import new_owner
    from toolcrib._store import Fence

    lease = await crib.store.leases.take(session_id, new_owner(), _LEASE_SECONDS)
    if lease is not None:
        try:
            await crib.store.fenced(Fence(lease)).recover(session_id)
        finally:
            await crib.store.leases.release(lease)
