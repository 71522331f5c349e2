"""A server's models, whatever it speaks: their names, how much they take, whether they call tools natively."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias
from urllib.parse import quote, urlsplit, urlunsplit

from agent.providers._thinking import opens_thinking
from agent.providers.endpoint import Endpoint
from agent.providers.endpoint import ModelInfo as ModelInfo
from agent.providers.factory import PROVIDERS
from agent.providers.http import HttpClient
from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import BadRequest, ConfigError, ProviderError

_PAGES = 5
_DETAILS = 40
"""Number of models that are asked about one by one, where a server has no list that says it."""

_AT_ONCE = 4
_CONTEXT = ("context_length", "max_model_len", "context_window", "max_context_length", "max_input_tokens", "inputTokenLimit")


async def describe_models(client: HttpClient, provider: str, environ: Mapping[str, str], seconds: float) -> tuple[ModelInfo, ...]:
    """List the models of the client's endpoint as the provider ``provider`` does. The client's headers become that provider's.

    ``environ`` has the key, for what Ollama and others answer at addresses beside /v1: all of that may take ``seconds``, without
    which the names alone are returned. Raises a ProviderError kind, and ConfigError where the server does not say.
    """
    wire = PROVIDERS[provider].wire if provider in PROVIDERS else ""
    if wire == "anthropic":
        return await _anthropic(client)
    if wire == "gemini":
        return await _gemini(client)
    rows = _rows(await _get(client, "models"), "data", client)
    found = tuple(_described(row, "id") for row in rows)
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
        rows = _rows(await _get(client, "models"), "data", client)
    name = client.endpoint.model
    one = next((_described(row, "id") for row in rows if row.get("id") == name), ModelInfo(name))
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
    more = _more(rows)
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


# -- the wires ---------------------------------------------------------------------------------------------------------


async def _anthropic(client: HttpClient) -> tuple[ModelInfo, ...]:
    from agent.providers.anthropic import VERSION

    client.key_header = "x-api-key"
    client.headers["anthropic-version"] = VERSION
    found: list[ModelInfo] = []
    native = _is_vendors(client, "anthropic")
    path = "models?limit=1000"
    for _ in range(_PAGES):
        body = await _get(client, path)
        found += [replace(one, tools=True) if native and one.tools is None else one for one in _named(body, "data", client)]
        last = body.get("last_id")
        if not body.get("has_more") or not isinstance(last, str):
            break
        path = f"models?limit=1000&after_id={quote(last, safe='')}"
    return tuple(found)


async def _gemini(client: HttpClient) -> tuple[ModelInfo, ...]:
    client.key_header = "x-goog-api-key"
    found: list[ModelInfo] = []
    path = "models?pageSize=1000"
    for _ in range(_PAGES):
        body = await _get(client, path)
        for row in _rows(body, "models", client):
            methods = row.get("supportedGenerationMethods")
            if not isinstance(methods, list) or "generateContent" in methods:
                one = _described(row, "name")
                found.append(replace(one, name=one.name.removeprefix("models/")))
        following = body.get("nextPageToken")
        if not isinstance(following, str) or not following:
            break
        path = f"models?pageSize=1000&pageToken={quote(following, safe='')}"
    return tuple(found)


def _is_vendors(client: HttpClient, provider: str) -> bool:
    return (urlsplit(client.endpoint.base_url).hostname or "").lower() in PROVIDERS[provider].hosts


# -- what local servers answer beside /v1 -----------------------------------------------------------------------------


async def _ollama(client: HttpClient, models: tuple[ModelInfo, ...]) -> tuple[ModelInfo, ...]:
    """POST /api/show for each: the context that the model was made for, or the smaller one that its file asks for.

    Where ``tools`` is not among the capabilities, a request with tools is refused: "does not support tools".
    """
    gate = asyncio.Semaphore(_AT_ONCE)

    async def ask(model: ModelInfo) -> ModelInfo:
        try:
            async with gate, client.post("api/show", json.dumps({"model": model.name}).encode()) as reply:
                body = _parsed(await reply.whole(), client)
        except (ProviderError, ConfigError):
            return model
        info = body.get("model_info")
        sizes = [size for name, size in info.items() if name.endswith(".context_length")] if isinstance(info, Mapping) else []
        asked = re.search(r"^num_ctx\s+(\d+)", str(body.get("parameters") or ""), re.MULTILINE)
        context = _count(int(asked[1])) if asked else next((size for one in sizes if (size := _count(one)) is not None), None)
        able = body.get("capabilities")
        tools = "tools" in able if isinstance(able, list) else model.tools
        template = body.get("template")
        return ModelInfo(model.name, context or model.context, tools, _protocol(template), opens_thinking(template))

    asked = await asyncio.gather(*(ask(model) for model in models[:_DETAILS]))
    return (*asked, *models[_DETAILS:])


async def _llama_cpp(client: HttpClient, models: tuple[ModelInfo, ...]) -> tuple[ModelInfo, ...]:
    """GET /props: the context that the server was started with, and its template.

    One that has several models is asked about the one that is meant, and does not load it for that.
    """
    path = f"props?model={quote(models[0].name, safe='')}&autoload=false" if len(models) == 1 else "props"
    body = await _get(client, path)
    settings = body.get("default_generation_settings")
    context = _count(settings.get("n_ctx")) if isinstance(settings, Mapping) else None
    template = body.get("chat_template")
    able = body.get("chat_template_caps")
    tools = able.get("supports_tool_calls") if isinstance(able, Mapping) else None
    if not isinstance(tools, bool):
        tools = "tools" in template if isinstance(template, str) and template else None
    elif not tools and isinstance(able, Mapping) and able.get("supports_tools") is True:
        tools = None  # its prompt has the tools: what becomes of the calls is left open
    told = ModelInfo("", context, tools, _protocol(body.get("chat_template_tool_use"), template), opens_thinking(template))
    return tuple(
        replace(told, name=one.name, context=context or one.context, tools=tools if one.tools is None else one.tools)
        for one in models
    )


async def _lm_studio(client: HttpClient, models: tuple[ModelInfo, ...]) -> tuple[ModelInfo, ...]:
    """GET /api/v0/models: its own list, which says more.

    A model that was not trained on tools is not said to lack them: this server makes calls of any model's text itself.
    """
    told: dict[str, ModelInfo] = {}
    for row in _rows(await _get(client, "api/v0/models"), "data", client):
        one, able = _described(row, "id"), row.get("capabilities")
        loaded = _count(row.get("loaded_context_length"))
        told[one.name] = ModelInfo(one.name, loaded or one.context, (isinstance(able, list) and "tool_use" in able) or None)
    return tuple(told.get(one.name, one) for one in models)


_More: TypeAlias = Callable[[HttpClient, tuple[ModelInfo, ...]], Awaitable[tuple[ModelInfo, ...]]]
_MORE: Mapping[str, _More] = {
    "library": _ollama,
    "llamacpp": _llama_cpp,
    "organization_owner": _lm_studio,
}
"""Servers by the owner that they report for their models."""


def _more(rows: Sequence[Mapping[str, Any]]) -> _More | None:
    """Servers by what they write as the owner of a model."""
    owners = {str(row["owned_by"]) for row in rows if row.get("owned_by")}
    known = next((_MORE[owner] for owner in sorted(owners) if owner in _MORE), None)
    return known or (_ollama if owners and all(":" in str(row.get("id")) for row in rows) else None)


def _protocol(*templates: Any) -> str | None:
    """Return the protocol of the first template that is known."""
    from agent.protocols.templates import protocol_of_template

    texts = (text for text in templates if isinstance(text, str))
    return next((name for text in texts if (name := protocol_of_template(text)) is not None), None)


# -- reading -----------------------------------------------------------------------------------------------------------


async def _get(client: HttpClient, path: str) -> dict[str, Any]:
    async with client.get(path) as reply:
        return _parsed(await reply.whole(), client)


def _parsed(body: bytes, client: HttpClient) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise _silent(client) from None
    if isinstance(value, list):  # some send the rows alone
        return {"data": value}
    if not isinstance(value, dict):
        raise _silent(client)
    return value


def _rows(body: Mapping[str, Any], field: str, client: HttpClient) -> list[Mapping[str, Any]]:
    listed = body.get(field)
    if not isinstance(listed, list) or not all(isinstance(row, Mapping) for row in listed):
        raise _silent(client)
    return listed


def _named(body: Mapping[str, Any], field: str, client: HttpClient) -> list[ModelInfo]:
    return [_described(row, "id") for row in _rows(body, field, client)]


def _silent(client: HttpClient) -> ConfigError:
    return ConfigError(f"{client.endpoint.server} does not list its models; name one with --model")


def _described(row: Mapping[str, Any], key: str) -> ModelInfo:
    """A row of any of the lists. Each server has its own word for the same."""
    meta = row.get("meta")
    sizes = [row.get(name) for name in _CONTEXT]
    sizes += [meta.get("n_ctx"), meta.get("n_ctx_train")] if isinstance(meta, Mapping) else []
    context = next((size for one in sizes if (size := _count(one)) is not None), None)
    tools: bool | None = None
    fields, able = row.get("supported_parameters"), row.get("capabilities")
    if isinstance(fields, list):
        tools = "tools" in fields
    elif isinstance(able, Mapping) and isinstance(able.get("function_calling"), bool):
        tools = able["function_calling"]
    return ModelInfo(str(row.get(key) or "?"), context, tools)


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
