"""``toolcrib env``: the backends, which run commands."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent.cli.app import FAILED, OK, open_crib
from agent.cli.options import age
from agent.policy.self_protection import folders_of, refuse_below
from toolcrib.contract.errors import EnvironmentFailed, ToolcribError
from toolcrib.contract.paths import with_home

if TYPE_CHECKING:
    from agent.api import Crib
    from agent.cli.backends import RunningContainer

HELP = "List and test backends, which run commands; open a shell in one, and stop its containers."
_EPILOG = """\
examples:
  toolcrib env                          list backends (* marks the default) and toolcrib's containers
  toolcrib env test                     test each configured backend: a command, a file, an interrupt
  toolcrib env test docker gpu
  toolcrib env shell docker             open a shell in a new container, which is removed afterwards
  toolcrib env shell --session 4f1c     open a shell in that session's backend and container
  toolcrib env stop 4f1c                end that session's container; or a container by name, or all of a backend
  toolcrib env prune                    remove what killed processes left, and kept containers unused for more than 7 days
  toolcrib chat --backend docker        use another backend than the configured one for a session

The backends are {backends}, your own in `environments` of the
configuration, and backends of plugins; `terminal.backend` is the default of sessions:
  toolcrib config set environments.docker.image debian:12
  toolcrib config set terminal.backend docker
A session keeps its backend. If the backend is unavailable, calls fail with the reason: they never run elsewhere.

exit codes: 0 done, 1 a backend does not work (test, shell) or an engine does not answer (stop, prune), the shell's own exit code
(shell), 2 wrong command line or configuration.
"""
_OLD = "7d"
_ACTIONS = ("list", "test", "shell", "stop", "prune")


def configure(parser: argparse.ArgumentParser) -> None:
    from tools.environments.rows import listed

    parser.epilog = _EPILOG.format(backends=listed())
    parser.add_argument(
        "action", nargs="?", choices=_ACTIONS, default="list", help="what to do (default: list); see the examples below"
    )
    parser.add_argument("names", metavar="NAME", nargs="*", default=[], help="backends; for stop, also sessions and containers")
    parser.add_argument(
        "--session", metavar="ID", default="", help="shell: the backend of this session (the beginning of its id)"
    )
    parser.add_argument("--all", action="store_true", help="stop: all containers of toolcrib")
    parser.add_argument(
        "--older-than", metavar="AGE", type=age, default=_OLD, help="prune: also kept containers this old (default: 7d)"
    )
    parser.add_argument("--yes", action="store_true", help="stop, prune: do not ask")
    parser.add_argument("--json", action="store_true", help="list, test, stop, prune: print JSON")


def run(args: argparse.Namespace) -> int:
    from agent.cli.escape import tame

    act = {"test": _test, "shell": _shell, "stop": _stop, "prune": _prune}.get(args.action, _list)
    with open_crib(args, as_confirmed=act is _list) as crib:
        if args.action in ("shell", "stop", "prune"):
            refuse_below(folders_of(crib.config), "using containers of other sessions")
        try:
            return act(crib, args)
        except EnvironmentFailed as error:  # not an error of the command line
            print(tame(f"toolcrib: {error}"), file=sys.stderr)
            return FAILED


def _list(crib: Crib, args: argparse.Namespace) -> int:
    from agent.cli.backends import as_json, backend_rows, find_containers, running_rows
    from agent.cli.render import table
    from agent.config import sandbox_records
    from tools.environments.leftovers import left_behind
    from tools.environments.local.survivor import left_sandboxes
    from tools.processes.left import left_sessions

    found = find_containers(crib)
    if args.json:
        print(json.dumps(as_json(crib.backends, found), ensure_ascii=False, indent=2))
        return OK
    table(backend_rows(crib.backends, found), wrap=True)
    if found.running:
        print()
        table(running_rows(found, time.time()))
    left = left_behind() or left_sandboxes(sandbox_records()) or left_sessions()
    if left or any(one.container.left_behind for one in found.running):
        print("\nremains of killed processes were found; to remove them: toolcrib env prune")
    if old := sum(one.container.idle_for(age(_OLD)) for one in found.running):
        print(f"\n{old} of the containers have been unused for more than {_OLD}; to remove them: toolcrib env prune")
    return OK


def _test(crib: Crib, args: argparse.Namespace) -> int:
    from agent.backend_check import try_backends
    from agent.cli.backends import tried_line
    from agent.cli.escape import tame

    wanted = [crib.backends.get(name) for name in dict.fromkeys(args.names)] or crib.backends.configured()
    start = crib.config.terminal.cwd or str(crib.project_dir)
    tried = try_backends(crib.backends, wanted, str(with_home(start)))
    if args.json:
        told = [
            {"name": one.name, "where": one.where, "ok": not one.problem, "problem": one.problem, "seconds": dict(one.seconds)}
            for one in tried
        ]
        print(json.dumps(told, ensure_ascii=False, indent=2))
    else:
        print("\n".join(tame(tried_line(one)) for one in tried))
    return FAILED if any(one.problem for one in tried) else OK


def _shell(crib: Crib, args: argparse.Namespace) -> int:
    from agent.cli.backends import find_containers
    from agent.cli.terminal import is_interactive
    from tools.dispatch.bridge import run_async

    if len(args.names) > 1:
        raise ToolcribError("give one name: toolcrib env shell NAME")
    if not is_interactive():
        raise ToolcribError("a shell needs a terminal; to run a command: toolcrib call terminal ARGS --backend NAME")
    start = str(with_home(crib.config.terminal.cwd or crib.project_dir))
    if not args.session:
        return crib.backends.shell(crib.backends.get("".join(args.names)), start)
    info = run_async(crib.find_session(args.session))
    backend = crib.backends.get("".join(args.names) or info.place.get("name", ""))
    start = info.cwd if Path(info.cwd).is_dir() else start
    containers = [one.container for one in find_containers(crib).running if one.container.session == info.id]
    if backend.row.makes_containers and not containers:
        raise ToolcribError(f"the session {info.id[:12]} has no container now; for a new one: toolcrib env shell {backend.name}")
    return crib.backends.shell(backend, start, cwd=info.place.get("cwd", ""), container=containers[0] if containers else None)


def _stop(crib: Crib, args: argparse.Namespace) -> int:
    from agent.cli.backends import chosen, find_containers
    from agent.cli.terminal import agreed

    if bool(args.names) == args.all:
        raise ToolcribError("name what to stop: toolcrib env stop SESSION, BACKEND or CONTAINER, or --all")
    found = find_containers(crib)
    wanted: list[RunningContainer] = list(found.running) if args.all else []
    for word in args.names:
        meant = chosen(found, word)
        if not meant:
            unseen = "".join(f"\n  not checked: {fault}" for fault in found.faults.values())
            said = f"no container of toolcrib belongs to {word!r}; list containers: toolcrib env{unseen}"
            raise EnvironmentFailed(said) if unseen else ToolcribError(said)
        wanted += [one for one in meant if one not in wanted]
    lives = sum(one.container.owner_lives is True for one in wanted)
    about = f"{_counted(wanted)}, {lives} of them used by running processes" if lives else _counted(wanted)
    if not agreed(f"Stop {about}?", wanted, yes=args.yes):
        return FAILED
    stopped = [(one.container.name, one.kind.stop(one.container)) for one in wanted]
    return _told(stopped, args, "nothing to stop", found.faults)


def _prune(crib: Crib, args: argparse.Namespace) -> int:
    from agent.background.reaching import forget
    from agent.cli.backends import find_containers
    from agent.cli.escape import tame
    from agent.cli.terminal import agreed
    from agent.config import sandbox_records
    from tools.dispatch.bridge import run_async
    from tools.environments import leftovers
    from tools.environments.local.survivor import left_sandboxes
    from tools.processes.left import left_sessions

    if args.names:
        raise ToolcribError("prune takes no names; to stop one container: toolcrib env stop NAME")
    found = find_containers(crib)
    wanted = [one for one in found.running if one.container.left_behind or one.container.idle_for(args.older_than)]
    sandboxes = left_sandboxes(sandbox_records())
    folders, sessions = leftovers.left_behind(), left_sessions()
    shown = [*(one.container.name for one in wanted), *(f"sandbox of session {name}" for name in sandboxes), *map(str, folders)]
    shown += [str(one.folder) + (f" with {tame(', '.join(one.names))}" if one.running else "") for one in sessions]
    if not agreed(f"Remove {', '.join(shown)}?", shown, yes=args.yes):
        return FAILED
    for one in wanted:
        one.kind.remove(one.container)
    for record in sandboxes.values():
        record.end()
    for folder in folders:
        leftovers.remove(folder)
    for session in sessions:
        session.end()
    run_async(forget(crib.store, [one.container.session for one in wanted]))
    return _told([(name, "removed") for name in shown], args, "nothing to remove", found.faults)


def _counted(wanted: Sequence[RunningContainer]) -> str:
    return ", ".join(one.container.name for one in wanted)


def _told(done: Sequence[tuple[str, str]], args: argparse.Namespace, nothing: str, faults: Mapping[str, str]) -> int:
    """Print what was done. Return FAILED if engines failed (``faults``), because their containers were not checked; else OK."""
    from agent.cli.escape import tame

    if args.json:
        print(json.dumps([{"name": name, "done": what} for name, what in done], ensure_ascii=False, indent=2))
    else:
        print("\n".join(tame(f"{what}: {name}") for name, what in done) or nothing)
    for fault in faults.values():
        print(tame(f"toolcrib: not checked: {fault}"), file=sys.stderr)
    return FAILED if faults else OK
