"""``toolcrib toolsets``: the toolsets, their tools, and the tools of a platform."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from agent.cli.app import OK, mistyped, open_crib
from toolcrib.contract.errors import ToolcribError

if TYPE_CHECKING:
    from agent.api import Crib

HELP = "List toolsets and their tools; show what a platform or a user gets, and why; create and change your own."
ESTIMATE = "estimated: characters of the JSON / 4"
_EPILOG = """\
examples:
  toolcrib toolsets
  toolcrib toolsets show coding
  toolcrib toolsets show coding --platform telegram
  toolcrib toolsets --platform telegram      tools of a chat there, and why others are missing
  toolcrib toolsets resolve --platform telegram --user 12345 --explain
  toolcrib toolsets resolve --with 'tools.disabled=[terminal]'     preview a change before you make it
  toolcrib toolsets create research --tools read_file,search_files --include todo --description 'Looks'
  toolcrib toolsets edit research --add patch --drop search_files
  toolcrib toolsets diff coding research
  toolcrib toolsets diff cli telegram --platforms
  toolcrib toolsets delete research

resolve shows the cost of each schema in every request, in tokens (estimated: the characters of its JSON / 4), and how calls are
approved: the mode, your rules for these tools, and permanent grants (with --json as `approval`). diff compares these too. create,
edit and delete change toolsets.custom in your configuration, and report whose tools or approvals change.

exit codes: 0 done, 1 failed, 2 wrong command line, name or configuration (nothing was done), 130 interrupted,
4 the toolset was written, but nothing starts until a user confirms it.
"""
_OWN = ("resolve", "create", "edit", "diff", "delete")
_OPTIONS = {
    "user": ("resolve",),
    "explain": ("resolve",),
    "json": ("resolve",),
    "changed": ("resolve",),
    "platforms": ("diff",),
    "tools": ("create",),
    "add": ("edit",),
    "drop": ("edit",),
    "exclude": ("edit",),
    "include": ("create", "edit"),
    "description": ("create", "edit"),
}
"""Option -> the actions that accept it."""
_SHOWN = {"changed": "with"}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument(
        "action",
        nargs="?",
        choices=("list", "show", *_OWN),
        default="list",
        help="what to do (default: list); see the examples below",
    )
    parser.add_argument("name", metavar="NAME", nargs="?", help="the toolset; with diff: the first one")
    parser.add_argument("other", metavar="OTHER", nargs="?", help="with diff: the second one")
    parser.add_argument("--platform", help="cli, gateway, telegram, api, cron or acp")
    parser.add_argument("--user", default="", help="with resolve: the platform's user id")
    parser.add_argument("--explain", action="store_true", help="with resolve: show why other tools are missing")
    parser.add_argument("--json", action="store_true", help="with resolve: print JSON")
    parser.add_argument(
        "--with",
        dest="changed",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="with resolve: preview this setting and what it changes; may be repeated",
    )
    parser.add_argument("--platforms", action="store_true", help="with diff: the names are platforms")
    parser.add_argument("--tools", metavar="NAMES", type=_names, help="with create: tools, separated by commas")
    parser.add_argument("--add", metavar="NAMES", type=_names, default=(), help="with edit: tools to add")
    parser.add_argument("--drop", metavar="NAMES", type=_names, default=(), help="with edit: tools to remove")
    parser.add_argument("--include", metavar="NAMES", type=_names, default=(), help="with create and edit: toolsets to include")
    parser.add_argument("--exclude", metavar="NAMES", type=_names, default=(), help="with edit: included toolsets to remove")
    parser.add_argument("--description", metavar="TEXT", help="with create and edit: its purpose")


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def run(args: argparse.Namespace) -> int:
    for option, actions in _OPTIONS.items():
        if getattr(args, option) and args.action not in actions:
            raise ToolcribError(f"--{_SHOWN.get(option, option)} needs `toolsets {' or '.join(actions)}`")
    needs = {"show": ("NAME",), "create": ("NAME",), "edit": ("NAME",), "delete": ("NAME",), "diff": ("NAME", "OTHER")}
    if any(getattr(args, word.lower()) is None for word in needs.get(args.action, ())):
        raise ToolcribError(f"give the toolset: toolcrib toolsets {args.action} {' '.join(needs[args.action])}")
    if args.other is not None and args.action != "diff":
        raise ToolcribError(f"`toolsets {args.action}` takes one name; write lists as a,b")
    if args.action in ("create", "edit", "delete"):
        from agent.cli.toolset_edit import edit

        return edit(args)
    with open_crib(args, looks=True, as_confirmed=True) as crib:
        if args.action == "resolve":
            _resolve(crib, args)
        elif args.action == "diff":
            _diff(crib, args)
        elif args.action == "show":
            _show(crib, args.name, args.platform or crib.catalog.platform_of(args.name))
        elif args.platform:
            _platform(crib, args.platform)
        else:
            _list(crib)
    return OK


def _diff(crib: Crib, args: argparse.Namespace) -> None:
    """Print the tools that only one of the two toolsets or platforms has, their common tools, and how approvals differ."""
    from agent.cli.config_impact import other_approval
    from agent.cli.escape import tame
    from agent.cli.render import table
    from agent.policy.permissions import permissions_by

    both = [_granted(crib, name) if args.platforms else crib.catalog.resolve(name) for name in (args.name, args.other)]
    rows = [("-", name, f"only in {args.name}") for name in both[0] if name not in both[1]]
    rows += [("+", name, f"only in {args.other}") for name in both[1] if name not in both[0]]
    rows += [(" ", name, "") for name in both[0] if name in both[1]]
    table(rows)
    platforms = (args.name, args.other) if args.platforms else ("cli", "cli")
    first, second = (
        permissions_by(crib.config, platform, tools, crib.registry).lines()
        for platform, tools in zip(platforms, both, strict=True)
    )
    print("\n".join(map(tame, other_approval(first, second))) or "calls of both are approved the same way")


def _granted(crib: Crib, platform: str) -> list[str]:
    return [line.name for line in crib.explain(platform) if line.granted]


def _list(crib: Crib) -> None:
    from agent.cli.render import table

    rows, missing = [], crib.default.missing_tools()
    for name in crib.catalog.names():
        here = [tool for tool in crib.catalog.resolve(name) if crib.registry.get(tool) is not None]
        off = sum(tool in missing for tool in here)
        source = crib.catalog.added.get(name)
        text = crib.catalog.describe(name) + (f" (from {source})" if source else "")
        is_available = crib.catalog.is_available(name) and off < len(here)
        state = f" ({off} missing)" if off and is_available else "" if is_available else " (unavailable)"
        rows.append((name, f"{len(here)} tool{'' if len(here) == 1 else 's'}{state}", text))
    table(rows)


def _show(crib: Crib, name: str, platform: str) -> None:
    """Print the tools of a toolset, with the reason for each tool that sessions of the platform ("" for any) do not get."""
    from agent.cli.render import first_sentence, table

    tools = crib.catalog.resolve(name)
    lines = crib.explain(platform) if platform else ()
    missing = {line.name: line.why for line in lines if not line.granted} if platform else crib.default.missing_tools()
    print(crib.catalog.describe(name))
    rows = []
    for tool in tools:
        entry = crib.registry.get(tool)
        if entry is None:
            rows.append(("✗", tool, "no such tool here"))
        elif tool in missing:
            rows.append(("✗", tool, f"missing: {missing[tool]}"))
        else:
            rows.append((entry.emoji or "🔧", tool, first_sentence(entry.description)))
    table(rows, wrap=True)


def _platform(crib: Crib, platform: str) -> None:
    from agent.cli.render import first_sentence, table

    lines = crib.explain(platform)
    print(f"a session on {platform} gets:")
    table([("  " + (line.emoji or "🔧"), line.name, first_sentence(line.description)) for line in lines if line.granted])
    missing = [("  ✗", line.name, line.why) for line in lines if not line.granted]
    if missing:
        print("and does not get:")
        table(missing, wrap=True)


def _resolve(crib: Crib, args: argparse.Namespace) -> None:
    import json
    from dataclasses import asdict

    from agent.cli.escape import tame
    from agent.cli.render import table
    from agent.context.window import tokens_of_schema
    from agent.policy.permissions import permissions_of

    platform = args.platform or "cli"
    if args.changed:
        _would(crib, args, platform)
        return
    lines = crib.explain(platform, user=args.user)
    costs = {line.name: tokens_of_schema(crib.registry, line.name) for line in lines if line.granted}
    approval = permissions_of(crib.default, platform, list(costs), args.user)
    if args.json:
        tools = [
            {"name": line.name, "toolset": line.toolset, "granted": line.granted, "reason": line.reason}
            | {"tokens": costs.get(line.name)}
            for line in lines
        ]
        whole = {"platform": platform, "user": args.user, "tools": tools, "tokens": sum(costs.values()), "estimate": ESTIMATE}
        whole["approval"] = asdict(approval)
        print(json.dumps(whole, ensure_ascii=False, indent=2))
        return
    who = f"{platform}, user {args.user}" if args.user else platform
    print(f"a session on {who} gets:")
    table(
        [(f"  {line.emoji or '🔧'}", line.name, line.toolset, f"{costs[line.name]:,} tokens") for line in lines if line.granted]
    )
    print(f"{len(costs)} tools, {sum(costs.values()):,} tokens per request ({ESTIMATE})")
    missing = [("  ✗", line.name, line.toolset, line.why) for line in lines if not line.granted]
    if missing and args.explain:
        print("and does not get:")
        table(missing, wrap=True)
    elif missing:
        print(f"{len(missing)} {'other is' if len(missing) == 1 else 'others are'} missing; --explain shows why")
    print("approval of its calls:")
    print("\n".join(f"  {tame(line)}" for line in approval.lines()))


def _would(crib: Crib, args: argparse.Namespace, platform: str) -> None:
    """Print how a change of the configuration would affect the tools and approvals of all users, or of the named user."""
    from agent.cli.config_impact import changes, everybody, granted
    from agent.config import find_key, parse_value, preview

    values = []
    for text in args.changed:
        key, equals, value = text.partition("=")
        if not equals:
            raise ToolcribError(f"--with expects KEY=VALUE, such as 'tools.disabled=[terminal]', got {text!r}")
        parts, hint = find_key(key.strip())
        values.append((parts, parse_value(value, hint)))
    config = preview(args.config, values, project_dir=crib.project_dir)
    for notice in mistyped(config, crib.registry):
        if notice not in mistyped(crib.config, crib.registry):
            print(f"toolcrib: {notice.removeprefix(f'{config.path}: ')}", file=sys.stderr)
    who = [(platform, args.user)] if args.platform or args.user else everybody(crib.config, config)
    lines = list(changes(granted(crib.config, crib.project_dir, who), granted(config, crib.project_dir, who)))
    print(
        "\n".join(
            ["this would change:", *(f"  {line}" for line in lines)] if lines else ["no user would get other tools or approvals"]
        )
    )
