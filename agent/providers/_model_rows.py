"""Reads a server's list of models, on any wire."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agent.providers.endpoint import ModelInfo
from agent.providers.http import HttpClient
from toolcrib.contract.errors import ConfigError

MOST_PAGES = 5
_CONTEXT = ("context_length", "max_model_len", "context_window", "max_context_length", "max_input_tokens", "inputTokenLimit")


async def get_json(client: HttpClient, path: str) -> dict[str, Any]:
    async with client.get(path) as reply:
        return parsed(await reply.whole(), client)


def parsed(body: bytes, client: HttpClient) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise no_list(client) from None
    if isinstance(value, list):  # some servers send the bare rows
        return {"data": value}
    if not isinstance(value, dict):
        raise no_list(client)
    return value


def rows_of(body: Mapping[str, Any], field: str, client: HttpClient) -> list[Mapping[str, Any]]:
    listed = body.get(field)
    if not isinstance(listed, list) or not all(isinstance(row, Mapping) for row in listed):
        raise no_list(client)
    return listed


def no_list(client: HttpClient) -> ConfigError:
    return ConfigError(f"{client.endpoint.server} does not list its models; name one with --model")


def described(row: Mapping[str, Any], key: str) -> ModelInfo:
    """Return the model that a row describes, in any server's list. Servers have different names for the same fields."""
    meta = row.get("meta")
    sizes = [row.get(name) for name in _CONTEXT]
    sizes += [meta.get("n_ctx"), meta.get("n_ctx_train")] if isinstance(meta, Mapping) else []
    context = next((size for one in sizes if (size := count_of(one)) is not None), None)
    tools: bool | None = None
    fields, able = row.get("supported_parameters"), row.get("capabilities")
    if isinstance(fields, list):
        tools = "tools" in fields
    elif isinstance(able, Mapping) and isinstance(able.get("function_calling"), bool):
        tools = able["function_calling"]
    return ModelInfo(str(row.get(key) or "?"), context, tools)


def count_of(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
