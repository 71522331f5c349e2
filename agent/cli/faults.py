"""Describe errors to users and scripts: the kind, the reason, and what to do."""

from __future__ import annotations

import math

from agent.cli.app import CAPPED, FAILED, USAGE
from agent.cli.escape import tame
from agent.conversation.limits import MaxTurnsReached, NoProgress, RunError, TokenCapReached
from toolcrib.contract.errors import (
    AuthFailed,
    BadRequest,
    ConnectionFailed,
    ContextTooLong,
    EnvironmentFailed,
    Overloaded,
    ProviderError,
    RateLimited,
    StoreFailed,
    StreamBroken,
    ToolcribError,
    ToolError,
)

_FIXES: tuple[tuple[type[ToolcribError], str], ...] = (
    (ConnectionFailed, "Is the server running, and is the address right?"),
    (RateLimited, "Wait a little, then say it again."),
    (Overloaded, "Say it again in a little while; the server's status page may say more."),
    (AuthFailed, "Put the right key into the variable that --api-key-env names."),
    (
        ContextTooLong,
        "Give it less, or take a model that reads more. `toolcrib sessions fork ID` begins a session with another one's end.",
    ),
    (BadRequest, "Does the server have this model, and does the model take tools? /model in the chat shows what it has."),
    (StreamBroken, "Say it again, or `go on`: the model knows what had come of its reply."),
    (NoProgress, "Say it in other words, or take another model."),
)
_SILENT = "The server took the request, so it runs and the address is right. Its log may say what it is busy with."
"""The advice if no part of a reply arrived in time."""

_PLAIN = ("ToolcribError", "ConfigError")
"""Kinds whose names don't help a user: their messages name what was typed or configured wrong. So do ToolErrors."""


def kind_of(error: ToolcribError) -> str:
    """Return the error's class name in the documented tree; for a plugin's own class, that of its nearest documented base."""
    return next(
        (kind.__name__ for kind in type(error).__mro__ if kind.__module__.startswith(("toolcrib", "agent.conversation.limits"))),
        "Error",
    )


def explained(error: ToolcribError) -> str:
    """Return the error and its advice in one or two lines."""
    kind = kind_of(error)
    text = tame(str(error)) if kind in _PLAIN or isinstance(error, ToolError) else f"{kind}: {tame(str(error))}"
    if isinstance(error, RateLimited) and not error.retryable:
        return text  # waiting does not help
    if isinstance(error, RateLimited | Overloaded) and error.retry_after is not None:
        return f"{text}\n  Wait {_span(error.retry_after)}, as it asks; then say it again."
    if isinstance(error, ConnectionFailed) and not error.retryable:
        return f"{text}\n  {_SILENT}"
    fix = next((fix for kind, fix in _FIXES if isinstance(error, kind)), "")
    return f"{text}\n  {fix}" if fix else text


def _span(seconds: float) -> str:
    seconds = min(seconds, 1e9)  # a server may send any number
    minutes = math.ceil(seconds / 60)
    return f"{math.ceil(seconds)} s" if seconds < 120 else f"{minutes} min" if minutes < 120 else f"{math.ceil(minutes / 60)} h"


def exit_code(error: ToolcribError) -> int:
    if isinstance(error, MaxTurnsReached | TokenCapReached):
        return CAPPED
    return FAILED if isinstance(error, ProviderError | RunError | StoreFailed | EnvironmentFailed) else USAGE
