"""Every error that toolcrib raises on purpose.

ToolcribError
├── ToolError                a tool call ends here; its result says why, the run continues
│   ├── InvalidArguments     the arguments do not fit the tool's schema: correct and call again
│   ├── ExecutionFailed      the tool ran and could not do it
│   ├── Denied               a gate, a person or a missing approval said no
│   ├── NotFound             no such tool, file or thing
│   ├── Internal             a fault of toolcrib or of a plugin, not of the call
│   ├── StateConflict        another call wrote the same state meanwhile, and what this one wrote to it is not kept
│   ├── Timeout              a time limit ran out
│   └── Cancelled            interrupted before it finished
├── RegistrationError        a tool that cannot be registered: names module, tool and JSON path
├── ToolsetError             an unknown toolset, or one that contains itself
├── ConfigError              a configuration that cannot be trusted: names file, line and key
├── PluginError              a plugin that cannot be loaded
├── ProviderError            a model server could not give a turn; ``retryable`` says whether asking again may help
│   ├── ConnectionFailed     it could not be reached, or the connection broke before a reply
│   ├── RateLimited          429: too many requests; ``retry_after`` in seconds where it said
│   ├── Overloaded           5xx: its fault
│   ├── AuthFailed           401, 403: the key is missing, wrong or not allowed
│   ├── ContextTooLong       the conversation is longer than the model takes
│   ├── BadRequest           any other 4xx: the request is refused as it is
│   └── StreamBroken         a reply began and did not end well; ``text`` is what had come
├── EnvironmentFailed        the environment is lost or unavailable (not: the command failed)
├── StoreFailed              the store cannot be read or written: names the file and what to do
│   └── LeaseLost            another process has taken the session over: what this one writes no longer counts
└── InvalidTransition        a tool call was asked to move to a status that it may not reach
"""

from __future__ import annotations

from typing import ClassVar


class ToolcribError(Exception):
    """Base of all."""


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
    """The tool tried and failed."""

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
    """Another call wrote the same state meanwhile."""

    prefix = "State conflict"
    code = "state_conflict"


class Timeout(ToolError):
    """The tool did not end in time."""

    prefix = "Timed out"
    code = "timeout"


class Cancelled(ToolError):
    """Somebody cancelled the call."""

    prefix = "Cancelled"
    code = "cancelled"


class RegistrationError(ToolcribError):
    """A tool that cannot be registered."""


class ToolsetError(ToolcribError):
    """An unknown toolset, or a toolset that contains itself."""


class ConfigError(ToolcribError):
    """A configuration that cannot be trusted."""


class PluginError(ToolcribError):
    """A plugin that cannot be loaded."""


class ProviderError(ToolcribError):
    """A model server could not give a turn.

    ``status`` is the HTTP status (0 where there was none), ``body`` what it said (clipped, free of keys), ``retry_after`` in
    seconds, ``text`` what of a reply had come, ``failed_generation`` what the model wrote and the server could not read.
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
    """The server can't be reached."""

    retryable = True


class RateLimited(ProviderError):
    """The server refused one request too many."""

    retryable = True


class Overloaded(ProviderError):
    """The server has no capacity now."""

    retryable = True


class AuthFailed(ProviderError):
    """The server refused the key."""


class ContextTooLong(ProviderError):
    """The conversation is longer than the model can read."""


class BadRequest(ProviderError):
    """The server refused the request's contents."""


class StreamBroken(ProviderError):
    """The answer broke off."""

    retryable = True


class EnvironmentFailed(ToolcribError):
    """The environment is lost or unavailable; this says nothing about the command's own success."""


class StoreFailed(ToolcribError):
    """The store cannot be opened, read or written. What it held before is as it was."""


class LeaseLost(StoreFailed):
    """Another process has taken the session over. What this one would write is refused, so that nothing counts twice."""


class InvalidTransition(ToolcribError):
    """A tool call was asked to move to a status that it may not reach."""
