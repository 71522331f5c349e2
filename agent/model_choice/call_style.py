"""The choice of a call style: native calls, or calls in text with a protocol. The server is asked at most once an hour.

By default a Chat Completions server is assumed to support native calls, whatever the model. Calls are in text if the provider is
``text``, or if the server reports that this model has no native calls (Ollama's capabilities, llama.cpp's template and caps).
Then the protocol is the configured one, else that of the model's chat template, else that of its name, else ``auto``. A server
that does not answer in time, or does not describe the model, changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from agent.providers.endpoint import ModelInfo
from agent.providers.factory import ModelTarget
from agent.providers.rows import DEFAULT, IN_TEXT, PROVIDERS
from toolcrib.contract.dataclass import dataclass, replace
from toolcrib.contract.errors import BadRequest, ConfigError, ProviderError

if TYPE_CHECKING:
    from agent.providers.endpoint import Endpoint

SECONDS = 2.0
"""Seconds that a server may take for each of two requests."""

_HOSTED = (
    "openai.com", "openai.azure.com", "ai.azure.com", "anthropic.com", "googleapis.com", "openrouter.ai", "groq.com",
    "mistral.ai", "deepseek.com", "together.xyz", "together.ai", "fireworks.ai", "x.ai", "cerebras.ai", "moonshot.ai",
    "moonshot.cn", "aliyuncs.com", "nvidia.com", "perplexity.ai", "sambanova.ai", "huggingface.co", "cohere.com", "cohere.ai",
    "z.ai", "bigmodel.cn", "minimax.io", "minimaxi.com", "github.ai", "githubcopilot.com", "novita.ai", "deepinfra.com",
    "hyperbolic.xyz", "ollama.com", "siliconflow.cn", "siliconflow.com", "nebius.com", "nebius.ai", "baseten.co",
)  # fmt: skip
"""Vendors with native calls whose servers provide no chat template; toolcrib does not ask these servers."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Calling:
    """A provider to open, and its protocol ("" for native calls). ``why`` is the reason, for users.

    ``opens_thinking``: the server's chat template opens a thinking block.
    """

    target: ModelTarget
    protocol: str
    why: str
    opens_thinking: bool = False


async def choose_calling(target: ModelTarget, configured: str, environ: Mapping[str, str], *, remembers: bool = True) -> Calling:
    """Return the call style for an endpoint with a named model. ``configured`` is model.protocol.

    Raises no error, whatever the server answers. Without ``remembers`` the server is asked again, and no file is written.
    """
    provider = target.provider
    if target.endpoint is None or provider not in (DEFAULT, IN_TEXT):
        return Calling(target, "", "this provider has native calls")
    told = None if provider == IN_TEXT and configured else await _ask(target, target.endpoint, environ, remembers=remembers)
    if provider == DEFAULT and (told is None or told.tools is not False):
        why = "the server reports native calls" if told is not None and told.tools else "the default"
        return Calling(target, "", why)
    asked = "model.provider is text" if provider == IN_TEXT else "the server reports that the model has no native calls"
    protocol, how = text_protocol(target.endpoint.model, configured, told.protocol if told is not None else None)
    opens = told is not None and told.opens_thinking
    chosen = Calling(replace(target, provider=IN_TEXT), protocol, f"{asked}; {how}", opens)
    _log.info("%s calls tools in text, as %s: %s", target.endpoint.model, protocol, chosen.why)
    return chosen


def text_protocol(model: str, configured: str = "", template: str | None = None) -> tuple[str, str]:
    """Return the protocol's name, and why it was chosen."""
    from agent.protocols import protocol_for_model

    if configured:
        return configured, "model.protocol names the protocol"
    if template:
        return template, "its chat template names the protocol"
    name = protocol_for_model(model).name
    return name, "neither its template nor its name shows a protocol" if name == "auto" else "its name shows the protocol"


def is_hosted(endpoint: Endpoint) -> bool:
    """Return whether the endpoint is a vendor's server."""
    host = (urlsplit(endpoint.base_url).hostname or "").lower().rstrip(".")
    own = {name for provider in PROVIDERS.values() for name in provider.hosts}
    return host in own or any(host == vendor or host.endswith(f".{vendor}") for vendor in _HOSTED)


async def _ask(target: ModelTarget, endpoint: Endpoint, environ: Mapping[str, str], *, remembers: bool) -> ModelInfo | None:
    """Return the server's description of the model; None for a vendor's server, or if the server does not answer."""
    from agent.model_choice.catalog import Cache

    if is_hosted(endpoint):
        return None
    cache = Cache() if remembers else None
    if cache is not None and (known := cache.model(target)) is not None:
        return known
    from agent.providers.http import HttpClient, HttpLimits
    from agent.providers.listing import describe_model

    client = HttpClient(endpoint, environ, HttpLimits(SECONDS, SECONDS, SECONDS))
    try:
        found = await describe_model(client, environ, SECONDS)
    except (ConfigError, BadRequest):
        found = ModelInfo(endpoint.model)  # the server answers, but does not describe the model
    except (ProviderError, TimeoutError) as error:
        _log.info("%s does not report how %s calls tools: %s", endpoint.server, endpoint.model, error)
        return None
    finally:
        await client.aclose()
    if cache is not None:
        cache.keep(target, found)
    return found
