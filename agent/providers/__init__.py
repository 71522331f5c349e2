"""Sources of turns: model servers, and the person who types calls. Nothing here loads an HTTP library before it is used.

A provider that speaks a wire that there is takes a row of ``rows.PROVIDERS``, and nothing else. A wire is three modules, and a
row of ``rows.WIRES`` that names them: its session over ``_http_session`` (which says what a wire gives: headers, forced calls,
answers by a schema, the list of models), ``_NAME_messages`` (the conversation as it goes back, over ``_history``; some wires
call that contents or items) and ``_NAME_reader`` (from a reply to a turn, over ``_events``). ``text`` is for models without
native calls, ``manual`` for no model, ``plugin`` for a plugin's provider; ``abilities`` asks what a session can do besides.

Which server, model and key: ``endpoint``, ``factory``. Asking servers what they have: ``discover``, ``listing``, and
``local_servers``, a row for each program that serves models on people's own machines. Below every wire: ``http`` over
``clients``, ``_pace`` (what bounds a reply), ``sse``, ``_reply``, ``_faults`` (a server's errors as ours), ``_calls``,
``_names``, ``_images``.
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
