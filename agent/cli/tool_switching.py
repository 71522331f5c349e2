"""Switch tools on and off: by name, or in a picker on the whole terminal."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from agent.cli.app import OK, UNASKED, open_crib
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.registry import ToolRegistry

if TYPE_CHECKING:
    from agent.api import Crib
    from agent.cli.toolpicker import SwitchableTool
    from agent.config import Config


def unknown(registry: ToolRegistry, name: str) -> str:
    """Return a message about an unknown tool, with the nearest name."""
    near = registry.closest(name)
    return f"unknown tool {name!r}; {f'did you mean {near!r}?' if near else 'list tools: toolcrib tools'}"


def switch(crib: Crib, args: argparse.Namespace) -> int:
    """Add tools to the list of disabled tools, or remove them from it, even tools that no longer exist. Return the exit code.

    Raises ToolcribError.
    """
    if not args.wanted:
        raise ToolcribError(f"give the tools: toolcrib tools {args.action} NAME...")
    if args.user:
        raise ToolcribError(f"--user only shows tools; to change one user's: {_of_user(args)}")
    if why := _of_profile(crib.config):
        raise ToolcribError(why)
    crib.explain(args.platform or "cli")  # raises if the platform is unknown
    now = _list_of(crib.config, args.platform)
    for name in args.wanted:
        if name not in now and crib.registry.get(name) is None:
            raise ToolcribError(unknown(crib.registry, name))
    names = list(dict.fromkeys(args.wanted))
    _write(crib.config, args.platform, *((names, []) if args.action == "enable" else ([], names)))
    return _outcome(args, names)


def _of_user(args: argparse.Namespace) -> str:
    who = f"{args.platform}:{args.user}" if args.platform else args.user
    return f"toolcrib config set users.{who}.disabled_tools '[...]'"


def _of_profile(config: Config) -> str:
    if not config.profile:
        return ""
    return (
        f"this changes the configuration itself, not the profile {config.profile!r}; "
        f"to change that: toolcrib config set profiles.{config.profile}.tools.disabled '[...]'"
    )


def _key(platform: str | None) -> list[str]:
    return ["platforms", platform, "disabled_tools"] if platform else ["tools", "disabled"]


def _list_of(config: Config, platform: str | None) -> list[str]:
    """Return the disabled tools that the file itself lists, without additions by a profile or the project."""
    from agent.config import load_config

    written = load_config(config.path, profile="")
    here = written.platforms.get(platform) if platform else None
    return list(written.tools.disabled if not platform else here.disabled_tools if here else ())


def _switched(now: Sequence[str], on: Sequence[str], off: Sequence[str]) -> list[str]:
    return [*(name for name in now if name not in on), *(name for name in off if name not in now)]


def _write(config: Config, platform: str | None, on: Sequence[str], off: Sequence[str]) -> bool:
    """Write the list, and print it. Return False if it needs the user's confirmation."""
    from agent.cli.confirming import set_as_person

    key, now = _key(platform), _list_of(config, platform)
    new = _switched(now, on, off)
    if new == now:
        print(f"nothing to change: {'.'.join(key)} is {json.dumps(now)} in {config.path}")
        return True
    counts = set_as_person(config.path, key, new)
    print(f"{'.'.join(key)}: {json.dumps(now)} -> {json.dumps(new)} in {config.path}")
    return counts


def _outcome(args: argparse.Namespace, names: Sequence[str]) -> int:
    """Print the resulting state of the tools, which may depend on another setting. Return the exit code."""
    platform = args.platform or "cli"
    with open_crib(args, looks=True) as crib:
        lines = {line.name: line for line in crib.explain(platform, args.user)}
    for name in names:
        line = lines.get(name)
        state = "no such tool" if line is None else "on" if line.granted else f"off: {line.reason}"
        print(f"  {name} on {platform}: {state}")
    return OK


def can_pick(crib: Crib) -> bool:
    """Return whether the picker can run: a user is at a terminal that can draw a screen, and does not use a screen reader."""
    from agent.cli.terminal import is_interactive

    painted = os.environ.get("TERM", "dumb") not in ("", "dumb") and not crib.config.display.screen_reader
    return painted and is_interactive()


def pick_tools(crib: Crib, args: argparse.Namespace) -> int:
    """Run the picker, and write the changes that the user accepts. Return the exit code: UNASKED if they need confirmation."""
    from agent.cli.screen.picker import pick
    from agent.cli.terminal import forget_what_was_typed
    from agent.cli.toolpicker import ToolPicker

    platform, config = args.platform or "cli", crib.config
    who = (platform, args.user)

    def effect(on: Sequence[str], off: Sequence[str]) -> list[str]:
        from agent.cli.config_impact import changes, everybody, granted
        from agent.config import load_config, preview

        now = _list_of(config, args.platform)
        new = _switched(now, on, off)
        before = load_config(config.path, project_dir=crib.project_dir)
        after = preview(config.path, [(_key(args.platform), new)], project_dir=crib.project_dir)
        people = dict.fromkeys([*everybody(before, after), who])
        lines = changes(granted(before, crib.project_dir, [*people]), granted(after, crib.project_dir, [*people]))
        return [
            f"{'.'.join(_key(args.platform))}: {json.dumps(now)} -> {json.dumps(new)}",
            f"in {config.path}",
            *([f"not only for the user {args.user}; for that: {_of_user(args)}"] if args.user else []),
            *(list(lines) or ["no user gets other tools or approvals"]),
        ]

    title = f"Tools of a session on {platform}{f', user {args.user}' if args.user else ''}"
    picker = ToolPicker(_tools(crib, args), title, ".".join(_key(args.platform)), effect, _locked(crib))
    forget_what_was_typed(sys.stdin)
    if pick(picker) == "leave":
        if any(picker.changed):
            print("nothing was changed")
        return OK
    on, off = picker.changed
    counts = _write(config, args.platform, on, off)
    return _outcome(args, [*on, *off]) if counts else UNASKED


def _locked(crib: Crib) -> str:
    """Return why tools can't be switched here, or ""."""
    from agent.config import load_config
    from agent.policy.confirmation import unconfirmed
    from agent.policy.self_protection import folders_of, is_below, is_below_any

    if is_below_any() or is_below(folders_of(crib.config)):
        return "only a user may switch tools, not a command of a session"
    if unconfirmed(load_config(crib.config.path, profile=""), keep=False):
        return "the configuration has unconfirmed changes: toolcrib config confirm"
    return _of_profile(crib.config)


def _tools(crib: Crib, args: argparse.Namespace) -> list[SwitchableTool]:
    """Return the tools. ``missing`` is why a tool would be missing even if the list that the picker changes were empty."""
    from agent.cli.toolpicker import SwitchableTool, by_toolset
    from agent.context.window import tokens_of_schema

    platform, listed = args.platform or "cli", _list_of(crib.config, args.platform)
    beside = _without_list(crib, args, platform) if listed else {}
    found = []
    for line in crib.explain(platform, args.user):
        reason, fix = beside.get(line.name, (line.reason, line.fix))
        cost, is_off = tokens_of_schema(crib.registry, line.name), line.name in listed
        found.append(SwitchableTool(line, cost, reason or "", fix, is_off, is_off))
    return by_toolset(found)


def _without_list(crib: Crib, args: argparse.Namespace, platform: str) -> Mapping[str, tuple[str | None, str]]:
    """Return why each tool would be missing if the list of disabled tools were empty, and how to get it."""
    from agent.api import assemble
    from agent.config import preview
    from agent.store.memory import MemoryStore

    config = preview(crib.config.path, [(_key(args.platform), [])], profile=crib.config.profile, project_dir=crib.project_dir)
    with assemble(config=config, project_dir=crib.project_dir, store=MemoryStore()) as other:
        return {line.name: (line.reason, line.fix) for line in other.explain(platform, args.user)}
