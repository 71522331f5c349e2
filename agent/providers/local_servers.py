"""Programs that serve models on a user's own machine: one row each, and their details beside /v1."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias
from urllib.parse import quote

from agent.providers._model_rows import count_of, described, get_json, parsed, rows_of
from agent.providers._thinking import opens_thinking
from agent.providers.endpoint import ModelInfo
from agent.providers.http import HttpClient
from toolcrib.contract.dataclass import dataclass, replace
from toolcrib.contract.errors import ConfigError, ProviderError

_DETAILS = 40
"""Maximum number of models that are queried one by one, if the server has no list with their details."""
_AT_ONCE = 4


async def _ollama(client: HttpClient, models: tuple[ModelInfo, ...]) -> tuple[ModelInfo, ...]:
    """POST /api/show for each model, for its context: the one that its Modelfile sets, else the model's own.

    If ``tools`` is not among a model's capabilities, Ollama refuses a request with tools: "does not support tools".
    """
    gate = asyncio.Semaphore(_AT_ONCE)

    async def ask(model: ModelInfo) -> ModelInfo:
        try:
            async with gate, client.post("api/show", json.dumps({"model": model.name}).encode()) as reply:
                body = parsed(await reply.whole(), client)
        except (ProviderError, ConfigError):
            return model
        info = body.get("model_info")
        sizes = [size for name, size in info.items() if name.endswith(".context_length")] if isinstance(info, Mapping) else []
        asked = re.search(r"^num_ctx\s+(\d+)", str(body.get("parameters") or ""), re.MULTILINE)
        context = count_of(int(asked[1])) if asked else next((size for one in sizes if (size := count_of(one)) is not None), None)
        able = body.get("capabilities")
        tools = "tools" in able if isinstance(able, list) else model.tools
        template = body.get("template")
        return ModelInfo(model.name, context or model.context, tools, _protocol(template), opens_thinking(template))

    asked = await asyncio.gather(*(ask(model) for model in models[:_DETAILS]))
    return (*asked, *models[_DETAILS:])


async def _llama_cpp(client: HttpClient, models: tuple[ModelInfo, ...]) -> tuple[ModelInfo, ...]:
    """GET /props: the context that the server was started with, and its template.

    If the caller asks about one model, the request names it, for servers with several models; the server does not load it.
    """
    path = f"props?model={quote(models[0].name, safe='')}&autoload=false" if len(models) == 1 else "props"
    body = await get_json(client, path)
    settings = body.get("default_generation_settings")
    context = count_of(settings.get("n_ctx")) if isinstance(settings, Mapping) else None
    template = body.get("chat_template")
    able = body.get("chat_template_caps")
    tools = able.get("supports_tool_calls") if isinstance(able, Mapping) else None
    if not isinstance(tools, bool):
        tools = "tools" in template if isinstance(template, str) and template else None
    elif not tools and isinstance(able, Mapping) and able.get("supports_tools") is True:
        tools = None  # its prompt has the tools, but the server may not parse the calls
    told = ModelInfo("", context, tools, _protocol(body.get("chat_template_tool_use"), template), opens_thinking(template))
    return tuple(
        replace(told, name=one.name, context=context or one.context, tools=tools if one.tools is None else one.tools)
        for one in models
    )


async def _lm_studio(client: HttpClient, models: tuple[ModelInfo, ...]) -> tuple[ModelInfo, ...]:
    """GET /api/v0/models: its own list, with more details.

    A model that was not trained on tools may still call them: this server parses calls from any model's text.
    """
    told: dict[str, ModelInfo] = {}
    for row in rows_of(await get_json(client, "api/v0/models"), "data", client):
        one, able = described(row, "id"), row.get("capabilities")
        loaded = count_of(row.get("loaded_context_length"))
        told[one.name] = ModelInfo(one.name, loaded or one.context, (isinstance(able, list) and "tool_use" in able) or None)
    return tuple(told.get(one.name, one) for one in models)


def _protocol(*templates: Any) -> str | None:
    """Return the protocol of the first known template."""
    from agent.protocols.templates import protocol_of_template

    texts = (text for text in templates if isinstance(text, str))
    return next((name for text in texts if (name := protocol_of_template(text)) is not None), None)


Details: TypeAlias = Callable[[HttpClient, tuple[ModelInfo, ...]], Awaitable[tuple[ModelInfo, ...]]]


@dataclass(frozen=True, slots=True)
class ServerProgram:
    """A program that serves models. ``port`` is its default; ``owner`` the value that it lists as the owner of a model.

    ``details`` gets more than its list has, from addresses beside /v1. ``tags``: its models' names have tags, "name:tag".
    """

    name: str
    port: int
    owner: str = ""
    details: Details | None = None
    tags: bool = False


PROGRAMS = (
    ServerProgram("Ollama", 11434, "library", _ollama, tags=True),
    ServerProgram("llama.cpp", 8080, "llamacpp", _llama_cpp),
    ServerProgram("LM Studio", 1234, "organization_owner", _lm_studio),
    ServerProgram("vLLM", 8000),
)


def details_of(rows: Sequence[Mapping[str, Any]]) -> Details | None:
    """Return the function that gets details of these models: by the listed owner, else by tags in all names, else None."""
    owners = {str(row["owned_by"]) for row in rows if row.get("owned_by")}
    is_tagged = bool(owners) and all(":" in str(row.get("id")) for row in rows)
    found = sorted((one for one in PROGRAMS if one.owner in owners), key=lambda one: one.owner)
    return next((one.details for one in (*found, *(one for one in PROGRAMS if one.tags and is_tagged))), None)
