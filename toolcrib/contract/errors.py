"""Every error that toolcrib raises on purpose.

ToolcribError
├── ToolError                ends a tool call; its result gives the reason, the run continues
│   ├── InvalidArguments     the arguments do not fit the tool's schema: correct and call again
│   ├── ExecutionFailed      the tool ran and failed
│   ├── Denied               a gate or a person denied the call, or it lacks an approval
│   ├── NotFound             no such tool, file or thing
│   ├── Internal             a fault of toolcrib or of a plugin, not of the call
│   ├── StateConflict        another call wrote the same state first; this call's value is not kept
│   ├── Timeout              a time limit ran out
│   └── Cancelled            interrupted before it finished
├── RegistrationError        a tool that can't be registered: names module, tool and JSON path
├── ToolsetError             an unknown toolset, or one that contains itself
├── ConfigError              a configuration that can't be used: names file, line and key
├── PluginError              a plugin that can't be loaded
├── ProviderError            a model server returned no turn; ``retryable``: a retry may help
│   ├── ConnectionFailed     the server could not be reached, or the connection broke before a reply
│   ├── RateLimited          429: too many requests; ``retry_after`` in seconds if the server sent it
│   ├── Overloaded           5xx: server error
│   ├── AuthFailed           401, 403: the key is missing, wrong or not allowed
│   ├── ContextTooLong       the conversation is longer than the model's context
│   ├── BadRequest           any other 4xx: the server refuses the request
│   └── StreamBroken         a reply began and was interrupted; ``text`` is the part that arrived
├── EnvironmentFailed        the environment is lost or unavailable (not: the command failed)
├── StoreFailed              the store can't be read or written: names the file and what to do
│   └── LeaseLost            another process has taken over the session: this process can't write to it
└── InvalidTransition        a tool call may not move to the requested status
"""

from __future__ import annotations

from typing import ClassVar


class ToolcribError(Exception):
    """Base class of all errors of toolcrib."""


class ToolError(ToolcribError):
    """Ends one tool call. ``text`` is the bare reason; ``str()`` puts the kind before it."""

    prefix: ClassVar[str] = "Tool error"
    code: ClassVar[str] = "tool_error"

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"{self.prefix}: {self.text}"


class InvalidArguments(ToolError):
    """The arguments do not fit the tool's schema."""

    prefix = "Invalid arguments"
    code = "invalid_arguments"


class ExecutionFailed(ToolError):
    """The tool ran and failed."""

    prefix = "Execution failed"
    code = "execution_failed"


class Denied(ToolError):
    """The call is not allowed."""

    prefix = "Denied"
    code = "denied"


class NotFound(ToolError):
    """Something that the arguments name does not exist."""

    prefix = "Not found"
    code = "not_found"


class Internal(ToolError):
    """The tool, or toolcrib, has a fault."""

    prefix = "Internal error"
    code = "internal"


class StateConflict(ToolError):
    """Another call wrote the same state first."""

    prefix = "State conflict"
    code = "state_conflict"


class Timeout(ToolError):
    """The tool did not end in time."""

    prefix = "Timed out"
    code = "timeout"


class Cancelled(ToolError):
    """The call was cancelled."""

    prefix = "Cancelled"
    code = "cancelled"


class RegistrationError(ToolcribError):
    """A tool can't be registered."""


class ToolsetError(ToolcribError):
    """A toolset is unknown, or contains itself."""


class ConfigError(ToolcribError):
    """A configuration can't be used, because a value is wrong, missing or not confirmed."""


class PluginError(ToolcribError):
    """A plugin can't be loaded."""


class ProviderError(ToolcribError):
    """A model server returned no turn.

    ``status`` is the HTTP status (0 if there was none), ``body`` the response (clipped, without keys), ``retry_after`` in
    seconds, ``text`` the part of the reply that had arrived, ``failed_generation`` model output that the server could not parse.
    """

    retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        body: str = "",
        retry_after: float | None = None,
        text: str = "",
        failed_generation: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = body
        self.retry_after = retry_after
        self.text = text
        self.failed_generation = failed_generation


class ConnectionFailed(ProviderError):
    """The server could not be reached, or the connection broke before a reply."""

    retryable = True


class RateLimited(ProviderError):
    """The server received too many requests."""

    retryable = True


class Overloaded(ProviderError):
    """The server has no capacity now, or an error."""

    retryable = True


class AuthFailed(ProviderError):
    """The server refused the key."""


class ContextTooLong(ProviderError):
    """The conversation is longer than the model can read."""


class BadRequest(ProviderError):
    """The server refused the request's contents."""


class StreamBroken(ProviderError):
    """The reply was interrupted."""

    retryable = True


class EnvironmentFailed(ToolcribError):
    """The environment is lost or unavailable; the command itself may have succeeded or failed."""


class StoreFailed(ToolcribError):
    """The store can't be opened, read or written."""


class LeaseLost(StoreFailed):
    """Another process has taken over the session. Writes of this process are refused, so that nothing is recorded twice."""


class InvalidTransition(ToolcribError):
    """A tool call may not move to the requested status."""
