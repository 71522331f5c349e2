"""``toolcrib tools``: list tools, and why a tool is missing."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from agent.cli.app import OK, open_crib
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.registry import ToolRegistry

if TYPE_CHECKING:
    from agent.api import ToolLine

HELP = "List the tools with their costs, and why others are missing; show a schema; enable and disable tools."
_EPILOG = """\
examples:
  toolcrib tools                                     at a terminal: search, enable and disable tools
  toolcrib tools --platform telegram --user 12345    tools of a session of that user there
  toolcrib tools list                                the plain list, as in a pipe; same as --plain
  toolcrib tools --json | jq '.[] | select(.granted | not)'
  toolcrib tools show terminal
  toolcrib tools disable terminal patch --platform telegram
  toolcrib tools enable terminal

At a terminal a picker uses the whole screen: tools by toolset, [x] enabled, [ ] disabled, [-] missing for another reason. Type to
search names, descriptions and toolsets (Ctrl-U clears the search); arrow keys move. Below the list are the tool's purpose, why it
is missing and how to get it, and the cost of its schema in every request. Space enables or disables it; Enter shows the changes
and the users that they affect, and a second Enter writes them. Esc and Ctrl-C write nothing. With display.screen_reader, and on a
dumb terminal, the plain list is printed instead.

The picker, enable and disable change `tools.disabled`, or with --platform that platform's `disabled_tools`, in your
configuration. Costs are estimated tokens: a quarter of the bytes of the schema's JSON.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument(
        "action",
        nargs="?",
        choices=("list", "show", "enable", "disable"),
        help="what to do (default: the picker at a terminal, else list); see the examples below",
    )
    parser.add_argument("wanted", metavar="NAME", nargs="*", help="the tool, for show; the tools, for enable and disable")
    parser.add_argument(
        "--platform", help="tools of a session there (default: cli); for enable and disable, the platform to change"
    )
    parser.add_argument("--user", default="", help="tools of this user's sessions there, by the platform's user id")
    parser.add_argument("--plain", action="store_true", help="print the plain list even at a terminal")
    parser.add_argument(
        "--json", action="store_true", help="print JSON: name, toolset, emoji, description, granted, reason, fix, cost"
    )


def run(args: argparse.Namespace) -> int:
    from agent.cli.tool_switching import can_pick, pick_tools, switch

    with open_crib(args, looks=True, as_confirmed=args.action not in ("enable", "disable")) as crib:
        if args.action in ("enable", "disable"):
            return switch(crib, args)
        if args.action == "show" or args.wanted:
            return _show(crib.registry, args.wanted)
        if args.action is None and not (args.plain or args.json) and can_pick(crib):
            return pick_tools(crib, args)
        from agent.context.window import tokens_of_schema

        lines = crib.explain(args.platform or "cli", args.user)
        costs = {line.name: tokens_of_schema(crib.registry, line.name) for line in lines}
        in_words = crib.config.display.screen_reader
    if args.json:
        print(json.dumps([asdict(line) | {"cost": costs[line.name]} for line in lines], ensure_ascii=False, indent=2))
    else:
        _list(args, lines, costs, in_words=in_words)
    return OK


def _list(args: argparse.Namespace, lines: Sequence[ToolLine], costs: Mapping[str, int], *, in_words: bool) -> None:
    """Print the granted tools with their costs, and the missing tools with the reasons."""
    from agent.cli.render import first_sentence, table

    def cost(line: ToolLine) -> str:
        return f"{costs[line.name]:>6,}"

    granted, missing = [line for line in lines if line.granted], [line for line in lines if not line.granted]
    table(
        [
            (cost(line), "on:" if in_words else line.emoji or "🔧", line.name, line.toolset, first_sentence(line.description))
            for line in granted
        ],
        spare=[3],
    )
    print(f"{sum(costs[line.name] for line in granted):>6,}  tokens per request, for {len(granted)} tools")
    if missing:
        print(f"\nmissing on {args.platform or 'cli'}:")
        sign = "off:" if in_words else "✗"
        table([(cost(line), sign, line.name, line.toolset, line.why) for line in missing], spare=[3], wrap=True)


def _show(registry: ToolRegistry, names: Sequence[str]) -> int:
    from agent.cli.tool_switching import unknown

    if len(names) != 1:
        raise ToolcribError("give the tool: toolcrib tools show NAME")
    entry = registry.get(names[0])
    if entry is None:
        raise ToolcribError(unknown(registry, names[0]))
    shown = registry.get_definitions([entry.name])  # as a model sees it, if it is available here
    function = shown[0]["function"] if shown else entry.schema
    print(json.dumps(function, ensure_ascii=False, indent=2, default=dict))
    return OK
