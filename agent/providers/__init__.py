"""Where turns come from: model servers, and the person who types calls. Nothing here loads an HTTP library before it is used."""

from __future__ import annotations

from agent.providers.discover import LocalServer, choose_model, find_local_servers, list_models
from agent.providers.endpoint import Configured, Endpoint, resolve_endpoint
from agent.providers.http import HttpClient, HttpLimits
from agent.providers.openai_chat import OpenAIChatSession

__all__ = [
    "Configured",
    "Endpoint",
    "HttpClient",
    "HttpLimits",
    "LocalServer",
    "OpenAIChatSession",
    "choose_model",
    "find_local_servers",
    "list_models",
    "resolve_endpoint",
]
