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

if TYPE_CHECKING:
    from agent.api import Crib
    from agent.cli.backends import RunningContainer

HELP = "Backends, which run commands: list and test them, open a shell in one, end what is left in them."
_EPILOG = """\
examples:
  toolcrib env                          the backends, * the default one, and our containers
  toolcrib env test                     tries each configured backend: a command, a file, an interrupt
  toolcrib env test docker gpu
  toolcrib env shell docker             a shell of your own in a new container, removed afterwards
  toolcrib env shell --session 4f1c     in the backend, and the container, of that session
  toolcrib env stop 4f1c                ends that session's container; or by its name, or all of a backend
  toolcrib env prune                    removes what killed processes left, and kept containers of more than 7 days
  toolcrib chat --backend docker        one session in another backend than the configured one

The backends are {backends}, those that you name in `environments` of
the configuration, and what plugins add; `terminal.backend` says which one sessions take:
  toolcrib config set environments.docker.image debian:12
  toolcrib config set terminal.backend docker
A session keeps its backend. Where that is unavailable its calls fail and say why: they never run elsewhere.

exit codes: 0 done, 1 a backend does not work (test, shell) or an engine does not answer (stop, prune), the shell's own
(shell), 2 a wrong command line or configuration.
"""
_OLD = "7d"
_ACTIONS = ("list", "test", "shell", "stop", "prune")


def configure(parser: argparse.ArgumentParser) -> None:
    from tools.environments.rows import listed

    parser.epilog = _EPILOG.format(backends=listed())
    parser.add_argument(
        "action", nargs="?", choices=_ACTIONS, default="list", help="what to do (default: list); the examples below show each"
    )
    parser.add_argument("names", metavar="NAME", nargs="*", default=[], help="backends; for stop also sessions and containers")
    parser.add_argument(
        "--session", metavar="ID", default="", help="shell: the backend of this session (the beginning of its id)"
    )
    parser.add_argument("--all", action="store_true", help="stop: all of our containers")
    parser.add_argument(
        "--older-than", metavar="AGE", type=age, default=_OLD, help="prune: kept containers too, from this age on (7d)"
    )
    parser.add_argument("--yes", action="store_true", help="stop, prune: do not ask")
    parser.add_argument("--json", action="store_true", help="list, test, stop, prune: as JSON")


def run(args: argparse.Namespace) -> int:
    from agent.cli.escape import tame

    act = {"test": _test, "shell": _shell, "stop": _stop, "prune": _prune}.get(args.action, _list)
    with open_crib(args, as_confirmed=act is _list) as crib:
        if args.action in ("shell", "stop", "prune"):
            refuse_below(folders_of(crib.config), "what concerns other sessions' containers")
        try:
            return act(crib, args)
        except EnvironmentFailed as error:  # not an error of the command line
            print(tame(f"toolcrib: {error}"), file=sys.stderr)
            return FAILED


def _list(crib: Crib, args: argparse.Namespace) -> int:
    from agent.cli.backends import as_json, backend_rows, find_containers, running_rows
    from agent.cli.render import table
    from tools.environments.leftovers import left_behind

    found = find_containers(crib)
    if args.json:
        print(json.dumps(as_json(crib.backends, found), ensure_ascii=False, indent=2))
        return OK
    table(backend_rows(crib.backends, found), wrap=True)
    if found.running:
        print()
        table(running_rows(found, time.time()))
    left = left_behind()
    if left or any(one.container.left_behind for one in found.running):
        print("\nkilled processes left something behind: `toolcrib env prune` removes it")
    if old := sum(one.container.idle_for(age(_OLD)) for one in found.running):
        print(f"\nkept for more than {_OLD} and not in use: {old} of the containers; `toolcrib env prune` removes them")
    return OK


def _test(crib: Crib, args: argparse.Namespace) -> int:
    from agent.backend_check import try_backends
    from agent.cli.backends import tried_line
    from agent.cli.escape import tame

    wanted = [crib.backends.get(name) for name in dict.fromkeys(args.names)] or crib.backends.configured()
    start = crib.config.terminal.cwd or str(crib.project_dir)
    tried = try_backends(crib.backends, wanted, str(Path(start).expanduser()))
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
        raise ToolcribError("one at a time: toolcrib env shell NAME")
    if not is_interactive():
        raise ToolcribError("a shell needs a person at a terminal; `toolcrib call terminal --backend NAME` runs a command")
    start = str(Path(crib.config.terminal.cwd or crib.project_dir).expanduser())
    if not args.session:
        return crib.backends.shell(crib.backends.get("".join(args.names)), start)
    info = run_async(crib.find_session(args.session))
    backend = crib.backends.get("".join(args.names) or info.place.get("name", ""))
    start = info.cwd if Path(info.cwd).is_dir() else start
    containers = [one.container for one in find_containers(crib).running if one.container.session == info.id]
    if backend.row.makes_containers and not containers:
        raise ToolcribError(
            f"the session {info.id[:12]} has no container now: `toolcrib env shell {backend.name}` makes a new one"
        )
    return crib.backends.shell(backend, start, cwd=info.place.get("cwd", ""), container=containers[0] if containers else None)


def _stop(crib: Crib, args: argparse.Namespace) -> int:
    from agent.cli.backends import chosen, find_containers

    if bool(args.names) == args.all:
        raise ToolcribError("nothing is named to stop: toolcrib env stop SESSION, the name of a backend or a container, or --all")
    found = find_containers(crib)
    wanted: list[RunningContainer] = list(found.running) if args.all else []
    for word in args.names:
        meant = chosen(found, word)
        if not meant:
            unseen = "".join(f"\n  not looked at: {fault}" for fault in found.faults.values())
            said = f"no container of ours belongs to {word!r}; `toolcrib env` lists them{unseen}"
            raise EnvironmentFailed(said) if unseen else ToolcribError(said)
        wanted += [one for one in meant if one not in wanted]
    lives = sum(one.container.owner_lives is True for one in wanted)
    about = f"{_counted(wanted)}, {lives} of them in use by processes that live" if lives else _counted(wanted)
    if not _agreed(f"Stop {about}?", wanted, yes=args.yes):
        return FAILED
    stopped = [(one.container.name, one.kind.stop(one.container)) for one in wanted]
    return _told(stopped, args, "there is nothing to stop", found.faults)


def _prune(crib: Crib, args: argparse.Namespace) -> int:
    from agent.cli.backends import find_containers
    from tools.environments import leftovers

    if args.names:
        raise ToolcribError("prune takes no names; `toolcrib env stop NAME` does")
    found = find_containers(crib)
    wanted = [one for one in found.running if one.container.left_behind or one.container.idle_for(args.older_than)]
    folders = leftovers.left_behind()
    shown = [*(one.container.name for one in wanted), *map(str, folders)]
    if not _agreed(f"Remove {', '.join(shown)}?", shown, yes=args.yes):
        return FAILED
    for one in wanted:
        one.kind.remove(one.container)
    for folder in folders:
        leftovers.remove(folder)
    return _told([(name, "removed") for name in shown], args, "there is nothing to remove", found.faults)


def _counted(wanted: Sequence[RunningContainer]) -> str:
    return ", ".join(one.container.name for one in wanted)


def _agreed(question: str, about: Sequence[object], *, yes: bool) -> bool:
    """Ask for confirmation, unless ``yes`` or nothing is affected. Raises ToolcribError if no user can be asked."""
    from agent.cli.terminal import confirm_by_word, is_interactive

    if yes or not about:
        return True
    if not is_interactive():
        raise ToolcribError(f"{question} Nobody can be asked here: add --yes")
    return confirm_by_word(question)


def _told(done: Sequence[tuple[str, str]], args: argparse.Namespace, nothing: str, faults: Mapping[str, str]) -> int:
    """Print what was done. Return FAILED if some engines failed (``faults``), since this may not be everything, else OK."""
    from agent.cli.escape import tame

    if args.json:
        print(json.dumps([{"name": name, "done": what} for name, what in done], ensure_ascii=False, indent=2))
    else:
        print("\n".join(tame(f"{what}: {name}") for name, what in done) or nothing)
    for fault in faults.values():
        print(tame(f"toolcrib: not looked at: {fault}"), file=sys.stderr)
    return FAILED if faults else OK
