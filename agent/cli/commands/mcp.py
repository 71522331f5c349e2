"""``toolcrib mcp``: add MCP servers, look at their tools, and lock them."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.cli.app import FAILED, OK, UNASKED, open_crib
from toolcrib.contract.errors import ToolcribError

if TYPE_CHECKING:
    from agent.config import Config
    from agent.mcp.lock import Lock, LockedServer
    from agent.workspace import Workspace

HELP = "Add MCP servers, look at their tools, and lock the tools that sessions may have."
_ACTIONS = ("list", "add", "show", "test", "lock", "enable", "disable", "remove", "import", "login", "logout")
_LOOKS = ("list", "show")
_STARTS = ("add", "test", "lock", "login")
"""These connect to a server, so they need the SDK."""
_EPILOG = """\
examples:
  toolcrib mcp add files -- npx -y @modelcontextprotocol/server-filesystem@2026.8.31 .
  toolcrib mcp add mail --url https://mcp.example.org/mcp --header 'Authorization: Bearer ${MAIL_TOKEN}'
  toolcrib mcp                        the servers and their state
  toolcrib mcp show files             its locked tools, as models see them
  toolcrib mcp test files             start it, and compare its tools with the locked ones
  toolcrib mcp lock files             show the changes, and lock the tools (at a terminal)
  toolcrib mcp login mail             log in in the browser, if the server needs a login; logout reverts it
  toolcrib mcp disable files          for new sessions; enable reverts it
  toolcrib mcp import                 take servers of other programs (@PROGRAMS@), or of one

Sessions have only tools that you looked at and locked, exactly as they were then. A tool that its server changes is no longer
offered until you lock it again. Calls ask for approval, as those of any tool that acts; the toolset of a server is mcp-NAME.
A server's program runs in the sandbox. It reaches hosts that you name: toolcrib mcp add mail --host api.example.org -- ...

exit codes: 0 done; 1 the server does not start, its tools differ from the lock, or the login failed; 2 wrong command line, name
or configuration (nothing was done); 4 the server was added or changed, which applies only after a user confirms it (`toolcrib
config confirm`).
"""


def configure(parser: argparse.ArgumentParser) -> None:
    from agent.mcp.importing import PROGRAMS

    parser.epilog = _EPILOG.replace("@PROGRAMS@", ", ".join(PROGRAMS))
    parser.add_argument("action", nargs="?", choices=_ACTIONS, default="list", help="what to do (default: list)")
    parser.add_argument("name", metavar="NAME", nargs="?", help="the server; for import a program")
    parser.add_argument("program", metavar="COMMAND", nargs="*", help="add: the server's program and its arguments, after --")
    added = parser.add_argument_group("for add")
    added.add_argument("--url", default="", help="the address of a server that is reached over HTTP")
    added.add_argument("--sse", action="store_true", help="the address uses the older transport (SSE)")
    added.add_argument("--env", metavar="NAME=VALUE", action="append", default=[], help="a variable of its program; no secrets")
    added.add_argument(
        "--secret", metavar="NAME", action="append", default=[], help="a secret that the program gets as a variable"
    )
    added.add_argument("--header", metavar="'NAME: VALUE'", action="append", default=[], help="a header; ${NAME} is a secret")
    added.add_argument("--host", metavar="HOST", action="append", default=[], help="a host that its program may reach")
    added.add_argument("--backend", metavar="NAME", default="", help="the backend that its program runs in")
    login = parser.add_argument_group("for login and logout")
    login.add_argument("--paste", action="store_true", help="show the address, and paste the one that the login leads to")
    login.add_argument("--device", action="store_true", help="show a code to enter in a browser on any device")
    login.add_argument("--for", dest="principal", metavar="PLATFORM:USER", default="", help="log in for this user of a platform")


def run(args: argparse.Namespace) -> int:
    if args.action not in ("list", "lock", "import") and not args.name:
        raise ToolcribError(f"give the server: toolcrib mcp {args.action} NAME")
    if args.action != "add" and args.program:
        raise ToolcribError(f"`mcp {args.action}` takes one name")
    actions = {"list": _list, "add": _add, "show": _show, "test": _test, "lock": _lock, "import": _import}
    actions |= {"login": _login, "logout": _logout}
    return actions.get(args.action, _change)(args)


def _config(args: argparse.Namespace, *, is_named: bool = True) -> Config:
    """Return the configuration. Raises ToolcribError if it has no server of the name that was given, and Denied below a session
    unless the action only looks: a server starts with its secrets.
    """
    from agent.config import load_config
    from agent.mcp.extra import require_sdk
    from agent.policy.self_protection import folders_of, refuse_below
    from toolcrib.contract.suggest import near

    config = load_config(args.config, profile=args.profile)
    if args.action not in _LOOKS:
        refuse_below(folders_of(config), f"mcp {args.action}")
    if args.action in _STARTS:
        require_sdk()
    servers = config.mcp.servers
    if is_named and args.name and args.name not in servers:
        alike = near(args.name, servers)
        hint = f"did you mean {alike[0]!r}?" if alike else f"the servers are: {', '.join(servers)}" if servers else ""
        raise ToolcribError(f"there is no MCP server {args.name!r}; {hint or 'add it: toolcrib mcp add'}")
    return config


def _login(args: argparse.Namespace) -> int:
    from agent.cli.mcp_login import log_in

    return log_in(args, _config(args))


def _logout(args: argparse.Namespace) -> int:
    from agent.cli.mcp_login import log_out

    return log_out(args, _config(args))


def _locked(config: Config) -> Lock:
    from agent.mcp.lock import lock_path, read_lock

    return read_lock(lock_path(config.path))


def _list(args: argparse.Namespace) -> int:
    from agent.cli.render import table
    from agent.mcp.where import where

    config = _config(args)
    lock = _locked(config)
    if not config.mcp.servers:
        print("no MCP servers; add one: toolcrib mcp add NAME -- COMMAND, or --url URL")
        return OK
    rows = [("NAME", "STATE", "TOOLS", "WHERE")]
    for name, server in config.mcp.servers.items():
        known = lock.servers.get(name)
        rows.append((name, _state(config, name, known), str(len(known.tools)) if known else "-", where(config, server)))
    table(rows)
    return OK


def _state(config: Config, name: str, known: LockedServer | None) -> str:
    from agent.mcp.where import state_of

    return state_of(config, name, known)


def _show(args: argparse.Namespace) -> int:
    from agent.cli.escape import tame
    from agent.mcp.locking import named, parameters, summary
    from agent.mcp.where import where

    config = _config(args)
    known = _locked(config).servers.get(args.name)
    lines = [f"{args.name}  {_state(config, args.name, known)}", f"  {where(config, config.mcp.servers[args.name])}"]
    if known is None:
        lines.append(f"  look at its tools and lock them: toolcrib mcp lock {args.name}")
    else:
        lines += [f"  {known.version}", ""]
        for tool in known.tools:
            lines += [f"{named(tool)}: {summary(tool)}", *(f"    {line}" for line in parameters(tool))]
    print("\n".join(map(tame, lines)))
    return OK


def _add(args: argparse.Namespace) -> int:
    from agent.cli.confirming import set_as_person

    config = _config(args, is_named=False)
    if bool(args.url) == bool(args.program):
        raise ToolcribError("give the server's program, after --, or its address with --url")
    if args.name in config.mcp.servers:
        raise ToolcribError(f"the MCP server {args.name!r} already exists; choose another name, or remove it first")
    if not set_as_person(args.config, ("mcp", "servers", args.name), _entry(args)):
        print(f"{args.name}: added, in {config.path}")
        return UNASKED
    print(f"{args.name}: added, in {config.path}")
    return _lock(args)


def _entry(args: argparse.Namespace) -> dict[str, Any]:
    given = {
        "command": list(args.program),
        "url": args.url,
        "transport": "sse" if args.sse else "",
        "env": _pairs(args.env, "=", "--env NAME=VALUE"),
        "secrets": args.secret,
        "headers": _pairs(args.header, ":", "--header 'NAME: VALUE'"),
        "hosts": args.host,
        "backend": args.backend,
    }
    return {key: value for key, value in given.items() if value}


def _pairs(given: list[str], sign: str, form: str) -> Mapping[str, str]:
    pairs = [one.partition(sign) for one in given]
    if not all(name and found for name, found, _ in pairs):
        raise ToolcribError(f"write {form}")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _import(args: argparse.Namespace) -> int:
    """Show the servers of other programs, and take the servers that the user chooses at a terminal. Return the exit code."""
    from agent.cli.confirming import set_as_person
    from agent.cli.escape import tame
    from agent.cli.terminal import confirmed, controlling_terminal
    from agent.config import write_secret
    from agent.mcp.importing import PROGRAMS, found_servers
    from agent.policy.self_protection import folders_of

    if args.name and args.name not in PROGRAMS:
        raise ToolcribError(f"{args.name!r} is not a known program; choose one of {', '.join(PROGRAMS)}")
    config = _config(args, is_named=False)
    taken = {*config.mcp.servers}
    added, code = [], OK
    with controlling_terminal(folders_of(config)) as terminal:
        for found in found_servers(args.name or ""):
            shown = json.dumps(dict(found.entry), ensure_ascii=True)
            terminal.show(tame(f"{found.name}  from {found.file}\n  {found.fault or shown}"))
            if found.fault or found.name in taken:
                terminal.show("  not taken" if found.fault else "  not taken: a server of this name exists")
                continue
            if found.secrets:
                terminal.show(tame(f"  {', '.join(found.secrets)}: the values will be stored in secrets.env"))
            if not confirmed(terminal, f"Take {found.name}?"):
                continue
            for name, value in found.secrets.items():
                write_secret(name, value, config.folder)
            code = code if set_as_person(args.config, ("mcp", "servers", found.name), dict(found.entry)) else UNASKED
            taken.add(found.name)
            added.append(found.name)
    if not added:
        print("no servers were taken")
        return code
    print(f"taken: {', '.join(added)}; look at their tools and lock them: toolcrib mcp lock")
    return code


def _change(args: argparse.Namespace) -> int:
    from agent.cli.confirming import set_as_person, unset_as_person
    from agent.config import write_tokens
    from agent.mcp.lock import lock_path, write_server

    config = _config(args)
    key = ("mcp", "servers", args.name)
    if args.action == "remove":
        counts = unset_as_person(args.config, key)
        write_tokens(None, args.name, None, config.folder)
        write_server(lock_path(config.path), args.name, None)
    else:
        counts = set_as_person(args.config, (*key, "enabled"), args.action == "enable")
    print(f"{args.name}: {args.action}d, in {config.path}; this applies to new sessions")
    return OK if counts else UNASKED


def _test(args: argparse.Namespace) -> int:
    from agent.cli.escape import tame
    from agent.mcp.locking import differences, look, proposal

    config = _config(args)
    began = time.monotonic()
    with open_crib(args) as crib:
        listed = asyncio.run(look(crib.default, args.name))
        taken = _taken(crib.default, args.name)
    known = _locked(config).servers.get(args.name)
    now = proposal(config, _locked(config), args.name, listed, taken)
    print(tame(f"{args.name}: {listed.version or 'no version'}, protocol {listed.protocol}, {time.monotonic() - began:.1f} s"))
    if known is None:
        print(f"its {len(listed.tools)} tools are not locked: toolcrib mcp lock {args.name}")
        return FAILED
    changed = list(differences(known, now.server))
    print("\n".join(map(tame, changed)) if changed else f"its {len(known.tools)} tools are as they were locked")
    return FAILED if changed else OK


def _taken(workspace: Workspace, name: str) -> frozenset[str]:
    """Return the names of all other tools."""
    from agent.mcp.entries import toolset_of

    return frozenset(one.name for one in workspace.registry.entries() if one.toolset != toolset_of(name))


def _lock(args: argparse.Namespace) -> int:
    config = _config(args)
    if not config.mcp.servers:
        raise ToolcribError("there are no MCP servers; add one: toolcrib mcp add")
    code = OK
    for name in [args.name] if args.name else config.mcp.servers:
        code = max(code, _lock_one(args, config, name))
    return code


def _lock_one(args: argparse.Namespace, config: Config, name: str) -> int:
    from agent.cli.escape import tame
    from agent.cli.terminal import confirmed, controlling_terminal
    from agent.mcp.lock import lock_path, read_lock, write_server
    from agent.mcp.locking import differences, look, proposal
    from agent.policy.self_protection import folders_of

    path = lock_path(config.path)
    print(f"{name}: looking at its tools ...", file=sys.stderr)
    with open_crib(args) as crib:
        try:
            listed = asyncio.run(look(crib.default, name))
        except ToolcribError as error:
            print(f"{error}\nAfter the repair: toolcrib mcp lock {name}", file=sys.stderr)
            return FAILED
        taken = _taken(crib.default, name)
    lock = read_lock(path)
    now = proposal(config, lock, name, listed, taken)
    for tool, why in now.refused:
        print(tame(f"! {tool} is not offered: {why}"), file=sys.stderr)
    changed = list(differences(lock.servers.get(name), now.server))
    if not changed and name in lock.servers:
        print(f"{name}: its {len(now.server.tools)} tools are as they were locked")
        return OK
    with controlling_terminal(folders_of(config)) as terminal:
        terminal.show("\n".join(map(tame, [f"{name} ({listed.version or 'no version'}):", *changed])))
        if not confirmed(terminal, "May sessions have these tools? Each call still asks."):
            print(f"{name}: not locked; look again: toolcrib mcp lock {name}")
            return OK
        write_server(path, name, now.server)
    print(f"{name}: {len(now.server.tools)} tools locked, in {Path(path)}; new sessions have them, in the toolset mcp-{name}")
    return OK
