"""``toolcrib tools``: what there is, and why something is missing."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from agent.cli.app import OK, open_crib
from toolcrib import ToolcribError, ToolRegistry

if TYPE_CHECKING:
    from agent.run import Crib

HELP = "List the tools, and why one is missing; show a schema; switch tools on and off."
_EPILOG = """\
examples:
  toolcrib tools
  toolcrib tools --platform telegram
  toolcrib tools --json | jq '.[] | select(.granted | not)'
  toolcrib tools show terminal
  toolcrib tools disable terminal patch --platform telegram
  toolcrib tools enable terminal

enable and disable change `tools.disabled`, or with --platform that platform's `disabled_tools`, in your configuration.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument(
        "action",
        nargs="?",
        choices=("list", "show", "enable", "disable"),
        default="list",
        help="what to do (default: list); the examples below show each",
    )
    parser.add_argument("wanted", metavar="NAME", nargs="*", help="the tool, for show; the tools, for enable and disable")
    parser.add_argument("--platform", help="as a session there sees them (default: cli); what to change, for enable and disable")
    parser.add_argument("--json", action="store_true", help="as JSON: name, toolset, emoji, description, granted, reason")


def run(args: argparse.Namespace) -> int:
    from agent.cli.render import first_sentence, table

    with open_crib(args, as_confirmed=args.action not in ("enable", "disable")) as crib:
        if args.action in ("enable", "disable"):
            return _switch(crib, args)
        if args.action == "show" or args.wanted:
            return _show(crib.registry, args.wanted)
        lines = crib.explain(args.platform or "cli")
    if args.json:
        print(json.dumps([asdict(line) for line in lines], ensure_ascii=False, indent=2))
    else:
        rows = [(line.emoji or "🔧", line.name, line.toolset, first_sentence(line.description)) for line in lines if line.granted]
        table(rows)
        missing = [("✗", line.name, line.toolset, line.reason or "") for line in lines if not line.granted]
        if missing:
            print(f"\nnot on {args.platform or 'cli'}:")
            table(missing)
    return OK


def _show(registry: ToolRegistry, names: Sequence[str]) -> int:
    if len(names) != 1:
        raise ToolcribError("name the tool: toolcrib tools show NAME")
    entry = registry.get(names[0])
    if entry is None:
        raise ToolcribError(_unknown(registry, names[0]))
    shown = registry.get_definitions([entry.name])  # as a model sees it, where it can work here
    function = shown[0]["function"] if shown else entry.schema
    print(json.dumps(function, ensure_ascii=False, indent=2, default=dict))
    return OK


def _unknown(registry: ToolRegistry, name: str) -> str:
    near = registry.closest(name)
    return f"there is no tool {name!r}; {f'did you mean {near!r}?' if near else '`toolcrib tools` lists them'}"


def _switch(crib: Crib, args: argparse.Namespace) -> int:
    """Off means in the list of disabled tools; a name that no tool has any more can still be taken out of it."""
    from agent.cli.confirming import set_as_person
    from agent.config import load_config

    if not args.wanted:
        raise ToolcribError(f"name the tools: toolcrib tools {args.action} NAME...")
    if crib.config.profile:
        raise ToolcribError(
            f"this changes the configuration itself, not the profile {crib.config.profile!r}; "
            f"for that: toolcrib config set profiles.{crib.config.profile}.tools.disabled '[...]'"
        )
    crib.explain(args.platform or "cli")  # an unknown platform raises
    config = load_config(crib.config.path, profile="")
    here = config.platforms.get(args.platform) if args.platform else None
    now = list(config.tools.disabled if not args.platform else here.disabled_tools if here else ())
    key = ["platforms", args.platform, "disabled_tools"] if args.platform else ["tools", "disabled"]
    for name in args.wanted:
        if name not in now and crib.registry.get(name) is None:
            raise ToolcribError(_unknown(crib.registry, name))
    wanted = dict.fromkeys(args.wanted)
    new = [*now, *(name for name in wanted if name not in now)]
    if args.action == "enable":
        new = [name for name in now if name not in wanted]
    if new == now:
        print(f"nothing to change: {'.'.join(key)} is {json.dumps(now)} in {config.path}")
    else:
        set_as_person(config.path, key, new)
        print(f"{'.'.join(key)}: {json.dumps(now)} -> {json.dumps(new)} in {config.path}")
    return _outcome(args, list(wanted))


def _outcome(args: argparse.Namespace, names: Sequence[str]) -> int:
    """Show the state that counts now, which may be another where another switch decides."""
    platform = args.platform or "cli"
    with open_crib(args) as crib:
        lines = {line.name: line for line in crib.explain(platform)}
    for name in names:
        line = lines.get(name)
        state = "no such tool is registered" if line is None else "on" if line.granted else f"off: {line.reason}"
        print(f"  {name} on {platform}: {state}")
    return OK
