"""``toolcrib toolsets``: the bundles, what is in one, and what a platform gets."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from agent.cli.app import OK, open_crib

if TYPE_CHECKING:
    from agent.run import Crib

NAME = "toolsets"
HELP = "List the toolsets; what is in one, and what a platform gets."
_EPILOG = """\
examples:
  toolcrib toolsets
  toolcrib toolsets show coding
  toolcrib toolsets --platform telegram      what a chat there gets, and why not the rest
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("action", nargs="?", choices=("list", "show"), default="list")
    parser.add_argument("name", nargs="?", help="the toolset, for show")
    parser.add_argument("--platform", help="cli, gateway, telegram, api, cron or acp")


def run(args: argparse.Namespace) -> int:
    from toolcrib import ToolcribError

    with open_crib(args) as crib:
        if args.platform:
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
