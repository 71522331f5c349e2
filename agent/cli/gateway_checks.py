"""Checks of the gateway for `toolcrib doctor`: who may write and approve, what is missing, and what a process left behind."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from agent.cli.finding import CheckFinding
from agent.cli.gateway_status import lasted
from agent.config import Config, PlatformConfig
from toolcrib.contract.chat import TellsShortcomings
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import ConfigError
from toolcrib.contract.suggest import near
from tools.dispatch.bridge import run_async

if TYPE_CHECKING:
    from agent.process import Crib

_CONNECT_SECONDS = 10.0
_EVERYTHING = "anything else"
_ANYBODY = "*"


@dataclass(frozen=True, slots=True)
class _Seen:
    """State of a platform: its reported status, the roles that users have, the number of users, its account, the process that
    holds the account, why the platform can't connect, and its shortcomings.
    """

    name: str
    config: PlatformConfig
    told: dict[str, Any]
    roles: frozenset[str]
    people: int
    account: str
    holder: str
    problem: str
    shortcomings: Sequence[tuple[str, str]]


def check_gateway(crib: Crib) -> Iterator[CheckFinding]:
    """Yield problems of the enabled platforms. Platforms that no gateway runs now are connected, as a test."""
    found = [run_async(_look(crib, name)) for name in sorted(crib.platforms)]
    for seen in found:
        yield from _reach(crib, seen)
        yield from _life(seen)
        yield from (CheckFinding("gateway.shortcoming", "note", f"{seen.name}: {what}", fix) for what, fix in seen.shortcomings)
    yield from _approvers(crib, found)
    yield from _port(crib, found)


async def _look(crib: Crib, name: str) -> _Seen:
    from agent.gateway.pairing import Pairings
    from agent.gateway.status import told_status

    config = crib.config.platforms.get(name, PlatformConfig())
    told = await told_status(crib.store, name)
    paired = await Pairings(crib.store, name).people()
    roles = {role for role, people in config.roles.items() if people} | {one.role for one in paired if one.role}
    account, problem, shortcomings = await _connected(
        crib, name, config, account=told.get("account") if told["is_fresh"] else None
    )
    holder = await crib.store.leases.holder(f"account:{name}:{account}") if account else None
    people = len(config.allowed_users) + len(paired) + sum(map(len, config.roles.values()))
    return _Seen(name, config, told, frozenset(roles), people, account, holder or "", problem, shortcomings)


async def _connected(
    crib: Crib, name: str, config: PlatformConfig, *, account: str | None
) -> tuple[str, str, Sequence[tuple[str, str]]]:
    """Return the platform's account, why it can't connect (or ""), and its shortcomings. No message is received. If a gateway
    already runs the platform, with ``account``, no connection is made.
    """
    from agent.plugin_host.lifecycle import STOP_SECONDS, guarded

    is_running, made = account is not None, list[Any]()

    async def connect() -> None:
        nonlocal account
        made.append(_made(crib, name, config))
        if not is_running:
            account = await made[0].connect()

    problem = await guarded(f"the platform {name!r}", connect, _CONNECT_SECONDS, crib.redactor().text)
    if made:
        await guarded(f"stop of the platform {name!r}", made[0].stop, STOP_SECONDS)
    shortcomings = made[0].shortcomings if made and isinstance(made[0], TellsShortcomings) else ()
    return account or "", "" if is_running else problem.removeprefix("ConfigError: "), shortcomings


def _made(crib: Crib, name: str, config: PlatformConfig) -> Any:
    """Return the platform without connecting it. Raises ConfigError for wrong settings."""
    from agent.gateway.admission import Admission
    from agent.gateway.host import GatewayHost
    from agent.gateway.pairing import Pairings

    pairings = Pairings(crib.store, name)
    door = GatewayHost(name, crib.config, crib.store, Admission(name, config, pairings, crib.store), pairings)
    return crib.platforms[name](name=name, host=door)


def wrong_settings(crib: Crib) -> Iterator[str]:
    """Yield errors in settings of platforms that can be found without a connection."""
    for name in sorted(crib.platforms):
        try:
            _made(crib, name, crib.config.platforms.get(name, PlatformConfig()))
        except ConfigError as error:
            if f"platforms.{name}.settings." in str(error):
                yield str(error)


def _reach(crib: Crib, seen: _Seen) -> Iterator[CheckFinding]:
    """Yield findings about users who may do too much, and platforms without users."""
    name, config = seen.name, seen.config
    where = f"platforms.{name}"
    try:
        is_local = not crib.backends.get(config.backend).row.is_contained
    except ConfigError as error:
        origin = crib.config.origin(f"{where}.backend")
        yield CheckFinding("gateway.backend", "wrong", f"{origin}: {where}.backend: {error}", "use an existing backend")
        return
    fix = f"set {where}.backend to a sandbox, a container or another host, or list the users"
    if is_local and _ANYBODY in config.roles.get("owner", ()):
        yield CheckFinding(
            "gateway.anybody", "wrong", f"{where}.roles: anyone who writes is the owner, and runs commands on this machine", fix
        )
    elif is_local and config.allow_local and _ANYBODY in (*config.allowed_users, *sum(config.roles.values(), ())):
        yield CheckFinding(
            "gateway.anybody", "wrong", f"{where}: anyone who writes can run commands on this machine, with your rights", fix
        )
    elif is_local and config.allow_local:
        words = f"{where}.allow_local: users other than the owner can run commands on this machine, with your rights"
        yield CheckFinding(
            "gateway.local", "note", words, f"set {where}.backend to a sandbox, a container or another host instead"
        )
    if not seen.people:
        fix = f"toolcrib gateway pair {name} --role owner"
        yield CheckFinding("gateway.nobody", "note", f"{name}: no user may chat there yet", fix)


def _life(seen: _Seen) -> Iterator[CheckFinding]:
    """Yield findings about the platform's connection, and about a gateway that runs it, died, or no longer reports."""
    name, told = seen.name, seen.told
    since = lasted(time.time() - float(told.get("at", 0.0)))
    if told["is_fresh"] and told.get("problem"):
        problem = str(told["problem"]).removeprefix("ConfigError: ")
        fix = "follow the message; a running gateway retries"
        yield CheckFinding("gateway.down", "wrong", f"{name} is down: {problem}", fix)
    elif told["is_fresh"]:
        yield CheckFinding("gateway.runs", "ok", f"{name}: the gateway is process {told.get('pid')}, {told.get('state')}")
    elif seen.problem:
        fix = "follow the message, then start the gateway"
        yield CheckFinding("gateway.unconnected", "wrong", f"cannot connect to {name}: {seen.problem}", fix)
    elif seen.holder:
        words = (
            f"{name}: process {seen.holder.partition(':')[0]} holds the account {seen.account}, but has not reported for {since}"
        )
        yield CheckFinding("gateway.silent", "wrong", words, "end that process; the account becomes free half a minute later")
    elif told.get("state") not in (None, "stopped"):
        words = f"{name}: the gateway's process {told.get('pid')} died {since} ago"
        yield CheckFinding("gateway.died", "note", words, "toolcrib gateway run; unfinished runs resume, and nothing is lost")
    else:
        yield CheckFinding("gateway.ready", "ok", f"{name} accepts connections as {seen.account}")
    if not told["is_fresh"] and not seen.holder and (why := _taken(seen.account)):
        yield CheckFinding(
            "gateway.address",
            "wrong",
            f"{name} cannot listen at {seen.account}: {why}",
            "end the process that listens there, or set another port",
        )


def _approvers(crib: Crib, found: Sequence[_Seen]) -> Iterator[CheckFinding]:
    """Yield findings about rules whose matches no user of a platform may approve."""
    yield from _misnamed(crib.config)
    approvers = {**crib.config.gateway.approvers, _EVERYTHING: ("owner",)}
    for key, roles in approvers.items():
        without = [seen.name for seen in found if seen.people and not seen.roles.intersection(roles)]
        if not without:
            continue
        asked = " or ".join(roles)
        words = f"no user on {', '.join(without)} may approve {key}: it needs the role {asked}"
        role, first = (*roles, "ROLE")[0], without[0]
        fix = f"give the role to a user in platforms.{first}.roles, or: toolcrib gateway pair {first} --role {role}"
        yield CheckFinding("gateway.approvers", "wrong" if key != _EVERYTHING else "note", words, fix)


def _misnamed(config: Config) -> Iterator[CheckFinding]:
    """Yield findings about names in gateway.approvers that resemble known rules. Other unknown names may be rules of plugins."""
    from tools.judge.rules import all_rules

    keys = {rule.key for rule in all_rules()} | {rule.key for rule in config.approval.rules}
    known = {".".join(words[:length]) for words in (key.split(".") for key in keys) for length in range(1, len(words) + 1)}
    for key in config.gateway.approvers:
        if key not in known and (meant := near(key, sorted(known), cutoff=0.8)):
            text = f"gateway.approvers: no rule finds {key}, so this line has no effect; did you mean {meant[0]}?"
            yield CheckFinding("gateway.approvers-name", "note", text, "fix that line; list of names: toolcrib docs rules")


def _port(crib: Crib, found: Sequence[_Seen]) -> Iterator[CheckFinding]:
    """Yield problems that keep the gateway's metrics from being served."""
    gateway = crib.config.gateway
    if not gateway.port:
        return
    if find_spec("prometheus_client") is None or find_spec("uvicorn") is None:
        yield CheckFinding(
            "gateway.extra", "wrong", "gateway.port needs an extra that is not installed", "pip install 'toolcrib[gateway]'"
        )
    elif not any(seen.told["is_fresh"] for seen in found) and (why := _taken(f"{gateway.host}:{gateway.port}")):
        yield CheckFinding(
            "gateway.port",
            "wrong",
            f"gateway.port: {gateway.host}:{gateway.port}: {why}",
            "end the process that listens there, or set another port",
        )


def _taken(address: str) -> str:
    """Return why a server can't listen at an address; "" if it can, or if the text is no address, such as user@server."""
    import socket

    host, _, port = address.rpartition(":")
    if not host or "@" in host or not port.isdecimal() or not 0 < int(port) < 65_536:
        return ""
    try:
        socket.create_server((host, int(port)), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError as error:
        return error.strerror or str(error)
    return ""
