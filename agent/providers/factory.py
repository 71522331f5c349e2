"""Finds the provider for a server or a model, with its address and key, and opens its sessions.

A built-in provider is a row of ``rows.PROVIDERS``; a plugin adds one with the hook register_provider. No provider is imported
before it is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from agent.providers.endpoint import Configured, Endpoint, read_key, resolve_endpoint, same_server
from agent.providers.rows import DEFAULT, MANUAL, PROVIDERS, load, share_servers
from agent.providers.vendor import OPENAI, Vendor
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import ConfigError
from toolcrib.contract.suggest import near

if TYPE_CHECKING:
    from agent.providers.http import HttpClient, HttpLimits
    from toolcrib.contract.session import ProviderSession

Plugins: TypeAlias = Mapping[str, Callable[..., Any]]
"""Factories that plugins added, by name.

Each is called with the keyword arguments model, base_url, api_key ("" for none), system, tools, records, stream and max_tokens.
Later versions may pass more, so each must accept ``**more``.
"""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request for a provider, a model and a server; "" for no preference."""

    provider: str = ""
    model: str = ""
    base_url: str = ""
    api_key_env: str = ""


@dataclass(frozen=True, slots=True)
class ModelTarget:
    """The name of a provider, and its endpoint: None for the manual provider. A plugin's endpoint may have ``base_url`` ""."""

    provider: str
    endpoint: Endpoint | None


@dataclass(frozen=True, slots=True)
class ProviderOpening:
    """The start of a session. ``records`` is a stored conversation to resume."""

    system: str = ""
    tools: Sequence[Mapping[str, Any]] = ()
    records: Iterable[Mapping[str, Any]] = ()
    stream: bool = True
    max_tokens: int | None = None
    protocol: str = ""
    """The text protocol, for a provider that uses one; "" chooses it by the model's name."""
    tool_choice: str = "auto"
    """"auto", "none", "required" or a tool's name; for wires that support it, until the session is steered otherwise."""
    response_schema: Mapping[str, Any] | None = None
    """A JSON Schema for the replies' text, for wires that support it."""
    opens_thinking: bool = False
    """True if the server's chat template opens a thinking block; for providers that read thinking from the text."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments that only this provider's session accepts (thinking, extra, ...)."""


# -- finding a provider ------------------------------------------------------------------------------------------------


def check_name(name: str, plugins: Plugins | None = None) -> None:
    """Raise ConfigError, which lists the existing providers, if a name is unknown."""
    known = [*PROVIDERS, MANUAL, *(plugins or ())]
    if name not in known:
        alike = near(name, known)
        hint = f"did you mean {alike[0]}?" if alike else "enable the plugin that adds it (plugins.enabled)"
        raise ConfigError(f"unknown provider {name!r}; known: {', '.join(known)}; {hint}")


def name_for_server(base_url: str, environ: Mapping[str, str]) -> str:
    """Return the provider that has the server's host, or whose vendor's variable names the server; else ``DEFAULT``."""
    host = (_host(base_url) or "").lower().rstrip(".")
    for name, provider in PROVIDERS.items():
        own = environ.get(f"{provider.vendor.prefix}_BASE_URL", "")
        if host in provider.hosts or (provider.hosts and own and same_server(base_url, own)):
            return name
    return DEFAULT


def name_for_model(model: str, environ: Mapping[str, str]) -> str:
    """Return the provider of a model by its name, if its vendor's key or base URL is set; else ""."""
    for name, provider in PROVIDERS.items():
        if model and model.startswith(provider.models) and _named(provider.vendor, environ):
            return name
    return ""


def find_target(wanted: ModelRequest, configured: ModelRequest, environ: Mapping[str, str]) -> ModelTarget:
    """Return the target: the request comes first, then the environment, then the configuration. Raises ConfigError with a fix.

    A server that is configured for one provider is not used for a provider of another vendor. Names of plugins'
    providers are not checked here.
    """
    name = _name(wanted, configured, environ)
    if name == MANUAL:
        return ModelTarget(MANUAL, None)
    provider = PROVIDERS.get(name)
    vendor = provider.vendor if provider is not None else Vendor.of_plugin(name)
    server = _server(configured, name, vendor, environ)
    if provider is None and not (wanted.base_url or server.base_url or _own_server(name, environ)):
        key_env = wanted.api_key_env or server.api_key_env or vendor.key_in(environ)
        return ModelTarget(name, Endpoint("", wanted.model or server.model, key_env))
    endpoint = resolve_endpoint(
        wanted.base_url or None, wanted.model or None, wanted.api_key_env or None, environ, server, vendor
    )
    if endpoint is not None:
        return ModelTarget(name, endpoint)
    if wanted.provider or configured.provider:
        raise ConfigError(
            f"the provider is {name}, but neither a server nor a model is configured; set model.name or model.base_url, or use "
            "--model NAME or --base-url URL"
        )
    return ModelTarget(MANUAL, None)


def _name(wanted: ModelRequest, configured: ModelRequest, environ: Mapping[str, str]) -> str:
    standing = configured.provider
    if wanted.provider:
        return wanted.provider
    if wanted.base_url:
        found = name_for_server(wanted.base_url, environ)
        if standing in ("", MANUAL):
            return found
        known = bool(configured.base_url) and same_server(wanted.base_url, configured.base_url)
        return standing if known or not _is_of_another(wanted.base_url, standing, found) else found
    if standing == MANUAL and not wanted.model:
        return MANUAL
    if standing not in ("", MANUAL):
        placed = configured.base_url or _own_server(standing, environ)
        return standing if placed else _kept_in_text(standing, name_for_model(wanted.model, environ) or standing)
    if _own_server(DEFAULT, environ):
        return DEFAULT
    if configured.base_url:
        return name_for_server(configured.base_url, environ)
    model = wanted.model or configured.model
    found = name_for_model(model, environ)
    if not found and not _named(OPENAI, environ):  # with no server at all, the error must name this vendor's key
        found = next((name for name, one in PROVIDERS.items() if model and model.startswith(one.models)), "")
    return found or DEFAULT


def _is_of_another(base_url: str, standing: str, found: str) -> bool:
    """Return whether a server, whose provider is ``found``, has another vendor than ``standing``, the configured provider."""
    ours = PROVIDERS[standing].vendor if standing in PROVIDERS else None
    if found != DEFAULT:
        return PROVIDERS[found].vendor is not ours
    return ours is not PROVIDERS[DEFAULT].vendor and same_server(base_url, PROVIDERS[DEFAULT].vendor.base_url)


def _kept_in_text(standing: str, found: str) -> str:
    """Return ``found``, or the configured provider ``standing`` if that makes calls in text and ``found`` is the default.

    A user who configured calls in text wants them for every server and model of the default provider.
    """
    return standing if standing in PROVIDERS and PROVIDERS[standing].wire.in_text and found == DEFAULT else found


def _server(configured: ModelRequest, name: str, vendor: Vendor, environ: Mapping[str, str]) -> Configured:
    """Return the part of the configuration that applies to this provider."""
    explicit = "" if configured.provider == MANUAL else configured.provider
    if configured.base_url:
        standing = explicit or name_for_server(configured.base_url, environ)
    else:
        standing = explicit or name_for_model(configured.model, environ) or DEFAULT
    if standing != name and not share_servers(standing, name):
        return Configured()
    base_url = configured.base_url
    if not base_url and configured.api_key_env and explicit == name:
        base_url = vendor.base_url  # the vendor's own server, with the configured key
    return Configured(base_url, configured.model, configured.api_key_env)


def _own_server(name: str, environ: Mapping[str, str]) -> str:
    vendor = PROVIDERS[name].vendor if name in PROVIDERS else Vendor.of_plugin(name)
    return environ.get(f"{vendor.prefix}_BASE_URL", "").strip()


def _named(vendor: Vendor, environ: Mapping[str, str]) -> bool:
    return vendor.key_in(environ) is not None or bool(environ.get(f"{vendor.prefix}_BASE_URL", "").strip())


def _host(url: str) -> str | None:
    try:
        return urlsplit(url.strip()).hostname
    except ValueError:
        return None


# -- opening a session -------------------------------------------------------------------------------------------------


def open_session(
    target: ModelTarget,
    conversation: ProviderOpening,
    environ: Mapping[str, str],
    *,
    client: HttpClient | None = None,
    limits: HttpLimits | None = None,
    plugins: Plugins | None = None,
) -> ProviderSession:
    """Return the provider's session for the endpoint's model. The session closes ``client``, a client of that endpoint.

    Raises ConfigError for an unknown name, a key that is not set, and settings that a plugin's factory refuses.
    """
    check_name(target.provider, plugins)
    if target.endpoint is None:
        from agent.providers.manual import ManualSession

        return ManualSession([_tool_name(tool) for tool in conversation.tools])
    fields: dict[str, Any] = {
        "model": target.endpoint.model,
        "system": conversation.system,
        "tools": conversation.tools,
        "records": conversation.records,
        "stream": conversation.stream,
        "max_tokens": conversation.max_tokens,
        **conversation.options,
    }
    provider = PROVIDERS.get(target.provider)
    if provider is None:
        return _from_plugin(target.provider, target.endpoint, fields, environ, plugins or {})
    if client is None:
        from agent.providers.http import HttpClient

        client = HttpClient(target.endpoint, environ, limits)
    if provider.wire.in_text:
        from agent.protocols import find_protocol, protocol_for_model
        from agent.providers._thinking import expected_thinking

        fields.setdefault("thinking", expected_thinking(target.endpoint.model, opens=conversation.opens_thinking))
        named = conversation.protocol
        fields["protocol"] = find_protocol(named) if named else protocol_for_model(target.endpoint.model)
    session = load(provider.wire.session)(client, **fields)
    session.steer(conversation.tool_choice, conversation.response_schema)
    opened: ProviderSession = session
    return opened


def _from_plugin(
    name: str, endpoint: Endpoint, fields: Mapping[str, Any], environ: Mapping[str, str], plugins: Plugins
) -> ProviderSession:
    from agent.providers._history import whole
    from agent.providers.plugin import PluginSession

    fields = {**fields, "records": tuple(whole(record) for record in fields["records"])}
    key = read_key(endpoint, environ) or ""
    try:
        session: ProviderSession = plugins[name](base_url=endpoint.base_url, api_key=key, **fields)
    except ConfigError:
        raise
    except Exception as error:
        shown = str(error).replace(key, "[key]") if key else str(error)
        raise ConfigError(f"the plugin's provider {name!r} failed to open: {type(error).__name__}: {shown}") from error
    missing = [method for method in ("say", "stream_turn", "append_tool_results", "close") if not hasattr(session, method)]
    if missing:
        raise ConfigError(
            f"the plugin's provider {name!r} returned an object that is not a ProviderSession: it has no {', '.join(missing)}"
        )
    return PluginSession(name, session, key)


def _tool_name(tool: Mapping[str, Any]) -> str:
    inner = tool.get("function")
    return str((inner if isinstance(inner, Mapping) else tool)["name"])
