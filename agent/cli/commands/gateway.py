"""``toolcrib gateway``: one process that serves chats on other platforms."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from typing import TYPE_CHECKING, Any

from agent.cli.app import FAILED, OK, USAGE, open_crib
from toolcrib.contract.errors import ConfigError, ToolcribError

if TYPE_CHECKING:
    from agent.model_choice.models import ModelChoice
    from agent.process import Crib

HELP = "Let users chat with toolcrib on other platforms: run, inspect, pair and stop the gateway."
_EPILOG = """\
examples:
  toolcrib gateway run                       run all enabled platforms until Ctrl-C
  toolcrib gateway run matrix --logs json    run only this platform, with a log for programs
  toolcrib plugins enable matrix             enable a platform, which is a plugin; its README lists what it needs
  toolcrib gateway pair matrix --role owner  print a code; send it to the bot within ten minutes to get access
  toolcrib gateway people                    list paired users
  toolcrib gateway unpair matrix @eve:host   remove a paired user
  toolcrib gateway passphrase                set the passphrase for `:unlock` in `toolcrib console`
  toolcrib gateway status                    show its state, from any terminal
  toolcrib gateway stop                      start no more runs, finish current ones and exit, as Ctrl-C and SIGTERM do
  toolcrib gateway stop --now                exit at once, as a second Ctrl-C does; runs resume at the next start
  toolcrib gateway reload                    reload the configuration; chats continue, and a broken file is refused

The gateway answers only paired users and platforms.NAME.allowed_users. Chats of other users than the owner get no tools that
run commands or change files, unless they work in a sandbox, a container or on another host (platforms.NAME.backend). Approval
requests appear in the chat; gateway.approvers sets who may approve which calls.

exit codes: 0 done; 1 run: no platform can run before an error is fixed, stop and drain: no gateway is running; 2 wrong command
line, name or configuration (nothing was done).
"""
_ACTIONS = ("run", "status", "pair", "people", "unpair", "passphrase", "reload", "drain", "stop")
_LOOKING, _ASKING = ("status", "people"), ("stop", "drain", "reload")
_BELONGS = {"role": ("pair",), "logs": ("run",), "now": ("stop", "drain"), "json": ("status", "people")}
"""Options -> the actions that accept them."""
_PATIENCE = 20.0
"""Seconds to wait until a gateway reports the outcome of a reload."""


def configure(parser: argparse.ArgumentParser) -> None:
    from agent.cli.options import add_model_options

    parser.epilog = _EPILOG
    parser.add_argument("action", metavar="ACTION", choices=_ACTIONS, help=f"one of {', '.join(_ACTIONS)}")
    parser.add_argument(
        "names",
        metavar="NAME",
        nargs="*",
        default=[],  # else argparse reports it as missing
        help="run, status, people: platforms (default: all enabled ones); pair: one; unpair: one, and a user",
    )
    parser.add_argument("--role", default="", help="pair: the role of the new user, such as owner (default: none)")
    parser.add_argument("--logs", choices=("text", "json"), default="", help="run: form of the log (default: gateway.logs)")
    parser.add_argument("--now", action="store_true", help="stop, drain: do not wait for current runs")
    parser.add_argument("--json", action="store_true", help="status, people: print JSON")
    add_model_options(parser)


def run(args: argparse.Namespace) -> int:
    _refuse_unfitting(args)
    with _opened(args) as crib:
        if args.action == "run":
            return _serve(crib, args)
        with asyncio.Runner() as runner:
            return runner.run(_OTHERS[args.action](crib, args))


def _refuse_unfitting(args: argparse.Namespace) -> None:
    """Raise ToolcribError for options and names that the action would ignore."""
    for option, actions in _BELONGS.items():
        if getattr(args, option, "") and args.action not in actions:
            raise ToolcribError(f"--{option} is for `toolcrib gateway {' or '.join(actions)}`, not for {args.action}")
    if args.action == "passphrase" and args.names:
        raise ToolcribError("`toolcrib gateway passphrase` takes no names: all local interfaces share one passphrase")
    if args.action in _ASKING and args.names:
        raise ToolcribError(
            f"`toolcrib gateway {args.action}` is for the whole gateway and takes no names; to stop one platform:"
            " toolcrib plugins disable NAME, then toolcrib gateway reload"
        )


def _opened(args: argparse.Namespace) -> Crib:
    """Return the crib. Actions that only read, or send the gateway a request, use the configuration as last confirmed, like the
    gateway: unconfirmed changes must not block them. Raises ConfigError.
    """
    from agent.policy.confirmation import UnconfirmedConfig

    if args.action not in (*_LOOKING, *_ASKING):
        return open_crib(args)
    try:
        if args.action == "reload":  # a user at a terminal may confirm now
            try:
                return open_crib(args, looks=True)
            except UnconfirmedConfig:
                pass
        return open_crib(args, looks=True, as_confirmed=True)
    except ConfigError as error:
        if args.action == "people":
            raise
        raise ConfigError(
            f"{error}\na running gateway keeps the configuration that it loaded; to stop it: Ctrl-C at its terminal, or SIGTERM"
        ) from error


# -- running -----------------------------------------------------------------------------------------------------------


def _serve(crib: Crib, args: argparse.Namespace) -> int:
    from agent.cli.options import choice_of

    names, choice = _wanted(crib, args.names), choice_of(args)
    if not crib.config.store.enabled:
        raise ToolcribError("a gateway needs the store, since messages must outlive the process; set store.enabled: true")
    _require_model(crib, choice)
    with asyncio.Runner() as runner:
        return runner.run(_served(crib, names if args.names else None, choice, args.logs or crib.config.gateway.logs))


def _require_model(crib: Crib, choice: ModelChoice) -> None:
    """Raise ConfigError, with advice, if no model is configured: users of chats can't type calls."""
    from agent.cli.offer import no_model
    from agent.model_choice.models import find_endpoint

    if find_endpoint(crib.config, choice) is None:
        raise no_model("gateway run")


async def _served(crib: Crib, names: list[str] | None, choice: ModelChoice, form: str) -> int:
    from agent.cli.logs import logging_of_gateway
    from agent.cli.signals import serving
    from agent.gateway.collecting import collecting
    from agent.gateway.gateway import Gateway

    gateway, loop = Gateway(crib, names=names, choice=choice), asyncio.get_running_loop()

    def end(now: bool) -> None:
        loop.call_soon_threadsafe(lambda: gateway.end(now=now))

    def reload() -> None:
        loop.call_soon_threadsafe(gateway.reload)

    with serving(end, reload), logging_of_gateway(form, lambda text: gateway.redact(text)):
        async with collecting(lambda: gateway.is_quiet), gateway:
            if not gateway.can_run:
                return FAILED
            await gateway.serve()
    return OK


def _wanted(crib: Crib, names: list[str]) -> list[str]:
    """Return the platforms to run: ``names``, or all enabled ones. Raises ToolcribError for a disabled one, or if all are."""
    known = sorted(crib.platforms)
    if not known:
        failed = [f"{info.name}: {info.error}" for info in crib.plugins if info.error]
        why = f" ({'; '.join(failed)})" if failed else ""
        raise ToolcribError(
            f"no platform is enabled{why}; list them: toolcrib plugins; enable one: toolcrib plugins enable matrix"
        )
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ToolcribError(_unknown(unknown, known))
    return names or known


def _unknown(names: list[str], known: list[str]) -> str:
    there = f"enabled: {', '.join(known)}" if known else "none is enabled"
    return f"platform {', '.join(names)} is not enabled; {there}; list all: toolcrib plugins"


# -- requests to a running gateway -------------------------------------------------------------------------------------


async def _status(crib: Crib, args: argparse.Namespace) -> int:
    from agent.cli.gateway_status import show_status
    from agent.gateway.status import told_status

    known = sorted({*crib.platforms, *crib.config.platforms} - {"cli", "api", "cron", "acp"})
    for name in args.names:
        if name not in known and not (await told_status(crib.store, name)).get("state"):  # a disabled platform may still run
            raise ToolcribError(_unknown([name], known))
    await show_status(crib, args.names or known, as_json=args.json)
    return OK


async def _pair(crib: Crib, args: argparse.Namespace) -> int:
    from agent.cli.terminal import controlling_terminal
    from agent.gateway.pairing import SECONDS, Pairings
    from agent.gateway.status import told_status
    from agent.policy.self_protection import folders_of, refuse_below

    refuse_below(folders_of(crib.config), "pairing users")
    [name] = _wanted(crib, args.names) if len(args.names) == 1 or len(crib.platforms) == 1 else _one(args.names)
    _require_role(crib, args.role)
    with controlling_terminal(folders_of(crib.config)) as terminal:
        code = await Pairings(crib.store, name).offer(args.role)
        role = f", as {args.role}" if args.role else ""
        terminal.show(
            f"send this code to the bot on {name} in a direct chat within {SECONDS / 60:.0f} minutes{role}: {code[:4]}-{code[4:]}"
        )
        if not (await told_status(crib.store, name))["is_fresh"]:
            terminal.show(f"no gateway is running {name}; the code works once you start one: toolcrib gateway run {name}")
    return OK


def _require_role(crib: Crib, role: str) -> None:
    """Raise ToolcribError, with the nearest known role, for a role that no setting names: such a role gives no rights."""
    from toolcrib.contract.suggest import near

    config = crib.config
    known = {"owner", *(role for one in config.platforms.values() for role in one.roles)}
    known |= {role for roles in config.gateway.approvers.values() for role in roles}
    if role and role not in known:
        alike = near(role, sorted(known))
        meant = f"; did you mean {alike[0]!r}?" if alike else ""
        raise ToolcribError(
            f"no setting names the role {role!r}{meant} (known: {', '.join(sorted(known))}): allow it to approve calls, such as"
            f" `toolcrib config set gateway.approvers.fs '[owner, {role}]'`, or give it to users in platforms.NAME.roles"
        )


def _one(names: list[str]) -> list[str]:
    raise ToolcribError("give the platform: toolcrib gateway pair NAME" if not names else "give only one platform")


async def _passphrase(crib: Crib, args: argparse.Namespace) -> int:
    from agent.cli.terminal import controlling_terminal
    from agent.config import state_dir
    from agent.policy.passphrase import SHORTEST, set_passphrase
    from agent.policy.self_protection import folders_of

    with controlling_terminal(folders_of(crib.config)) as terminal:
        try:
            text = await terminal.read_hidden(f"New passphrase ({SHORTEST} characters or more): ")
            again = await terminal.read_hidden("Repeat it: ")
        except EOFError:
            raise ToolcribError("no passphrase was set: the input ended") from None
        if text != again:
            raise ToolcribError("no passphrase was set: the two entries differ")
        set_passphrase(text)
        terminal.show(f"The passphrase is set for the state folder {state_dir()}. `:unlock` in `toolcrib console` asks for it.")
    return OK


async def _people(crib: Crib, args: argparse.Namespace) -> int:
    from agent.cli.escape import exact
    from agent.gateway.pairing import Pairings

    found = [(name, one) for name in _wanted(crib, args.names) for one in await Pairings(crib.store, name).people()]
    if args.json:
        print(json.dumps([{"platform": name, "user": one.user, "role": one.role, "at": one.at} for name, one in found]))
        return OK
    for name, one in found:
        print(f"{name}  {exact(one.user)}  {one.role or '-'}  {time.strftime('%F %H:%M', time.localtime(one.at))}")
    if not found:
        print("no paired users; to get a code: toolcrib gateway pair NAME")
    return OK


async def _unpair(crib: Crib, args: argparse.Namespace) -> int:
    from agent.gateway.pairing import Pairings
    from agent.policy.self_protection import folders_of, refuse_below

    refuse_below(folders_of(crib.config), "changing paired users")
    if len(args.names) != 2:
        raise ToolcribError("give the platform and the user: toolcrib gateway unpair NAME USER")
    name, user = args.names
    if not await Pairings(crib.store, name).remove(user):
        raise ToolcribError(f"{user} is not paired on {name}; list paired users: toolcrib gateway people")
    _say(f"{user} is no longer paired")
    return OK


async def _end(crib: Crib, args: argparse.Namespace) -> int:
    from agent.gateway.gateway import STOP, STOP_NOW
    from agent.policy.self_protection import folders_of, refuse_below

    refuse_below(folders_of(crib.config), "stopping the gateway")
    runs = await _runs(crib)
    await crib.store.signals.send(STOP_NOW if args.now else STOP)  # even if no gateway is visible: one may run other platforms
    if not runs:
        _say("no gateway is running; to see how the last one ended: toolcrib gateway status")
        return FAILED
    _say("stop requested; to see when it has ended: toolcrib gateway status")
    return OK


async def _reload(crib: Crib, args: argparse.Namespace) -> int:
    """Request a reload, and print the outcome. ``_opened`` has already refused a file with errors. Return the exit code."""
    from agent.gateway.gateway import RELOAD
    from agent.gateway.reloading import RELOADED
    from agent.gateway.status import GATEWAY
    from agent.policy.self_protection import folders_of, refuse_below

    refuse_below(folders_of(crib.config), "reloading the gateway")

    async def reloaded() -> Any:
        found = (await crib.store.state.of("profile", GATEWAY)).get(RELOADED)
        return None if found is None else found.value

    runs, before = await _runs(crib), await reloaded()
    await crib.store.signals.send(RELOAD)  # even if no gateway is visible: one may run other platforms
    if not runs:
        raise ToolcribError("no gateway is running; to start one with this configuration: toolcrib gateway run")
    ends = time.monotonic() + _PATIENCE
    while time.monotonic() < ends:
        now = await reloaded()
        if now is not None and now != before:
            for line in now["told"]:
                _say(line)
            if now["problem"]:
                _say(f"the gateway keeps its previous configuration: {now['problem']}")
            return USAGE if now["problem"] else OK
        await asyncio.sleep(0.1)
    raise ToolcribError("the gateway did not answer; check `toolcrib gateway status` and its log")


async def _runs(crib: Crib) -> bool:
    """Return whether a gateway reports that it runs, with or without known platforms."""
    from agent.gateway.status import told_idle, told_status

    names = {*crib.platforms, *crib.config.platforms}
    told = [(await told_status(crib.store, name))["is_fresh"] for name in names]
    return any(told) or await told_idle(crib.store) != 0


_OTHERS = {
    "reload": _reload,
    "status": _status,
    "pair": _pair,
    "people": _people,
    "unpair": _unpair,
    "passphrase": _passphrase,
    "drain": _end,
    "stop": _end,
}


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
