"""``toolcrib usage``: what sessions took, by day, session, model or tool."""

from __future__ import annotations

import argparse
import json
import time
from datetime import date, datetime
from typing import TYPE_CHECKING

from agent.cli.app import OK, open_crib
from agent.cli.options import age
from agent.usage import BY

if TYPE_CHECKING:
    from agent.crib import Crib

HELP = "Show the tokens, cost, calls and time that sessions took: by day, session, model or tool."
_EPILOG = """\
examples:
  toolcrib usage                          tokens and cost of each day
  toolcrib usage --by model --since 30d
  toolcrib usage --by session --since 2026-11-01
  toolcrib usage --by tool --session 4f1c
  toolcrib usage --by day --json | jq '.[-1].cost'

Tokens are as the servers count them; CACHED is a part of INPUT, REASONING of OUTPUT. COST is by model.prices at the time, in
their currency; a + behind it says that some turns had no price. SECONDS are those of calls, MEAN is that of one. What a session
took is forgotten with it (`toolcrib sessions prune`). Delegates have rows of their own by session, and are in all other rows;
with --session a last line says what that session took with its delegates.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("--by", choices=BY, default="day", help="what a row is for (default: day)")
    parser.add_argument("--since", metavar="WHEN", type=_when, default=0.0, help="from then on: an age such as 7d, or a date")
    parser.add_argument("--session", metavar="ID", default="", help="of this session only; the beginning of its id is enough")
    parser.add_argument("--json", action="store_true", help="as JSON")


def _when(text: str) -> float:
    """Return Unix seconds, from ``2026-11-01`` (its beginning here) or from an age."""
    try:
        return datetime.combine(date.fromisoformat(text), datetime.min.time()).timestamp()
    except ValueError:
        pass
    try:
        return time.time() - age(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"expected an age such as 12h or 7d, or a date such as 2026-11-01, got {text!r}"
        ) from None


def run(args: argparse.Namespace) -> int:
    from tools.dispatch.bridge import run_async

    with open_crib(args, looks=True, as_confirmed=True) as crib:
        return run_async(_show(crib, args))


async def _show(crib: Crib, args: argparse.Namespace) -> int:
    from agent.cli.escape import one_line
    from agent.cli.render import table
    from agent.cli.stories import descent_of
    from agent.cli.using import spare_of, told, told_with, usage_rows
    from agent.conversation.lineage import PARENT, is_delegate
    from agent.usage import total, totals, with_delegates

    session = (await crib.find_session(args.session)).id if args.session else None
    sums = await crib.store.usage.sums(since=args.since, session_id=session)
    found = totals(sums, args.by)
    titles, parents = {}, {}
    if args.by == "session":
        known = [info for one in found if (info := await crib.store.sessions.get(one.name)) is not None]
        titles = {info.id: f"{one_line(info.title, 40)}{descent_of(info)}" for info in known}
        parents = {info.id: info.place[PARENT] for info in known if is_delegate(info.place)}
    if args.json:
        told_of = [one.to_json() | ({"delegate_of": parents[one.name]} if one.name in parents else {}) for one in found]
        print(json.dumps(told_of, ensure_ascii=False, indent=2))
        return OK
    if not found:
        print("nothing was used yet" if not args.since and session is None else "nothing was used in that time")
        return OK
    table(usage_rows(found, args.by, titles), spare=spare_of(args.by), whole=range(1, 7))
    print(f"in all: {told(total(sums))}")
    if session is not None:
        delegates, together = await with_delegates(crib.store, session, args.since)
        if delegates:
            print(told_with(delegates, together))
    return OK
