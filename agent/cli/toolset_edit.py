"""``toolcrib toolsets create``, ``edit`` and ``delete``: change toolsets.custom in the user's configuration."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent.cli.app import OK, UNASKED, open_crib
from agent.cli.config_impact import changes, everybody, granted
from agent.cli.confirming import set_as_person, unset_as_person
from agent.config import Config, CustomToolset, load_config
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.suggest import near


def edit(args: argparse.Namespace) -> int:
    """Change one toolset, and print whose tools change. Return the exit code. Raises ToolcribError for an invalid change."""
    with open_crib(args) as crib:
        custom, project = crib.config.toolsets.custom, crib.project_dir
        known = {"tool": crib.registry.names(), "toolset": crib.catalog.names()}
        taken = args.name in known["toolset"] and args.name not in custom
        before = crib.config
    if args.action == "create" and args.name in known["toolset"]:
        how = f"to change it: toolcrib toolsets edit {args.name}" if args.name in custom else "choose another name"
        raise ToolcribError(f"a toolset {args.name!r} already exists; {how}")
    if args.action != "create" and args.name not in custom:
        alike = near(args.name, custom)
        meant = f"; did you mean {alike[0]!r}?" if alike else f"; yours: {', '.join(custom) or 'none'}"
        why = "comes with toolcrib or a plugin, so it cannot be changed" if taken else "does not exist"
        raise ToolcribError(f"the toolset {args.name!r} {why}{meant}")
    key = ("toolsets", "custom", args.name)
    if args.action == "delete":
        if used := list(_uses(before, args.name)):
            raise ToolcribError(f"{args.name} is in use: remove it from {', '.join(used)} first")
        counts = unset_as_person(args.config, key)
    else:
        counts = set_as_person(args.config, key, _definition(args, custom.get(args.name, CustomToolset()), known))
    return _told(before, args.config, project, args, counts=counts)


def _uses(config: Config, name: str) -> Iterator[str]:
    """Yield each configuration key whose value names the toolset, with the file and line that set it."""
    lists: list[tuple[str, Sequence[str]]] = [
        ("toolsets.enabled", config.toolsets.enabled or ()),
        ("toolsets.disabled", config.toolsets.disabled),
    ]
    lists += [(f"toolsets.custom.{other}.includes", one.includes) for other, one in config.toolsets.custom.items()]
    lists += [(f"platforms.{other}.enabled_toolsets", one.enabled_toolsets or ()) for other, one in config.platforms.items()]
    lists += [(f"platforms.{other}.disabled_toolsets", one.disabled_toolsets) for other, one in config.platforms.items()]
    lists += [(f"users.{other}.disabled_toolsets", one.disabled_toolsets) for other, one in config.users.items()]
    yield from (f"{key} ({config.origin(key)})" for key, names in lists if name in names)


def _definition(args: argparse.Namespace, old: CustomToolset, known: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the toolset's new definition. Raises ToolcribError for unknown names, and if the toolset would include itself."""
    if args.name in args.include:
        raise ToolcribError(f"the toolset {args.name!r} cannot include itself; remove it from --include")
    added = {"tool": args.tools or args.add, "toolset": args.include}
    gone = {"tool": (args.drop, old.tools), "toolset": (args.exclude, old.includes)}
    for kind, names in added.items():
        for name in names:
            if name not in known[kind]:
                alike = near(name, known[kind])
                meant = f"did you mean {alike[0]!r}?" if alike else "first enable the plugin that adds it"
                raise ToolcribError(f"unknown {kind} {name!r}; {meant}")
    for kind, (names, there) in gone.items():
        for name in names:
            if name not in there:
                raise ToolcribError(f"{args.name} has no {kind} {name!r} of its own (it has: {', '.join(there) or 'none'})")
    tools = [name for name in dict.fromkeys((*old.tools, *added["tool"])) if name not in args.drop]
    includes = [name for name in dict.fromkeys((*old.includes, *added["toolset"])) if name not in args.exclude]
    definition = {"description": old.description if args.description is None else args.description}
    return {**definition, **({"tools": tools} if tools else {}), **({"includes": includes} if includes else {})}


def _told(before: Config, file: Path | None, project: Path, args: argparse.Namespace, *, counts: bool) -> int:
    after = load_config(file, project_dir=project)
    who = everybody(before, after)
    done = {"create": "created", "edit": "changed", "delete": "deleted"}[args.action]
    print(f"{args.name}: {done} in {after.path}{'' if counts else ', but not confirmed yet'}")
    lines = list(changes(granted(before, project, who), granted(after, project, who)))
    print("\n".join(["this changes:", *(f"  {line}" for line in lines)] if lines else ["no user gets other tools or approvals"]))
    return OK if counts else UNASKED
