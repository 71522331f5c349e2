"""Look for model servers on this machine, vendors' keys, backends that can work. All at once, each with a limit."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from agent.backend_check import try_backends
from agent.backends import BUBBLEWRAP, DOCKER, LOCAL, Backend, unavailable
from agent.providers.discover import PORTS, LocalServer, find_local_servers
from agent.providers.rows import vendors
from toolcrib.contract.dataclass import dataclass, replace
from toolcrib.contract.errors import EnvironmentFailed
from tools.dispatch.threads import in_daemon_thread

if TYPE_CHECKING:
    from agent.process import Crib

_LISTING = 2.0
"""Seconds that a port of this machine may take to answer."""
_ENGINE = 5.0
"""Seconds that a docker engine may take to answer; one that hangs is told as such."""
NAMES: Mapping[str, str] = {name: vendor.title for name, vendor in vendors().items()}
"""Vendors whose key may be set or typed, by the provider that their servers are asked with."""


@dataclass(frozen=True, slots=True)
class BackendSeen:
    """A backend, why it can't work here ("" where nothing speaks against it), and the setting that it still needs.

    ``images`` are those of a docker engine.
    """

    backend: Backend
    problem: str = ""
    wants: str = ""
    images: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SetupFound:
    """``keys``: provider -> the variable, or line of secrets.env, that holds its vendor's key."""

    servers: tuple[LocalServer, ...]
    keys: Mapping[str, str]
    backends: tuple[BackendSeen, ...]

    def backend(self, name: str) -> BackendSeen | None:
        return next((one for one in self.backends if one.backend.name == name), None)


def keys_of(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variable with the key, of each vendor that has one."""
    found = {name: vendor.key_in(environ) for name, vendor in vendors().items()}
    return {name: key for name, key in found.items() if key is not None}


async def look(crib: Crib, environ: Mapping[str, str], ports: Sequence[int]) -> SetupFound:
    """Look for all of it. No key is sent anywhere, and nothing is asked that is not on this machine."""
    wanted = {port: PORTS.get(port, "a model server") for port in ports or PORTS}
    servers, backends = await asyncio.gather(
        find_local_servers(_LISTING, wanted), asyncio.gather(*(_seen(crib, backend) for backend in crib.backends.all()))
    )
    return SetupFound(tuple(servers), keys_of(environ), tuple(backends))


async def _seen(crib: Crib, backend: Backend) -> BackendSeen:
    if backend.kind == DOCKER:
        return await _engine(backend)
    if backend.missing:
        return BackendSeen(backend, wants=backend.missing)
    problem = unavailable(backend)
    if not problem and backend.kind == BUBBLEWRAP:
        problem = await in_daemon_thread(_opens, crib, backend)
    return BackendSeen(backend, problem)


def _opens(crib: Crib, backend: Backend) -> str:
    """Return why a sandbox does not open, which its program alone does not tell: a kernel may forbid it."""
    with tempfile.TemporaryDirectory(prefix="toolcrib-setup-") as folder:
        return try_backends(crib.backends, [backend], folder, briefly=True)[0].problem


async def _engine(backend: Backend) -> BackendSeen:
    """Ask the engine for its images."""
    if problem := unavailable(replace(backend, options={**backend.options, "image": "any"})):
        return BackendSeen(backend, problem, backend.missing)
    try:
        async with asyncio.timeout(_ENGINE):
            images = await in_daemon_thread(_images, backend.options["host"])
    except TimeoutError:
        return BackendSeen(backend, f"the docker engine did not answer in {_ENGINE:g} s", backend.missing)
    except EnvironmentFailed as error:
        return BackendSeen(backend, str(error), backend.missing)
    return BackendSeen(backend, wants=backend.missing, images=images)


def _images(host: str) -> tuple[str, ...]:
    from tools.environments.docker.admin import client_of

    with client_of(host) as client:
        return tuple(sorted({tag for image in client.images.list() for tag in image.tags}))


def is_local(backend: Backend) -> bool:
    """Return whether its commands may do what the person may: the weakest."""
    return backend.kind == LOCAL
