"""``toolcrib plugins``: list plugins with their state and errors; enable, disable and trust them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent.cli.app import FAILED, OK, UNASKED, open_crib
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.paths import real_path

if TYPE_CHECKING:
    from agent.api import Crib
    from agent.plugin_host.plugins import PluginInfo

HELP = "List plugins with their sources, state and errors. Create, enable, disable and trust them."
_EPILOG = """\
examples:
  toolcrib plugins
  toolcrib plugins info hello         its hooks and tools; a plugin that is not enabled is not loaded for this
  toolcrib plugins new weather        create a plugin with a first tool and enable it: `toolcrib call weather` runs it
  toolcrib plugins enable hello       for new sessions; disable reverts it
  toolcrib plugins trust              trust this project's own plugins in their current state (at a terminal); read them first

A plugin runs with all your rights, so none is loaded until you name it in the configuration, as enable does:
  plugins:
    enabled: [hello]

exit codes: 0 done; 1 the plugin is enabled but cannot be loaded; 2 wrong command line, name or configuration (nothing was done);
4 the plugin was enabled or disabled, which applies only after a user confirms it (`toolcrib config confirm`).
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument(
        "action",
        nargs="?",
        choices=("list", "info", "new", "enable", "disable", "trust"),
        default="list",
        help="what to do (default: list); see the examples below",
    )
    parser.add_argument("name", metavar="NAME", nargs="?", help="the plugin, for info, new, enable and disable")


def run(args: argparse.Namespace) -> int:
    if args.action in ("info", "new", "enable", "disable") and not args.name:
        raise ToolcribError(f"give the plugin: toolcrib plugins {args.action} NAME")
    if args.action in ("list", "trust") and args.name:
        raise ToolcribError(f"`plugins {args.action}` takes no name")
    actions = {"list": _list, "info": _info, "new": _new, "enable": _enable, "disable": _disable, "trust": _trust}
    return actions[args.action](args)


def _list(args: argparse.Namespace) -> int:
    from agent.cli.checks import check_added
    from agent.cli.logs import shown_otherwise
    from agent.cli.render import table
    from agent.plugin_host.plugins import discover

    with shown_otherwise(), open_crib(args) as crib:
        found = discover(crib.config, crib.project_dir)
        outcomes = {(info.name, info.source, info.where): info for info in crib.plugins}
        added = [finding.text for finding in check_added(crib)]
    rows = [("NAME", "SOURCE", "VERSION", "STATE", "WHERE")]
    faults = []
    for plain in found:
        info = outcomes.get((plain.name, plain.source, plain.where), plain)
        rows.append((info.name, info.source, info.version or "-", _state(info), info.where))
        if info.error:
            faults.append(f"{info.name}: {info.error}")
    faults += added
    table(rows)
    if all(info.source == "bundled" for info in found):
        faults.append(f"only toolcrib's own plugins; install others, or put them into {crib.config.folder / 'plugins'}")
    if faults:
        print("\n" + "\n".join(faults))
    return OK


def _state(info: PluginInfo) -> str:
    if info.loaded:
        return "loaded"
    return "failed" if info.error and info.enabled else "not trusted" if not info.trusted else "off"


def _info(args: argparse.Namespace) -> int:
    from agent.cli.escape import tame
    from agent.cli.logs import shown_otherwise
    from agent.plugin_host.plugins import discover

    with shown_otherwise(), open_crib(args) as crib:
        plain = _named(discover(crib.config, crib.project_dir), args.name)
        info = next((one for one in crib.plugins if (one.name, one.where) == (plain.name, plain.where)), plain)
        lines = [f"{info.name} {info.version}".rstrip(), f"  {_state(info)}; from {info.source}: {info.where}"]
        lines += [f"  {info.error}"] if info.error else []
        lines += _has(crib, info) if info.loaded else ["  its hooks and tools are known once it is loaded"]
    print("\n".join(map(tame, lines)))
    return OK


def _has(crib: Crib, info: PluginInfo) -> Iterator[str]:
    """Yield lines with the hooks and tools of a loaded plugin."""
    manager = crib.dispatcher.hooks
    plugin = manager.get_plugin(info.name)
    own = getattr(plugin, "__name__", type(plugin).__module__)
    hooks = sorted(caller.name for caller in manager.get_hookcallers(plugin) or ())
    tools = [entry.name for entry in crib.registry.entries() if entry.module == own or entry.module.startswith(f"{own}.")]
    for what, names in (("hooks", hooks), ("tools", tools)):
        yield f"  {what}: {', '.join(names) or 'none'}"


def _named(found: Sequence[PluginInfo], name: str) -> PluginInfo:
    """Return the plugin with that name. Raises ToolcribError with the nearest name."""
    from agent.plugin_host.plugins import canonical
    from toolcrib.contract.suggest import near

    known = {canonical(info.name): info for info in reversed(found) if info.source != "missing"}
    info = known.get(canonical(name))
    if info is not None:
        return info
    alike = near(canonical(name), known)
    meant = (
        f"did you mean {known[alike[0]].name!r}?"
        if alike
        else f"the plugins are: {', '.join(sorted(one.name for one in known.values()))}"
    )
    meant = meant if known else f"install it with pip, or create your own: toolcrib plugins new {name}"
    raise ToolcribError(f"there is no plugin {name!r}; {meant}")


def _new(args: argparse.Namespace) -> int:
    """Write a plugin with a first tool into the user's folder, and enable it. Return the exit code."""
    from agent.config import load_config, write_private
    from agent.policy.self_protection import refuse_below
    from toolcrib.contract.regex import Regex

    config = load_config(args.config, profile="")
    if not Regex(r"[a-z][a-z0-9_]{0,40}").fullmatch(args.name):
        raise ToolcribError(f"{args.name!r} is not a valid name: use small letters, digits and '_', and begin with a letter")
    folder = config.folder / "plugins"
    refuse_below([config.folder, real_path(config.folder)], "writing a plugin")
    file = folder / f"{args.name}.py"
    with open_crib(args) as crib:
        taken = crib.registry.get(args.name)
    if file.exists() or taken is not None:
        what = f"{file} already exists" if file.exists() else f"a tool {args.name!r} already exists"
        raise ToolcribError(f"{what}; choose another name")
    write_private(file, _FIRST.format(name=args.name))
    print(f"wrote {file}; edit it as you like")
    code = _enable(args)
    print(f"""try it: toolcrib call {args.name} '{{"who": "world"}}'""")
    return code


_FIRST = '''"""A plugin: a tool, and a gate. See docs/plugins.md of toolcrib."""

from toolcrib import Block, hookimpl, tool


@tool(toolset="{name}", kind="read")
def {name}(who: str, times: int = 1) -> str:
    """Greet a person. (The model reads this text and the descriptions of the arguments.)

    Args:
        who: The name of the person to greet.
        times: How many times.
    """
    return " ".join([f"Hello, {{who}}!"] * times)


@hookimpl
def tool_gate(call):
    """Called before each call of any tool."""
    if call.name == "{name}" and call.args.get("times", 1) > 100:
        return Block("too many times")
'''


def _enable(args: argparse.Namespace) -> int:
    from agent.cli.confirming import set_as_person
    from agent.config import load_config
    from agent.plugin_host.plugins import canonical, discover

    config = load_config(args.config, profile="", project_dir=Path.cwd())
    info = _named(discover(config, Path.cwd()), args.name)
    counts = True
    if any(canonical(one) == canonical(info.name) for one in config.plugins.enabled):
        print(f"{info.name}: already enabled, in {config.path}")
    else:
        counts = set_as_person(args.config, ("plugins", "enabled"), [*config.plugins.enabled, info.name])
        print(f"{info.name}: enabled, in {config.path}; it runs with all your rights, from {info.where}")
    if not info.trusted:
        print("it belongs to this project and is not trusted in its current state: read it, then `toolcrib plugins trust`")
    elif counts and (why := _failure(args, info)):
        print(f"{info.name}: cannot be loaded, so it is inactive until this is fixed: {why}", file=sys.stderr)
        return FAILED
    return OK if counts else UNASKED


def _failure(args: argparse.Namespace, info: PluginInfo) -> str:
    """Load the enabled plugins, as the next session will. Return why the plugin ``info`` can't be loaded, or ""."""
    from agent.cli.logs import shown_otherwise

    with shown_otherwise(), open_crib(args) as crib:
        return next((one.error for one in crib.plugins if (one.name, one.where) == (info.name, info.where)), "") or ""


def _disable(args: argparse.Namespace) -> int:
    """Remove a plugin from plugins.enabled, even if it is no longer installed. Return the exit code."""
    from agent.cli.confirming import set_as_person
    from agent.config import load_config
    from agent.plugin_host.plugins import canonical

    config = load_config(args.config, profile="")
    enabled = config.plugins.enabled
    left = [one for one in enabled if canonical(one) != canonical(args.name)]
    if len(left) == len(enabled):
        raise ToolcribError(f"{args.name!r} is not enabled (enabled: {', '.join(enabled) or 'none'})")
    counts = set_as_person(args.config, ("plugins", "enabled"), left)
    print(f"{args.name}: disabled, in {config.path}; running sessions keep it")
    return OK if counts else UNASKED


def _trust(args: argparse.Namespace) -> int:
    """Trust the project's plugins in their current state. Needs a terminal. Return the exit code."""
    from agent.cli.confirming import set_as_person
    from agent.cli.logs import shown_otherwise
    from agent.cli.terminal import confirmed, controlling_terminal
    from agent.config import load_config
    from agent.plugin_host.plugins import discover, project_digest
    from agent.policy.self_protection import folders_of

    config, root = load_config(args.config, profile="", project_dir=Path.cwd()), real_path(Path.cwd())
    if not (root / ".toolcrib" / "plugins").is_dir():
        raise ToolcribError(f"nothing to trust: {root} has no plugins of its own (.toolcrib/plugins)")
    digest = project_digest(root)
    with shown_otherwise():
        found = [info for info in discover(config, root) if info.source == "project"]
    if not found:
        raise ToolcribError(f"nothing to trust: {root / '.toolcrib' / 'plugins'} contains no plugin")
    if all(info.trusted for info in found):
        print(f"{root}: its plugins are already trusted in their current state")
        return OK
    with controlling_terminal(folders_of(config)) as terminal:
        terminal.show(f"{root} has plugins of its own, which run with all your rights once they are enabled:")
        for info in found:
            terminal.show(f"  {info.name}  {info.where}")
        if not confirmed(terminal, "Have you read them, and do you trust them as they are now?"):
            print("not trusted")
            return OK
        if project_digest(root) != digest:
            raise ToolcribError("the plugins changed while you were asked: read them again")
        set_as_person(args.config, ("plugins", "trusted_projects", str(root)), digest)
    print(f"{root}: its plugins are trusted in their current state, as {config.path} records; trust them again after a change")
    return OK
