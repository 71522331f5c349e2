"""Reasons why an engine does not answer, and advice."""

from __future__ import annotations

import getpass
import os
from typing import TYPE_CHECKING

from toolcrib.contract.errors import EnvironmentFailed

if TYPE_CHECKING:
    import docker

_START = "start the engine (systemctl start docker)"
_CAUSES = (
    (("FileNotFoundError", "No such file"), "the socket does not exist", f"{_START}, or set its address (host, or $DOCKER_HOST)"),
    (("ConnectionRefused", "Connection refused"), "nothing listens there", _START),
    (
        ("PermissionError", "Permission denied"),
        "your account may not use it",
        "join the group of its socket (usermod -aG docker {user}, then log in again), or run a rootless engine",
    ),
    (("Name or service not known", "name resolution", "nodename nor"), "there is no host with that name", "check its address"),
    (("No route to host", "Network is unreachable"), "there is no route to that host", "check its address, and the network"),
    (("timed out", "Timeout", "TimeoutError"), "it took too long", "is it overloaded, or is the address wrong?"),
    (
        ("RemoteDisconnected", "ConnectionReset", "BrokenPipe", "Connection broken"),
        "it closed the connection",
        "did it just stop? If it does not restart, see its log (journalctl -u docker)",
    ),
)
"""(text in the error, its meaning, advice)"""
_FIXES = (
    (("unable to find user",), "set user to UID:GID, or to a name that the image has"),
    (("network ", "not found"), "set network to none, or to one that `docker network ls` lists"),
    (("invalid reference format",), "set image to a name such as debian:12"),
    (("memory limit",), "raise memory"),
    (("duplicate mount point",), "name each folder in mounts once"),
    (("no space left on device",), "free space for the engine's data, for example with `docker system prune`"),
)
"""(words of the engine's message in lower case, advice)"""


def refused(what: str, said: str) -> EnvironmentFailed:
    """Return the error for a request that the engine rejected."""
    fix = next((f": {fix}" for signs, fix in _FIXES if all(sign in said.lower() for sign in signs)), "")
    return EnvironmentFailed(f"can't {what} the container: the docker engine reports: {said}{fix}")


def cause(error: BaseException) -> str:
    """Return ``(why): what to do`` for an error of the engine."""
    text = f"{type(error).__name__}: {error}"
    for signs, why, fix in _CAUSES:
        if any(sign in text for sign in signs):
            return f"({why}): {fix.replace('{user}', _user())}"
    return f"({str(error)[:200]}): is it running?"


def unanswered(address: str, error: BaseException) -> EnvironmentFailed:
    """Return the error for an engine that does not answer."""
    return EnvironmentFailed(f"the docker engine at {address} does not answer {cause(error)}")


def new_client(host: str, seconds: int) -> docker.DockerClient:
    """Return a client of the engine at ``host``; "" means the engine that $DOCKER_HOST names, or the default one.

    ``seconds`` limits each request. Raises EnvironmentFailed for an invalid address, and errors of docker and requests.
    """
    import docker

    try:
        return docker.DockerClient(host, timeout=seconds) if host else docker.from_env(timeout=seconds)
    except ValueError as error:
        name = "environments.docker.host" if host else "DOCKER_HOST"
        given = host or os.environ.get("DOCKER_HOST", "")
        raise EnvironmentFailed(
            f"{name} is {given!r}, which is not an address: {error}; write unix://PATH or tcp://HOST:PORT"
        ) from None


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name
        return "YOU"
