"""Which model a session talks to: what the person named, the environment, the configuration; or nobody, and the person types."""

from __future__ import annotations

import os
from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.config import Config, read_secrets
from agent.prompt import system_prompt
from agent.providers.endpoint import Configured, Endpoint, resolve_endpoint
from agent.providers.manual import ManualSession
from toolcrib import ConfigError

if TYPE_CHECKING:
    from agent.session import Session
    from toolcrib import ProviderSession


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """What the person named; "" for nothing. ``provider`` "manual" means no model, whatever is configured."""

    model: str = ""
    base_url: str = ""
    api_key_env: str = ""
    provider: str = ""


def find_endpoint(config: Config, choice: ModelChoice, environ: Mapping[str, str] | None = None) -> Endpoint | None:
    """The model server, or None for the manual provider. Raises ConfigError with what to set.

    A server found on loopback is never used unasked: it has to be named.
    """
    provider = choice.provider or ("" if choice.base_url or choice.model else config.model.provider)
    if provider == "manual":
        return None
    configured = Configured(config.model.base_url, config.model.name, config.model.api_key_env)
    endpoint = resolve_endpoint(
        choice.base_url or None, choice.model or None, choice.api_key_env or None, _environ(config, environ), configured
    )
    if endpoint is None and provider == "chat":
        raise ConfigError("model.provider is chat, and no server is named; set model.base_url, or give --base-url URL")
    return endpoint


async def open_provider(
    session: Session, choice: ModelChoice, *, instructions: str = "", environ: Mapping[str, str] | None = None
) -> ProviderSession:
    """The session's conversation with its model, going on from what is recorded.

    Raises ConfigError, and a ProviderError kind where the server has to be asked for its models.
    """
    config = session.crib.config
    endpoint = find_endpoint(config, choice, environ)
    if endpoint is None:
        return ManualSession(session.names)
    from agent.providers.discover import choose_model
    from agent.providers.http import HttpClient, HttpLimits
    from agent.providers.openai_chat import OpenAIChatSession

    limits = HttpLimits(first_byte=config.model.first_byte_timeout, between=config.model.between_bytes_timeout)
    client = HttpClient(endpoint, _environ(config, environ), limits)
    try:
        model = endpoint.model or await choose_model(client)
    except BaseException:
        await client.aclose()
        raise
    session.set_model(model)
    session.wire = "chat"
    return OpenAIChatSession(
        client,
        model=model,
        system=system_prompt(session.scope.environment.cwd, instructions),
        tools=session.definitions,
        records=session.records(),
        stream=config.model.stream,
        max_tokens=config.model.max_output_tokens,
    )


def _environ(config: Config, environ: Mapping[str, str] | None) -> Mapping[str, str]:
    """The environment, and behind it the person's secrets file."""
    return ChainMap(dict(os.environ if environ is None else environ), dict(read_secrets(config.path.parent)))
