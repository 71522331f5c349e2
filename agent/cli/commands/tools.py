"""``toolcrib tools``: what there is, and why something is missing."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from agent.cli.app import OK, open_crib
from toolcrib import ToolcribError, ToolRegistry

NAME = "tools"
HELP = "List the tools, and why one is missing; `tools show NAME` prints a schema."
_EPILOG = """\
examples:
  toolcrib tools
  toolcrib tools --platform telegram
  toolcrib tools --json | jq '.[] | select(.granted | not)'
  toolcrib tools show terminal
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("action", nargs="?", choices=("list", "show"), default="list")
    parser.add_argument("name", nargs="?", help="the tool, for show")
    parser.add_argument("--platform", default="cli", help="as a session there sees them (default: cli)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as JSON: name, toolset, emoji, description, granted, reason")
    form.add_argument("--names", action="store_true", help="names only, of those that a session gets")


def run(args: argparse.Namespace) -> int:
    from agent.cli.render import first_sentence, table

    with open_crib(args) as crib:
        if args.action == "show" or args.name:
            return _show(crib.registry, args.name)
        lines = crib.explain(args.platform)
    if args.json:
        print(json.dumps([asdict(line) for line in lines], ensure_ascii=False, indent=2))
    elif args.names:
        print("\n".join(line.name for line in lines if line.granted))
    else:
        rows = [(line.emoji or "🔧", line.name, line.toolset, first_sentence(line.description)) for line in lines if line.granted]
        table(rows)
        missing = [("✗", line.name, line.toolset, line.reason or "") for line in lines if not line.granted]
        if missing:
            print(f"\nnot on {args.platform}:")
            table(missing)
    return OK


def _show(registry: ToolRegistry, name: str | None) -> int:
    entry = registry.get(name or "")
    if entry is None:
        near = registry.closest(name or "")
        hint = f"did you mean {near!r}?" if near else "`toolcrib tools` lists them"
        raise ToolcribError(f"there is no tool {name!r}; {hint}" if name else "name the tool: toolcrib tools show NAME")
    shown = registry.get_definitions([entry.name])  # as a model sees it, where it can work here
    function = shown[0]["function"] if shown else entry.schema
    print(json.dumps(function, ensure_ascii=False, indent=2, default=dict))
    return OK
