"""Describe errors to users and scripts: the kind, the reason, and what to do."""

from __future__ import annotations

import math

from agent.cli.app import CAPPED, FAILED, NO_RUN, USAGE
from agent.cli.escape import tame
from agent.conversation.limits import MaxTurnsReached, NoProgress, RunError, TokenCapReached
from toolcrib.contract.errors import (
    AuthFailed,
    BadRequest,
    ConnectionFailed,
    ContextTooLong,
    EnvironmentFailed,
    Internal,
    Overloaded,
    ProviderError,
    RateLimited,
    StoreFailed,
    StreamBroken,
    ToolcribError,
    ToolError,
)
from toolcrib.contract.passing import SHORTAGE, is_passing

_FIXES: tuple[tuple[type[ToolcribError], str], ...] = (
    (ConnectionFailed, "Is the server running, and is the address right?"),
    (RateLimited, "Wait a little, then send the message again."),
    (Overloaded, "Send the message again later; the server's status page may say more."),
    (AuthFailed, "Put the right key into the variable that --api-key-env names."),
    (
        ContextTooLong,
        "Shorten it, or use a model with a larger context. `toolcrib sessions fork ID` starts a session with the end of another.",
    ),
    (BadRequest, "Does the server have this model, and does the model support tools? List its models: /model in the chat."),
    (StreamBroken, "Send the message again, or type `continue`: the model has the part of its reply that arrived."),
    (NoProgress, "Use other words, or another model."),
)
_SILENT = "The server accepted the request, so it is running and the address is right. Check its log."
"""The advice if no part of a reply arrived in time."""

_PLAIN = ("ToolcribError", "ConfigError")
"""Kinds whose names don't help a user, because their messages already name the wrong input or setting. The same applies to
ToolErrors.
"""


class NoRunToContinue(ToolcribError):
    """The session's last run has ended, so there is nothing to continue."""


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
    if isinstance(error, RateLimited) and not error.retryable:  # a short wait does not help
        return f"{text}\n  The server renews it in {_span(error.retry_after)}." if error.retry_after else text
    if isinstance(error, RateLimited | Overloaded) and error.retry_after:
        return f"{text}\n  Wait {_span(error.retry_after)}, as the server asks, then send the message again."
    if isinstance(error, ConnectionFailed) and not error.retryable:
        return f"{text}\n  {_SILENT}"
    fix = next((fix for kind, fix in _FIXES if isinstance(error, kind)), "")
    return f"{text}\n  {fix}" if fix else text


def unexpected(error: Exception) -> ToolcribError:
    """Return the error that a run's last events report for an exception that no command expected."""
    if is_passing(error):
        return EnvironmentFailed(f"{error}; {SHORTAGE}")
    return Internal(f"{type(error).__name__}: {error}")


def _span(seconds: float) -> str:
    seconds = min(seconds, 1e9)  # a server may send any number
    minutes = math.ceil(seconds / 60)
    return f"{math.ceil(seconds)} s" if seconds < 120 else f"{minutes} min" if minutes < 120 else f"{math.ceil(minutes / 60)} h"


def exit_code(error: ToolcribError) -> int:
    if isinstance(error, MaxTurnsReached | TokenCapReached):
        return CAPPED
    if isinstance(error, NoRunToContinue):
        return NO_RUN
    return FAILED if isinstance(error, ProviderError | RunError | StoreFailed | EnvironmentFailed) else USAGE
