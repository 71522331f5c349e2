"""A server's models, whatever it speaks: their names, how much they take, whether they call tools natively."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from agent.providers._model_rows import described, get_json, rows_of
from agent.providers.endpoint import Endpoint
from agent.providers.endpoint import ModelInfo as ModelInfo
from agent.providers.http import HttpClient
from agent.providers.local_servers import details_of
from agent.providers.rows import PROVIDERS, load
from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import BadRequest, ConfigError, ProviderError


async def describe_models(client: HttpClient, provider: str, environ: Mapping[str, str], seconds: float) -> tuple[ModelInfo, ...]:
    """List the models of the client's endpoint as the provider ``provider`` does. The client's headers become that provider's.

    ``environ`` has the key, for what Ollama and others answer at addresses beside /v1: all of that may take ``seconds``, without
    which the names alone are returned. Raises a ProviderError kind, and ConfigError where the server does not say.
    """
    known = PROVIDERS[provider]
    session = load(known.wire.session)
    session.prepare(client)
    found: tuple[ModelInfo, ...] | None = await session.list_models(client)
    if found is None:
        found = await _listed(client, environ, seconds)
    if known.native_tools and (urlsplit(client.endpoint.base_url).hostname or "").lower() in known.hosts:
        found = tuple(replace(one, tools=True) if one.tools is None else one for one in found)
    return found


async def _listed(client: HttpClient, environ: Mapping[str, str], seconds: float) -> tuple[ModelInfo, ...]:
    """Return what a server lists as OpenAI's do, with what some local ones say of their models beside that."""
    rows = rows_of(await get_json(client, "models"), "data", client)
    found = tuple(described(row, "id") for row in rows)
    try:
        return await _with_more(client, rows, found, environ, seconds)
    except (ProviderError, ConfigError, TimeoutError):
        return found  # the names are known, which is more than nothing


async def describe_model(client: HttpClient, environ: Mapping[str, str], seconds: float) -> ModelInfo:
    """The endpoint's model alone, at a server that speaks Chat Completions: two requests at most, of ``seconds`` each.

    Nothing is loaded or changed by them. A server may know the model by other names than it lists. Raises a ProviderError kind,
    TimeoutError, and ConfigError where the server does not say what it has.
    """
    async with asyncio.timeout(seconds):
        rows = rows_of(await get_json(client, "models"), "data", client)
    name = client.endpoint.model
    one = next((described(row, "id") for row in rows if row.get("id") == name), ModelInfo(name))
    try:
        (found,) = await _with_more(client, rows, (one,), environ, seconds)
    except (BadRequest, ConfigError):
        return one  # it has no such address
    return found


async def _with_more(
    client: HttpClient,
    rows: Sequence[Mapping[str, Any]],
    found: tuple[ModelInfo, ...],
    environ: Mapping[str, str],
    seconds: float,
) -> tuple[ModelInfo, ...]:
    """Add what the server says of these models beside /v1, to the key that is for this server."""
    more = details_of(rows)
    if more is None:
        return found
    parts = urlsplit(client.endpoint.base_url)
    root = urlunsplit(parts._replace(path=parts.path.rstrip("/").removesuffix("/v1")))
    beside = HttpClient(Endpoint(root, "", client.endpoint.key_env), environ, client.limits)
    try:
        async with asyncio.timeout(seconds):
            return await more(beside, found)
    finally:
        await beside.aclose()
