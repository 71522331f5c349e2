"""List, stop and remove toolcrib's containers in a docker engine, for the user."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from toolcrib.contract.errors import EnvironmentFailed
from tools.environments import _owner
from tools.environments.containers import OurContainer
from tools.environments.docker.engine import new_client, unanswered
from tools.environments.docker.options import LABEL, OWNER

if TYPE_CHECKING:
    import docker

DEFAULT_ENGINE = "unix:///var/run/docker.sock"
_TIMEOUT = 20
_KEEP = "toolcrib.keep"


def engine_of(host: str) -> str:
    """Return ``host``; if it is empty, $DOCKER_HOST; if that is empty too, the default address."""
    return host or os.environ.get("DOCKER_HOST", "") or DEFAULT_ENGINE


def containers(host: str = "") -> list[OurContainer]:
    """Return toolcrib's containers in the engine, of all processes, newest first. Raises EnvironmentFailed."""
    with client_of(host) as client:
        found = client.containers.list(all=True, filters={"label": OWNER}, ignore_removed=True)
        return [_read(each, host) for each in found]


def images(host: str) -> tuple[str, ...]:
    """Return the names of the engine's images, sorted. Raises EnvironmentFailed."""
    with client_of(host) as client:
        return tuple(sorted({tag for image in client.images.list() for tag in image.tags}))


def stop(container: OurContainer) -> str:
    """Stop a kept container ("stopped"), remove any other ("removed", also if it does not exist). Raises EnvironmentFailed."""
    with client_of(container.engine) as client, contextlib.suppress(_not_found()):
        found = client.containers.get(container.name)
        if container.kept:
            found.stop(timeout=2)
            return "stopped"
        found.remove(force=True, v=True)
    return "removed"


def remove(container: OurContainer) -> None:
    """Remove the container. Raises EnvironmentFailed."""
    with client_of(container.engine) as client, contextlib.suppress(_not_found()):
        client.containers.get(container.name).remove(force=True, v=True)


def _read(container: Any, host: str) -> OurContainer:
    labels, state = container.labels, container.attrs["State"]
    owner = labels.get(OWNER, "")
    lives: bool | None = None
    if _owner.is_dead(owner):
        lives = False
    elif owner.partition(" ")[0] == socket.gethostname():
        lives = True
    return OurContainer(
        name=str(container.name),
        session=labels.get(LABEL, ""),
        engine=engine_of(host),
        image=str(container.attrs["Config"]["Image"]),
        status=str(container.status),
        since=_seconds(state.get("StartedAt", "")) or _seconds(container.attrs.get("Created", "")),
        owner_lives=lives,
        kept=labels.get(_KEEP) == "reuse",
        in_use=bool(container.attrs.get("ExecIDs")),
    )


def _seconds(stamp: str) -> float:
    """Return the Unix time of a stamp such as ``2026-01-31T12:00:00.123456789Z``; 0 for a stamp that means never."""
    with contextlib.suppress(ValueError):
        then = datetime.fromisoformat(f"{stamp.partition('.')[0].removesuffix('Z')}+00:00").timestamp()
        return max(0.0, then)
    return 0.0


def _not_found() -> type[Exception]:
    import docker

    found: type[Exception] = docker.errors.NotFound
    return found


@contextlib.contextmanager
def client_of(host: str) -> Iterator[docker.DockerClient]:
    """Open a short-lived client of the engine; fail fast if no engine answers. Raises EnvironmentFailed and docker's NotFound."""
    address = engine_of(host)
    try:
        import docker
        import requests
    except ImportError as error:
        raise EnvironmentFailed(f"docker containers need the package docker: {error}") from error
    try:
        if address.startswith("unix://"):
            with socket.socket(socket.AF_UNIX) as knocking:
                knocking.settimeout(_TIMEOUT)
                knocking.connect(address.removeprefix("unix://"))
        client = new_client(host, _TIMEOUT)
        with contextlib.closing(client):
            yield client
    except docker.errors.APIError as error:
        if isinstance(error, docker.errors.NotFound):
            raise
        raise EnvironmentFailed(f"the docker engine at {address} reports: {error.explanation or error}") from error
    except (docker.errors.DockerException, requests.RequestException, OSError) as error:
        raise unanswered(address, error) from error
