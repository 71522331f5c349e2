"""Hosts that a command needs and its sandbox does not reach: hosts to ask the user about, and hosts that the sandbox refused."""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from toolcrib.contract.containment import DeniedConnection, LimitsHosts
from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.environment import Environment
from toolcrib.contract.errors import InvalidArguments
from toolcrib.contract.regex import Regex
from tools.contained.outside import RUNNERS, containment_of

MOST = 8
"""Maximum number of hosts that one call may request."""
_URL = Regex(r"(?:--?[\w-]+=)?(?:\w+\+)?(?:https?|ftp)://(?:[^@/\s]*@)?(?P<host>\[[^\]/]+\]|[^\s:/?#]+)")
_ANY: frozenset[str] = frozenset()
_CLIENTS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("curl", "wget", "aria2c", "http", "https", "xh"), _ANY),
    "git": frozenset({"clone", "fetch", "pull", "push", "ls-remote", "submodule"}),
    **dict.fromkeys(("pip", "pip3"), frozenset({"install", "download", "wheel"})),
}
"""Programs that connect to addresses in their arguments, each with the sub-commands that do so (an empty set: all)."""


_SOCKETS = frozenset({"--unix-socket", "--abstract-unix-socket"})


def _limits(environment: Environment) -> LimitsHosts | None:
    holds = containment_of(environment)
    return environment if holds is not None and holds.network == "hosts" and isinstance(environment, LimitsHosts) else None


async def needed_hosts(args: Mapping[str, Any], ctx: ToolCallContext) -> tuple[str, ...]:
    """Return the hosts that a call needs and the sandbox does not reach, to ask the user about.

    They come from the argument ``hosts``, and from the addresses that the command passes to network clients. This machine is
    included only if ``hosts`` names it, because the session's own servers need no approval. Raises InvalidArguments.
    """
    environment = _limits(ctx.environment)
    if environment is None:
        return ()
    given = args.get("hosts") or ()
    if len(given) > MOST:
        raise InvalidArguments(f"hosts: at most {MOST} at once")
    try:
        found = list(await environment.unknown_hosts(given))
    except ValueError as error:
        raise InvalidArguments(f"hosts: {error}") from None
    for host in addressed_hosts(args["command"])[: MOST - len(found)]:
        with contextlib.suppress(ValueError):  # not a host name, or one that cannot be requested: the sandbox refuses it
            found += [one for one in await environment.unknown_hosts([host]) if not one.startswith("localhost:")]
    return tuple(dict.fromkeys(found))


def addressed_hosts(command: str) -> list[str]:
    """Return the hosts in the addresses that a command passes to network clients."""
    if "://" not in command:
        return []
    from tools.judge.detect import examine
    from tools.judge.meaning.state import NoFiles
    from tools.judge.setting import Setting

    commands = examine(command, "", None, NoFiles(), Setting()).commands
    matches = (_URL.match(word) for words in commands for word in _words(words))
    return list(dict.fromkeys(found["host"] for found in matches if found is not None))


def _words(words: Sequence[str]) -> Sequence[str]:
    """Return the arguments of a network client that connects to the addresses in them, () for other commands."""
    for number, word in enumerate(words):
        name = posixpath.basename(word)
        if (verbs := _CLIENTS.get(name)) is not None:
            args = words[number + 1 :]
            if not _SOCKETS.isdisjoint(args):
                return ()  # the client connects to the socket, not to the host in the address
            return args if not verbs or not verbs.isdisjoint(args) else ()
        if name not in RUNNERS:
            return ()
    return ()


def allowing(environment: Environment, hosts: Sequence[str]) -> AbstractContextManager[None]:
    """Return a context that lets the environment's commands also reach these hosts."""
    limits = _limits(environment) if hosts else None
    return nullcontext() if limits is None else limits.allowing(hosts)


def refused(environment: Environment, since: float) -> Sequence[DeniedConnection]:
    """Return the connections that the environment's sandbox refused at ``since`` or later."""
    limits = _limits(environment)
    return () if limits is None else limits.denied_hosts(since)
