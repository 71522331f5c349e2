"""Sources of turns: model servers, and a user who types calls. No HTTP library is loaded before it is used.

A wire is an HTTP API, which several providers may use. A provider on an existing wire needs only a row of ``rows.PROVIDERS``. A
wire is three modules and a row of ``rows.WIRES`` that names them: its session over ``_http_session`` (headers, forced calls,
answers that fit a schema, the list of models), ``_NAME_messages`` (the conversation to send, over ``_history``; some wires name
it contents or items) and ``_NAME_reader`` (from a reply to a turn, over ``_events``). ``text`` is for models without native
calls, ``manual`` for no model, ``plugin`` for a plugin's provider; ``abilities`` queries optional abilities of a session.
``endpoint`` and ``factory`` choose server, model and key. ``discover``, ``listing`` and ``local_servers`` (a row for each
program that serves models locally) ask servers for their models. Below every wire: ``http`` over ``clients``, ``_pace`` (limits
of a reply), ``sse``, ``_reply``, ``_faults`` (a server's errors as subclasses of ProviderError), ``_calls``, ``_names``,
``_images``.
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
