"""Sources of turns: model servers, and the person who types calls. Nothing here loads an HTTP library before it is used.

A wire is three modules: its session over ``_http_session``, ``_NAME_messages`` (the conversation as it goes back, over
``_history``; some wires call that contents or items) and ``_NAME_reader`` (from a reply to a turn, over ``_events``). A new
one is a row of ``factory.PROVIDERS`` too, has its fields for forced calls and for answers by a schema in ``_steer``, and a
row in agent/cli/commands/parse.py, so that `toolcrib parse --wire` finds its reader. ``text`` is for models without native
calls, ``manual`` for no model, ``plugin`` for a plugin's provider; ``abilities`` asks what a session can do besides.

Which server, model and key: ``endpoint``, ``factory``. Asking servers what they have: ``discover``, ``listing``. Below every
wire: ``http`` over ``clients``, ``_pace`` (what bounds a reply), ``sse``, ``_reply``, ``_faults`` (a server's errors as ours),
``_calls``, ``_names``, ``_images``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib.contract.late import late

if TYPE_CHECKING:
    from agent.providers.discover import LocalServer, choose_model, find_local_servers, list_models
    from agent.providers.endpoint import Configured, Endpoint, resolve_endpoint
    from agent.providers.http import HttpClient, HttpLimits
else:
    __getattr__ = late(
        __name__,
        {
            **dict.fromkeys(("LocalServer", "choose_model", "find_local_servers", "list_models"), "agent.providers.discover"),
            **dict.fromkeys(("Configured", "Endpoint", "resolve_endpoint"), "agent.providers.endpoint"),
            **dict.fromkeys(("HttpClient", "HttpLimits"), "agent.providers.http"),
        },
    )

__all__ = [
    "Configured",
    "Endpoint",
    "HttpClient",
    "HttpLimits",
    "LocalServer",
    "choose_model",
    "find_local_servers",
    "list_models",
    "resolve_endpoint",
]
