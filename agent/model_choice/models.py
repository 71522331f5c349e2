"""Choose a session's model from the user's options, the environment or the configuration.

Without a model, the user types the calls.
"""

from __future__ import annotations

import os
from collections import ChainMap
from collections.abc import Mapping
from typing import TYPE_CHECKING

from agent.config import Config, read_secrets
from agent.providers.endpoint import Endpoint
from agent.providers.factory import ModelRequest, ModelTarget, check_name, find_target
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import ConfigError

if TYPE_CHECKING:
    from agent.providers.factory import Plugins


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The user's choice of a model; "" for no choice. ``provider`` "manual" means no model, whatever is configured."""

    model: str = ""
    base_url: str = ""
    api_key_env: str = ""
    provider: str = ""


def find_endpoint(config: Config, choice: ModelChoice, environ: Mapping[str, str] | None = None) -> Endpoint | None:
    """Return the model server, or None for the manual provider. Raises ConfigError with the setting to change.

    A server found on loopback is never used unless it is named. A plugin's provider may need no server; then ``base_url`` is "".
    """
    return choose_provider(config, choice, environ).endpoint


def choose_provider(config: Config, choice: ModelChoice, environ: Mapping[str, str] | None = None) -> ModelTarget:
    """Return the provider and its endpoint. Raises ConfigError with the setting to change."""
    model = config.model
    wanted = ModelRequest(choice.provider, choice.model, choice.base_url, choice.api_key_env)
    configured = ModelRequest(model.provider, model.name, model.base_url, model.api_key_env)
    return find_target(wanted, configured, environment(config, environ))


def via_of(target: ModelTarget, model: str = "") -> dict[str, str]:
    """Return a session's record of its model; empty for the manual provider."""
    endpoint = target.endpoint
    if endpoint is None:
        return {}
    via = {"provider": target.provider, "model": model or endpoint.model, "base_url": endpoint.base_url}
    return {**via, "key_env": endpoint.key_env} if endpoint.key_env else via


def asked_by(config: Config, choice: ModelChoice, plugins: Plugins) -> dict[str, str]:
    """Return the record for a new session's model; empty if the model is unusable. Opening it then reports why."""
    try:
        target = choose_provider(config, choice)
        check_name(target.provider, plugins)
    except ConfigError:
        return {}
    return via_of(target)


def environment(config: Config, environ: Mapping[str, str] | None = None) -> Mapping[str, str]:
    """Return the environment, with the user's secrets file as the fallback.

    If ``environ`` is a result of this function, it is returned unchanged.
    """
    if isinstance(environ, ChainMap):
        return environ
    return ChainMap(dict(os.environ if environ is None else environ), dict(read_secrets(config.path.parent)))
