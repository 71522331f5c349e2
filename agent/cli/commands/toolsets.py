"""``toolcrib toolsets``: the bundles, what is in one, and what a platform gets."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from agent.cli.app import OK, open_crib
from toolcrib import ToolcribError

if TYPE_CHECKING:
    from agent.run import Crib

HELP = "List the toolsets; what is in one, and what a platform or a user gets, with its cost."
ESTIMATE = "estimated: characters of the JSON / 4"
_EPILOG = """\
examples:
  toolcrib toolsets
  toolcrib toolsets show coding
  toolcrib toolsets --platform telegram      what a chat there gets, and why not the rest
  toolcrib toolsets resolve --platform telegram --user 12345 --explain

resolve tells what each schema costs in every request, in tokens: an estimate, the characters of its JSON / 4.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("action", nargs="?", choices=("list", "show", "resolve"), default="list")
    parser.add_argument("name", nargs="?", help="the toolset, for show")
    parser.add_argument("--platform", help="cli, gateway, telegram, api, cron or acp")
    parser.add_argument("--user", default="", help="with resolve: as the platform knows the user")
    parser.add_argument("--explain", action="store_true", help="with resolve: why the rest is missing")
    parser.add_argument("--json", action="store_true", help="with resolve: as JSON")


def run(args: argparse.Namespace) -> int:
    if args.action != "resolve" and (args.user or args.explain or args.json):
        raise ToolcribError("--user, --explain and --json belong to `toolsets resolve`")
    with open_crib(args) as crib:
        if args.action == "resolve":
            _resolve(crib, args)
        elif args.platform:
            _platform(crib, args.platform)
        elif args.action == "list":
            _list(crib)
        elif args.name:
            _show(crib, args.name)
        else:
            raise ToolcribError("name the toolset: toolcrib toolsets show NAME")
    return OK


def _list(crib: Crib) -> None:
    from agent.cli.render import table

    rows = []
    for name in crib.catalog.names():
        here = [tool for tool in crib.catalog.resolve(name) if crib.registry.get(tool) is not None]
        source = crib.catalog.added.get(name)
        text = crib.catalog.describe(name) + (f" (from {source})" if source else "")
        rows.append((name, f"{len(here)} tool{'' if len(here) == 1 else 's'}", text))
    table(rows)


def _show(crib: Crib, name: str) -> None:
    from agent.cli.render import first_sentence, table

    tools = crib.catalog.resolve(name)
    reasons = crib.registry.availability()
    print(crib.catalog.describe(name))
    rows = []
    for tool in tools:
        entry = crib.registry.get(tool)
        if entry is None:
            rows.append(("✗", tool, "no such tool is registered here"))
        elif reasons[tool] is not None:
            rows.append(("✗", tool, f"missing: {reasons[tool]}"))
        else:
            rows.append((entry.emoji or "🔧", tool, first_sentence(entry.description)))
    table(rows)


def _platform(crib: Crib, platform: str) -> None:
    from agent.cli.render import first_sentence, table

    lines = crib.explain(platform)
    print(f"a session on {platform} gets:")
    table([("  " + (line.emoji or "🔧"), line.name, first_sentence(line.description)) for line in lines if line.granted])
    missing = [("  ✗", line.name, line.reason or "") for line in lines if not line.granted]
    if missing:
        print("and not:")
        table(missing)


def _resolve(crib: Crib, args: argparse.Namespace) -> None:
    import json

    from agent.cli.render import table

    platform = args.platform or "cli"
    lines = crib.explain(platform, user=args.user)
    costs = {line.name: _tokens(crib, line.name) for line in lines if line.granted}
    if args.json:
        tools = [
            {"name": line.name, "toolset": line.toolset, "granted": line.granted, "reason": line.reason}
            | {"tokens": costs.get(line.name)}
            for line in lines
        ]
        whole = {"platform": platform, "user": args.user, "tools": tools, "tokens": sum(costs.values()), "estimate": ESTIMATE}
        print(json.dumps(whole, ensure_ascii=False, indent=2))
        return
    who = f"{platform}, user {args.user}" if args.user else platform
    print(f"a session on {who} gets:")
    table(
        [(f"  {line.emoji or '🔧'}", line.name, line.toolset, f"{costs[line.name]:,} tokens") for line in lines if line.granted]
    )
    print(f"{len(costs)} tools, {sum(costs.values()):,} tokens a request ({ESTIMATE})")
    missing = [("  ✗", line.name, line.toolset, line.reason or "") for line in lines if not line.granted]
    if missing and args.explain:
        print("and not:")
        table(missing)
    elif missing:
        print(f"{len(missing)} others are not granted; --explain says why")


def _tokens(crib: Crib, name: str) -> int:
    import json

    return sum(len(json.dumps(one, ensure_ascii=False, default=dict)) for one in crib.registry.get_definitions([name])) // 4
