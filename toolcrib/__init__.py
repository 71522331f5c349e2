"""The contract: all that a tool or plugin author imports.

    from toolcrib import registry, tool, hookimpl, Block

And ``Agent`` for programs that want a model with tools. It is the one name here that stands on everything else: it is imported
when it is first asked for, so that a tool's author pays nothing for it. ``__version__`` is the distribution's.

Tools: ``_registry``, ``_entry``, ``_derive``, ``_declared``, ``_effects``. Calls: ``_types``, ``_context``, ``_decision``,
``_after``, ``_state``, ``_errors``, ``_image``. Plugins: ``_hooks``. What others implement: ``_environment``,
``_containment``, ``_session`` (models), ``chat`` (platforms), ``_store`` with ``_records`` and ``_undo``. ``testing`` has
doubles for the tests of all of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._after import After
from toolcrib._containment import Contained, Containment, HasOutside, LimitsHosts
from toolcrib._context import (
    ActivityEvent,
    AgentSpec,
    EventSink,
    Principal,
    ProgressStatus,
    RunIdentity,
    ToolCallContext,
)
from toolcrib._decision import Block, Decision, SetResult, Suspend, strongest
from toolcrib._derive import tool
from toolcrib._effects import DeletesFile, Effect, ReadsFile, RunsCommand, SchedulesJob, SendsMessage, ShellState, WritesFile
from toolcrib._entry import ToolEntry
from toolcrib._environment import (
    BackgroundProcess,
    Captured,
    Environment,
    ExecOutcome,
    ExecRequest,
    FileInfo,
    GivesAttributes,
    GivesFiles,
    Health,
    HoldsFiles,
    KnowsHome,
    Portable,
    PortableState,
    RemovesFolders,
    ReplacesFiles,
    Restable,
    SearchesPath,
)
from toolcrib._errors import (
    AuthFailed,
    BadRequest,
    Cancelled,
    ConfigError,
    ConnectionFailed,
    ContextTooLong,
    Denied,
    EnvironmentFailed,
    ExecutionFailed,
    Internal,
    InvalidArguments,
    InvalidTransition,
    LeaseLost,
    NotFound,
    Overloaded,
    PluginError,
    ProviderError,
    RateLimited,
    RegistrationError,
    StateConflict,
    StoreFailed,
    StreamBroken,
    Timeout,
    ToolcribError,
    ToolError,
    ToolsetError,
)
from toolcrib._hooks import hookimpl
from toolcrib._image import Image
from toolcrib._registry import ToolRegistry, registry
from toolcrib._session import (
    ExecutedCall,
    FallsBack,
    Named,
    Priced,
    ProviderSession,
    ProviderTurn,
    Steerable,
    StreamEvent,
    TextProtocol,
    TokenPrices,
)
from toolcrib._state import StateKey, StateScope, StateUpdate
from toolcrib._types import (
    Answer,
    SuspendTicket,
    Tool,
    ToolCall,
    ToolCallStatus,
    ToolDescriptor,
    ToolOutput,
    ToolResult,
    ToolStatus,
    Unavailable,
)

if TYPE_CHECKING:
    from agent.run import Agent

__all__ = [
    "ActivityEvent",
    "After",
    "Agent",
    "AgentSpec",
    "Answer",
    "AuthFailed",
    "BackgroundProcess",
    "BadRequest",
    "Block",
    "Cancelled",
    "Captured",
    "ConfigError",
    "ConnectionFailed",
    "Contained",
    "Containment",
    "ContextTooLong",
    "Decision",
    "DeletesFile",
    "Denied",
    "Effect",
    "Environment",
    "EnvironmentFailed",
    "EventSink",
    "ExecOutcome",
    "ExecRequest",
    "ExecutedCall",
    "ExecutionFailed",
    "FallsBack",
    "FileInfo",
    "GivesAttributes",
    "GivesFiles",
    "HasOutside",
    "Health",
    "HoldsFiles",
    "Image",
    "Internal",
    "InvalidArguments",
    "InvalidTransition",
    "KnowsHome",
    "LeaseLost",
    "LimitsHosts",
    "Named",
    "NotFound",
    "Overloaded",
    "PluginError",
    "Portable",
    "PortableState",
    "Priced",
    "Principal",
    "ProgressStatus",
    "ProviderError",
    "ProviderSession",
    "ProviderTurn",
    "RateLimited",
    "ReadsFile",
    "RegistrationError",
    "RemovesFolders",
    "ReplacesFiles",
    "Restable",
    "RunIdentity",
    "RunsCommand",
    "SchedulesJob",
    "SearchesPath",
    "SendsMessage",
    "SetResult",
    "ShellState",
    "StateConflict",
    "StateKey",
    "StateScope",
    "StateUpdate",
    "Steerable",
    "StoreFailed",
    "StreamBroken",
    "StreamEvent",
    "Suspend",
    "SuspendTicket",
    "TextProtocol",
    "Timeout",
    "TokenPrices",
    "Tool",
    "ToolCall",
    "ToolCallContext",
    "ToolCallStatus",
    "ToolDescriptor",
    "ToolEntry",
    "ToolError",
    "ToolOutput",
    "ToolRegistry",
    "ToolResult",
    "ToolStatus",
    "ToolcribError",
    "ToolsetError",
    "Unavailable",
    "WritesFile",
    "hookimpl",
    "registry",
    "strongest",
    "tool",
]


if not TYPE_CHECKING:  # a type checker that saw __getattr__ would take any name for one of ours

    def __getattr__(name: str) -> object:
        if name == "Agent":
            from agent.run import Agent

            found: object = Agent
        elif name == "__version__":
            from agent._version import __version__

            found = __version__
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = found  # from now on it is found without this function
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), "Agent", "__version__"})
