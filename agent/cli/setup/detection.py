"""Detect model servers on this machine, vendors' keys, and backends that can work: all at once, each with a time limit."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from agent.backend_check import try_backends
from agent.backends import Backend
from agent.providers.discover import PORTS, LocalServer, find_local_servers
from agent.providers.rows import vendors
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import EnvironmentFailed
from tools.dispatch.threads import in_daemon_thread

if TYPE_CHECKING:
    from agent.process import Crib

_LISTING = 2.0
"""Seconds to wait for an answer from a port of this machine."""
_SERVICE = 5.0
"""Seconds to wait for an answer from a backend's service; a service that hangs is reported."""
NAMES: Mapping[str, str] = {name: vendor.title for name, vendor in vendors().items()}
"""Provider -> title of its vendor, for vendors whose key may be set or typed."""


@dataclass(frozen=True, slots=True)
class BackendSeen:
    """A backend, why it can't work here (or ""), and the setting that it still needs.

    ``values`` are the possible values of this setting, if a service lists them.
    """

    backend: Backend
    problem: str = ""
    wants: str = ""
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SetupFound:
    """The result of the detection. ``keys`` maps providers to the variable, or the line of secrets.env, with the vendor's key."""

    servers: tuple[LocalServer, ...]
    keys: Mapping[str, str]
    backends: tuple[BackendSeen, ...]

    def backend(self, name: str) -> BackendSeen | None:
        return next((one for one in self.backends if one.backend.name == name), None)


def keys_of(environ: Mapping[str, str]) -> dict[str, str]:
    """Return each provider whose vendor's key is set, with the name of the variable that contains it."""
    found = {name: vendor.key_in(environ) for name, vendor in vendors().items()}
    return {name: key for name, key in found.items() if key is not None}


async def detect_setup(crib: Crib, environ: Mapping[str, str], ports: Sequence[int]) -> SetupFound:
    """Detect everything. No key is sent anywhere. Only this machine and the services of backends, such as docker, are asked."""
    wanted = {port: PORTS.get(port, "a model server") for port in ports or PORTS}
    servers, backends = await asyncio.gather(
        find_local_servers(_LISTING, wanted), asyncio.gather(*(_seen(crib, backend) for backend in crib.backends.all()))
    )
    return SetupFound(tuple(servers), keys_of(environ), tuple(backends))


async def _seen(crib: Crib, backend: Backend) -> BackendSeen:
    """Find out whether a backend can work, and ask its service for values of the setting that the backend needs."""
    values: tuple[str, ...] = ()
    problem, needs = backend.problem(), backend.row.needs
    if not problem and not backend.missing and backend.row.is_tried_at_setup:
        problem = await in_daemon_thread(_opens, crib, backend)
    if not problem and needs is not None and needs.offered_by:
        try:
            async with asyncio.timeout(_SERVICE):
                values = await in_daemon_thread(backend.offers)
        except TimeoutError:
            problem = f"{needs.offered_by} did not answer in {_SERVICE:g} s"
        except EnvironmentFailed as error:
            problem = str(error)
    return BackendSeen(backend, problem, backend.missing, values)


def _opens(crib: Crib, backend: Backend) -> str:
    """Return why a sandbox does not open, or "". An installed program proves nothing: the kernel may forbid sandboxes."""
    with tempfile.TemporaryDirectory(prefix="toolcrib-setup-") as folder:
        return try_backends(crib.backends, [backend], folder, briefly=True)[0].problem
