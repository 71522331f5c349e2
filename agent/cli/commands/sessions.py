"""``toolcrib sessions``: what was said before, and how to go on with it."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from agent.cli.app import OK, open_crib
from toolcrib import ToolcribError

if TYPE_CHECKING:
    from agent.run import Crib

NAME = "sessions"
HELP = "List the stored sessions; `sessions show ID` prints one."
_EPILOG = """\
examples:
  toolcrib sessions
  toolcrib sessions --here
  toolcrib sessions show 4f1c
  toolcrib chat --resume 4f1c

The beginning of an id is enough where only one session begins so. `toolcrib trace ID` tells what was done in one.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("action", nargs="?", choices=("list", "show"), default="list")
    parser.add_argument("id", metavar="ID", nargs="?", default="", help="the session, for show")
    parser.add_argument("--here", action="store_true", help="only those of this folder")
    parser.add_argument("--limit", metavar="N", type=int, default=20, help="how many to list (default: 20)")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    with open_crib(args) as crib:
        if args.action == "show":
            return _show(crib, args)
        return _list(crib, args)


def _list(crib: Crib, args: argparse.Namespace) -> int:
    from agent.cli.render import table
    from agent.cli.stories import session_rows

    cwd = str(crib.project_dir) if args.here else None
    found = crib.store.sessions.list(max(1, args.limit), cwd=cwd)
    if args.json:
        print(json.dumps([asdict(info) for info in found], ensure_ascii=False, indent=2))
    elif found:
        table(session_rows(found, time.time()))
    else:
        print("no sessions yet; `toolcrib chat` begins one")
    return OK


def _show(crib: Crib, args: argparse.Namespace) -> int:
    from agent.cli.stories import conversation

    if not args.id:
        raise ToolcribError("say which: toolcrib sessions show ID")
    info = crib.store.sessions.get(args.id)
    if info is None:
        raise ToolcribError(f"no session begins with {args.id!r}; `toolcrib sessions` lists them")
    records = crib.store.sessions.messages(info.id)
    if args.json:
        print(json.dumps({**asdict(info), "records": list(records)}, ensure_ascii=False, indent=2))
    else:
        print("\n".join([*conversation(info, records), *_broken_off(crib, info.id, records)]))
    return OK


def _broken_off(crib: Crib, session_id: str, records: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What is known of the last calls where nothing followed them: their process was killed, or is still at it."""
    from agent.cli.escape import one_line, tame

    crib.store.recover(session_id)
    for call in (records[-1].get("calls") or ()) if records else ():
        known = crib.store.ledger.get(session_id, call["id"])
        if known is not None and known.status.is_terminal and known.result is not None:
            yield f"  ✗ {tame(known.call.name)}  {known.status.value}: {one_line(str(known.result.message), 160)}"
        elif known is not None:
            yield f"  · {tame(known.call.name)}  {known.status.value}"
