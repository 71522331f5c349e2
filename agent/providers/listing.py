"""A server's models, on any wire: their names, context sizes, and whether they call tools natively."""

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
    """Return the models of the client's endpoint. The client's headers become those of ``provider``.

    ``environ`` has the key, for details that Ollama and others offer at addresses beside /v1. All details together may take
    ``seconds``; after that, the models are returned without them. Raises a subclass of ProviderError, and ConfigError if the
    server has no list.
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
    """Return the models of an OpenAI-style list, with the details that some local servers offer beside it."""
    rows = rows_of(await get_json(client, "models"), "data", client)
    found = tuple(described(row, "id") for row in rows)
    try:
        return await _with_more(client, rows, found, environ, seconds)
    except (ProviderError, ConfigError, TimeoutError):
        return found  # the names alone are still useful


async def describe_model(client: HttpClient, environ: Mapping[str, str], seconds: float) -> ModelInfo:
    """Return the endpoint's model, at a server that speaks Chat Completions: at most two requests, of ``seconds`` each.

    The requests load no model and change nothing. The server may accept other names than it lists. Raises a subclass of
    ProviderError, TimeoutError, and ConfigError if the server has no list.
    """
    async with asyncio.timeout(seconds):
        rows = rows_of(await get_json(client, "models"), "data", client)
    name = client.endpoint.model
    one = next((described(row, "id") for row in rows if row.get("id") == name), ModelInfo(name))
    try:
        (found,) = await _with_more(client, rows, (one,), environ, seconds)
    except (BadRequest, ConfigError):
        return one  # the server has no address for details
    return found


async def _with_more(
    client: HttpClient,
    rows: Sequence[Mapping[str, Any]],
    found: tuple[ModelInfo, ...],
    environ: Mapping[str, str],
    seconds: float,
) -> tuple[ModelInfo, ...]:
    """Return the models with the details that the server offers beside /v1, using its key."""
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
