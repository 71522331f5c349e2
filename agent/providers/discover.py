"""Model servers on this machine: searched for on request, offered to the user, never used unasked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

from agent.providers.endpoint import Endpoint
from agent.providers.http import HttpClient, HttpLimits
from agent.providers.local_servers import PROGRAMS
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import ConfigError, ProviderError

PORTS: Mapping[int, str] = {one.port: one.name for one in PROGRAMS}
_MAX_BODY = 1024 * 1024


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A model server on this machine. ``kind`` is a guess by its port; ``models`` are the names of its models."""

    base_url: str
    kind: str
    models: tuple[str, ...]


async def find_local_servers(timeout: float = 0.3, ports: Mapping[int, str] = PORTS) -> list[LocalServer]:  # noqa: ASYNC109 - the limit of each request, not of this call
    """Return the servers on loopback that begin to answer within ``timeout`` seconds. No key is sent to them."""
    found = await asyncio.gather(*(_look(port, kind, timeout) for port, kind in ports.items()))
    return [server for server in found if server is not None]


async def list_models(client: HttpClient, seconds: float | None = None) -> tuple[str, ...]:
    """Return the models that the server lists. An answer that has begun may take ``seconds`` to arrive.

    Raises a subclass of ProviderError, TimeoutError, and ConfigError if the server has no list.
    """
    async with client.get("models") as reply, asyncio.timeout(seconds):
        body = await reply.whole()
    try:
        listed = json.loads(body)["data"]
        return tuple(str(one["id"]) for one in listed)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ConfigError(f"{client.endpoint.server} does not list its models; name one with --model") from None


async def choose_model(client: HttpClient) -> str:
    """Return the server's only model. Raises ConfigError if it has none or several; the message names some."""
    models = await list_models(client)
    if len(models) == 1:
        return models[0]
    shown = ", ".join(models[:10]) + (", ..." if len(models) > 10 else "")
    raise ConfigError(f"{client.endpoint.server} has {len(models)} models; choose one with --model ({shown or 'it lists none'})")


async def _look(port: int, kind: str, timeout: float) -> LocalServer | None:  # noqa: ASYNC109 - as above
    base_url = f"http://127.0.0.1:{port}/v1"
    client = HttpClient(Endpoint(base_url), {}, HttpLimits(timeout, timeout, timeout, _MAX_BODY))
    try:
        # No time limit here: loading the HTTP library may take longer. The limits of the client begin with the request.
        return LocalServer(base_url, kind, await list_models(client, timeout))
    except (ProviderError, ConfigError, TimeoutError):
        return None  # no server there, or a different one
    finally:
        await client.aclose()
