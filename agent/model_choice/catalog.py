"""Catalogue of models: on the configured servers, on servers of vendors whose key is set, and on this machine."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, field
from pathlib import Path
from typing import Any

from agent.config import Config, state_dir, write_private
from agent.providers.endpoint import Endpoint, ModelInfo, same_server
from agent.providers.factory import ModelRequest, ModelTarget, Plugins, check_name, find_target
from agent.providers.rows import DEFAULT, MANUAL, PROVIDERS, vendors
from toolcrib.contract.dataclass import dataclass, replace
from toolcrib.contract.errors import ConfigError, ProviderError

FOUND = "found, not configured"
FRESH = 3600.0
"""Seconds that a list stays valid."""

SECONDS = 8.0
"""Seconds that one server may take to list its models."""

LOOK = 0.3
"""Seconds that an unconfigured port of this machine may take to answer."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ModelServer:
    """A server that may have models; or a plugin's provider, which may need no server.

    ``source`` is its origin: a key of the configuration, a variable, or FOUND. ``fault`` is the reason why it is unusable; then
    there is no ``target``. ``models`` are the models that are known without a request.
    """

    source: str
    target: ModelTarget | None
    fault: str = ""
    models: tuple[str, ...] = ()

    @property
    def endpoint(self) -> Endpoint | None:
        return None if self.target is None else self.target.endpoint


@dataclass(frozen=True, slots=True)
class Offer:
    """Models of a server; ``fault`` is the reason why they are unknown.

    ``age`` is the age of a cached answer in seconds, 0 for a fresh answer.
    """

    server: ModelServer
    models: tuple[ModelInfo, ...] = ()
    fault: str = ""
    age: float = 0.0


@dataclass(slots=True)
class Cache:
    """Models listed in the last hour, in a file of the state folder that only its owner may read. A damaged file is ignored."""

    path: Path = field(default_factory=lambda: state_dir() / "models.json")

    def get(self, target: ModelTarget) -> tuple[tuple[ModelInfo, ...], float] | None:
        """Return the cached models and their age in seconds, or None."""
        return self._read(self._entries().get(_key(target)))

    def _read(self, entry: Any) -> tuple[tuple[ModelInfo, ...], float] | None:
        try:
            age = time.time() - entry["at"]
            if not 0 <= age < FRESH:
                return None
            return tuple(
                ModelInfo(str(one["name"]), one["context"], one["tools"], one.get("protocol"), bool(one.get("opens_thinking")))
                for one in entry["models"]
            ), age
        except (TypeError, KeyError, AttributeError):
            return None

    def model(self, target: ModelTarget) -> ModelInfo | None:
        """Return the cached model of the target: from ``keep``, or from a list that reports whether it has native calls."""
        name = target.endpoint.model if target.endpoint is not None else ""
        alone = self._read(self._entries().get(_key(target, name)))
        if alone is not None:
            return next(iter(alone[0]), None)
        listed = self.get(target)
        return next((one for one in listed[0] if one.name == name and one.tools is not None), None) if listed else None

    def keep(self, target: ModelTarget, model: ModelInfo) -> None:
        """Cache the target's model alone; a later list by ``put`` replaces it."""
        name = target.endpoint.model if target.endpoint is not None else ""
        self._write({_key(target, name): [model]})

    def put(self, lists: Sequence[tuple[ModelTarget, Sequence[ModelInfo]]]) -> None:
        self._write({_key(target): models for target, models in lists})

    def _write(self, lists: Mapping[str, Sequence[ModelInfo]]) -> None:
        now = time.time()
        entries = {
            name: entry
            for name, entry in self._entries().items()
            if _is_fresh(entry, now) and not any(name.startswith(f"{key}{_ALONE}") for key in lists)
        }
        for key, models in lists.items():
            entries[key] = {"at": now, "models": [asdict(one) for one in models]}
        try:
            write_private(self.path, json.dumps(entries))
        except ConfigError as error:
            _log.warning("cannot cache the models of the servers: %s", error)

    def names(self) -> list[str]:
        """Return the models of all recently asked servers, each once."""
        found = (self._read(entry) for entry in self._entries().values())
        return list(dict.fromkeys(model.name for one in found if one is not None for model in one[0]))

    def _entries(self) -> dict[str, Any]:
        try:
            entries = json.loads(self.path.read_text("utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return entries if isinstance(entries, dict) else {}


_ALONE = " model "


def _key(target: ModelTarget, model: str | None = None) -> str:
    """Return the cache's key of a list, or of one model alone."""
    endpoint = target.endpoint or Endpoint("")
    wire = PROVIDERS[target.provider].vendor.prefix if target.provider in PROVIDERS else target.provider
    listed = " ".join((wire, endpoint.base_url, endpoint.key_env or ""))
    return listed if model is None else f"{listed}{_ALONE}{model}"


def _is_fresh(entry: Any, now: float) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("at"), float) and 0 <= now - entry["at"] < FRESH


# -- finding servers ----------------------------------------------------------------------------------------------------


def configured_servers(config: Config, environ: Mapping[str, str], plugins: Plugins | None = None) -> list[ModelServer]:
    """Return the servers of the model, of its fallbacks, and of vendors whose variables are set, each once; sends no request."""
    kept: list[ModelServer] = []
    for server in _servers(config, environ, plugins):
        if server.target is None or all(server.target.endpoint is None or _key(server.target) != _key_of(one) for one in kept):
            kept.append(server)
    return kept


def _key_of(server: ModelServer) -> str:
    return "" if server.target is None else _key(server.target)


def _servers(config: Config, environ: Mapping[str, str], plugins: Plugins | None) -> Iterator[ModelServer]:
    model = config.model
    named = ModelRequest(model.provider, model.name, model.base_url, model.api_key_env)
    yield from _server("model", ModelRequest(), named, environ, plugins)
    for number, entry in enumerate(model.fallback, 1):
        wanted = ModelRequest(entry.provider, entry.name, entry.base_url, entry.api_key_env)
        yield from _server(f"model.fallback, entry {number}", wanted, ModelRequest(), environ, plugins)
    for name, vendor in vendors().items():
        key, own = vendor.key_in(environ), f"{vendor.prefix}_BASE_URL"
        if key is not None or environ.get(own, "").strip():
            wanted = ModelRequest(provider=name, api_key_env=key or "")
            yield from _server(key or own, wanted, ModelRequest(), environ, plugins)


def _server(
    source: str, wanted: ModelRequest, configured: ModelRequest, environ: Mapping[str, str], plugins: Plugins | None
) -> Iterator[ModelServer]:
    try:
        target = find_target(wanted, configured, environ)
        check_name(target.provider, plugins)
    except ConfigError as error:
        yield ModelServer(source, None, str(error))
        return
    if target.provider != MANUAL:
        yield ModelServer(source, target)


async def local_servers(
    known: Sequence[ModelServer], ports: Mapping[int, str] | None = None, *, seconds: float = LOOK
) -> list[ModelServer]:
    """Return unconfigured model servers on loopback that answer within ``seconds``. No API key is sent to them."""
    from agent.providers.discover import PORTS, find_local_servers

    endpoints = [server.endpoint for server in known if server.endpoint is not None]
    ports = {
        port: kind
        for port, kind in (PORTS if ports is None else ports).items()
        if not any(one.is_loopback and same_server(_on_ip(one.base_url), f"http://127.0.0.1:{port}") for one in endpoints)
    }
    found = await find_local_servers(seconds, ports)
    return [
        ModelServer(f"{server.kind}: {FOUND}", ModelTarget(DEFAULT, Endpoint(server.base_url)), models=server.models)
        for server in found
    ]


def _on_ip(base_url: str) -> str:
    return base_url.replace("//localhost", "//127.0.0.1", 1)


# -- listing models -----------------------------------------------------------------------------------------------------


async def ask_servers(
    servers: Sequence[ModelServer],
    environ: Mapping[str, str],
    *,
    refresh: bool = False,
    seconds: float = SECONDS,
    remembers: bool = True,
) -> list[Offer]:
    """Return what each server offers; all are asked at once, and none takes longer than ``seconds``.

    ``refresh`` ignores cached answers. The cache file is written only with ``remembers``.
    """
    cache = Cache()
    offers = await asyncio.gather(*(_offer(server, environ, None if refresh else cache, seconds) for server in servers))
    fresh = [(one.server.target, one.models) for one in offers if one.server.target is not None and not one.fault and not one.age]
    if fresh and remembers:
        cache.put(fresh)
    return offers


async def _offer(server: ModelServer, environ: Mapping[str, str], cache: Cache | None, seconds: float) -> Offer:
    if server.target is None or server.endpoint is None:
        return Offer(server, fault=server.fault)
    if server.target.provider not in PROVIDERS:
        return Offer(server, fault="a plugin's provider does not list its models")
    remembered = None if cache is None else cache.get(server.target)
    if remembered is not None:
        return Offer(server, remembered[0], age=max(remembered[1], 1e-9))
    from agent.providers.http import HttpClient, HttpLimits
    from agent.providers.listing import describe_models

    try:
        client = HttpClient(server.endpoint, environ, HttpLimits(connect=min(3.0, seconds), first_byte=seconds, between=seconds))
    except ConfigError as error:
        return Offer(server, fault=str(error))
    try:
        async with asyncio.timeout(seconds):
            return Offer(server, await describe_models(client, server.target.provider, environ, seconds / 2))
    except TimeoutError:
        return Offer(server, fault=f"{server.endpoint.server} did not list its models in {seconds:g} s; try again")
    except (ProviderError, ConfigError) as error:
        return Offer(server, fault=str(error))
    finally:
        await client.aclose()


# -- asking a model -----------------------------------------------------------------------------------------------------


async def probe_tools(target: ModelTarget, model: str, environ: Mapping[str, str]) -> bool | None:
    """Return whether the model calls a tool when one request of a few tokens asks for it. None if that is unknown.

    Raises a subclass of ProviderError if the server is unreachable or refuses the key, and ConfigError.
    """
    from agent.providers.factory import ProviderOpening, open_session
    from agent.providers.http import HttpLimits
    from toolcrib.contract.errors import BadRequest

    if target.endpoint is None or target.provider not in PROVIDERS or PROVIDERS[target.provider].wire.in_text:
        return None
    tool = {"name": "ready", "description": "Report that you are ready.", "parameters": {"type": "object", "properties": {}}}
    asked = ProviderOpening(tools=[{"type": "function", "function": tool}], stream=False, max_tokens=256)
    named = replace(target, endpoint=replace(target.endpoint, model=model))
    session = open_session(named, asked, environ, limits=HttpLimits(connect=3.0, first_byte=60.0))
    try:
        session.say("Call the tool `ready` now.")
        turn = await session.stream_turn(lambda event: None)
    except BadRequest as error:
        if "tool" in f"{error} {error.body}".lower():
            return False
        raise
    finally:
        await session.close()
    if turn.tool_calls:
        return True
    return None if turn.finish == "length" else False
