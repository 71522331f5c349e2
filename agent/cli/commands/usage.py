"""``toolcrib usage``: tokens, cost, calls and time of sessions, by day, session, model or tool."""

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
    from collections.abc import Sequence

    from agent.process import Crib
    from agent.usage import UsageTotal
    from toolcrib.contract.store import Store

HELP = "Show the tokens, cost, calls and time of sessions: by day, session, model or tool."
_EPILOG = """\
examples:
  toolcrib usage                          tokens and cost of each day
  toolcrib usage --by model --since 30d
  toolcrib usage --by session --since 2026-11-01
  toolcrib usage --by tool --session 4f1c
  toolcrib usage --by day --json | jq '.[-1].cost'

Tokens are the servers' counts; CACHED is a part of INPUT, REASONING of OUTPUT. COST uses the model.prices of the time, in their
currency; a + after it means that some turns had no price, a ~ before it that it is estimated in US dollars by list prices
(genai-prices), since no model.prices were set. SECONDS is the time of all calls, MEAN that of one call. Usage of a
session is deleted with it (`toolcrib sessions prune`). Usage of delegates counts for the session that started them; a
line below that session (--by session), or the last line (--session), shows their part.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("--by", choices=BY, default="day", help="what each row shows (default: day)")
    parser.add_argument("--since", metavar="WHEN", type=_when, default=0.0, help="since when: an age such as 7d, or a date")
    parser.add_argument("--session", metavar="ID", default="", help="only this session (the beginning of its id)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _when(text: str) -> float:
    """Return Unix seconds, from a date such as ``2026-11-01`` (midnight in local time) or from an age."""
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
    from agent.cli.format_usage import format_total, session_rows, spare_of, told_parts, usage_rows
    from agent.cli.render import table
    from agent.usage import by_session, of_session, sums_of, total, totals

    store = crib.store
    session = (await crib.find_session(args.session)).id if args.session else None
    sums = await (store.usage.sums(since=args.since) if session is None else sums_of(store, session, args.since))
    if args.by != "session":
        found, each = totals(sums, args.by), []
    else:
        each = await by_session(store, sums) if session is None else [of_session(session, sums)] if sums else []
        found = [one.whole for one in each]
    if args.json:
        print(json.dumps([one.to_json() for one in each or found], ensure_ascii=False, indent=2))
        return OK
    if not found:
        print("nothing was used yet" if not args.since and session is None else "nothing was used in that time")
        return OK
    rows = session_rows(each, await _titles(store, found)) if each else usage_rows(found, args.by)
    table(rows, spare=spare_of(args.by), whole=range(1, 7))
    if session is None:
        print(f"total: {format_total(total(sums))}")
    else:
        whole, *part = told_parts(of_session(session, sums))
        print("\n".join([f"total: {whole}", *part]))
    return OK


async def _titles(store: Store, found: Sequence[UsageTotal]) -> dict[str, str]:
    from agent.cli.escape import one_line
    from agent.cli.session_format import descent_of

    known = [info for one in found if (info := await store.sessions.get(one.name)) is not None]
    return {info.id: f"{one_line(info.title, 40)}{descent_of(info)}" for info in known}
