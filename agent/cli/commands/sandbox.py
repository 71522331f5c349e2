"""``toolcrib sandbox``: the sandbox of commands on this machine."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from agent.cli.app import FAILED, OK, open_crib
from agent.cli.options import add_place_option
from toolcrib.contract.errors import EnvironmentFailed, ToolcribError
from toolcrib.contract.paths import with_home

if TYPE_CHECKING:
    from agent.api import Crib
    from agent.backends import Backend

HELP = "Show what the sandbox of this machine restricts, test it, or open a shell in it."
_EPILOG = """\
examples:
  toolcrib sandbox                      the configured mode, the mode in force, and what commands can write, read and reach
  toolcrib sandbox --json
  toolcrib sandbox test                 open a sandbox for this project and test each of its guarantees
  toolcrib sandbox shell                open a shell in it
  toolcrib sandbox shell -- make -j4    run one command in it
  toolcrib sandbox test --backend bubblewrap

`sandbox.mode` of the configuration sets what commands on this machine may do:
  workspace   the default: they write only the project, private caches and a private /tmp, and cannot read keys
  own         they cannot reach toolcrib's own files
  none        they have all your rights
  toolcrib config set sandbox.mode own

exit codes: 0 done, 1 no sandbox or a failed test (test, shell), the command's own exit code (shell), 2 wrong command line or
configuration.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument(
        "action", nargs="?", choices=("status", "test", "shell"), default="status", help="what to do (default: status)"
    )
    parser.add_argument(
        "command", metavar="COMMAND", nargs="*", default=[], help="shell: run this instead of a shell; put -- before its options"
    )
    add_place_option(parser)
    parser.add_argument("--json", action="store_true", help="status, test: print JSON")


def run(args: argparse.Namespace) -> int:
    from agent.cli.escape import tame
    from agent.policy.self_protection import folders_of, refuse_below

    act = {"test": _test, "shell": _shell}.get(args.action, _status)
    with open_crib(args, as_confirmed=act is _status) as crib:
        if act is _shell:
            refuse_below(folders_of(crib.config), "opening a shell")
        elif args.command:
            raise ToolcribError(f"{args.action} takes no COMMAND; to run one: toolcrib sandbox shell COMMAND")
        try:
            return act(crib, _backend(crib, args.backend), args)
        except EnvironmentFailed as error:  # not an error of the command line
            print(tame(f"toolcrib: {error}"), file=sys.stderr)
            return FAILED


def _backend(crib: Crib, name: str) -> Backend:
    """Return the backend with that name; without a name the default one if it runs on this machine, else ``local``."""
    from tools.environments.rows import LOCAL, ROWS

    backend = crib.backends.get(name)
    if backend.row.runs_here:
        return backend
    if name:
        here = " or ".join(row.name for row in ROWS.values() if row.runs_here)
        raise ToolcribError(f"{name} does not run commands on this machine; use {here}, or `toolcrib env`")
    return crib.backends.get(LOCAL)


def _start(crib: Crib) -> str:
    return str(with_home(crib.config.terminal.cwd or crib.project_dir))


def _status(crib: Crib, backend: Backend, args: argparse.Namespace) -> int:
    from agent.backends import Location
    from agent.cli.render import table
    from agent.cli.sandbox_words import SandboxStatus, status_rows
    from agent.policy.self_protection import folders_of
    from toolcrib.contract.containment import Contained
    from tools.dispatch.bridge import run_async
    from tools.environments.local.holding import sandbox_here

    wanted = backend.wanted_mode
    held, holding = None, sandbox_here(wanted)
    if holding.mode != "none":
        environment = crib.backends.open(Location(backend, _start(crib)), "")
        held = environment.containment() if isinstance(environment, Contained) else None
        run_async(environment.close())
    own = [str(folder) for folder in folders_of(crib.config)]
    status = SandboxStatus(backend.name, wanted, holding, held, own, crib.config.sandbox.hosts)
    if args.json:
        print(json.dumps(status.as_json(), ensure_ascii=False, indent=2))
        return OK
    table(status_rows(status), wrap=True)
    if wanted == "none":
        print("\ncommands are not sandboxed; choose a mode: toolcrib config set sandbox.mode workspace")
    return OK


def _test(crib: Crib, backend: Backend, args: argparse.Namespace) -> int:
    from agent.cli.escape import tame
    from agent.cli.sandbox_words import trial_line
    from agent.policy.self_protection import folders_of
    from agent.sandbox_trial import SandboxTrial, try_sandbox

    less = _less(backend)
    trials = [SandboxTrial(f"the mode {backend.wanted_mode} works here", less)]
    trials += try_sandbox(crib.backends, backend, _start(crib), folders_of(crib.config))
    if args.json:
        told = [{"what": one.what, "ok": not one.problem, "problem": one.problem, "untried": one.untried} for one in trials]
        print(json.dumps(told, ensure_ascii=False, indent=2))
    else:
        print("\n".join(tame(trial_line(one)) for one in trials))
    return FAILED if any(one.problem for one in trials) else OK


def _less(backend: Backend) -> str:
    """Return why a weaker mode than the configured one is in force here, or "". Raises EnvironmentFailed if there is no
    sandbox.
    """
    from tools.environments.local.holding import sandbox_here

    wanted = backend.wanted_mode
    if wanted == "none":
        raise EnvironmentFailed(
            "commands are not sandboxed: sandbox.mode is none. Choose a mode: toolcrib config set sandbox.mode workspace"
        )
    held = sandbox_here(wanted)
    if held.mode == "none":
        raise EnvironmentFailed(f"commands are not sandboxed: {held.why_not_more}. To get a sandbox: {held.fix}")
    return "" if held.mode == wanted else f"only mode {held.mode} works: {held.why_not_more}. To get more: {held.fix}"


def _shell(crib: Crib, backend: Backend, args: argparse.Namespace) -> int:
    from agent.backends.person import in_sandbox
    from agent.cli.escape import tame
    from agent.cli.terminal import is_interactive

    if not args.command and not is_interactive():
        raise ToolcribError("a shell needs a terminal; to run a command without one: toolcrib sandbox shell COMMAND")
    if less := _less(backend):
        print(tame(f"toolcrib: {less}"), file=sys.stderr)
    return in_sandbox(crib.backends.opener(_start(crib)), backend, _start(crib), args.command)
