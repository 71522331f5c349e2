"""The public names: everything that the author of a tool, a plugin or a program imports.

    from toolcrib import registry, tool, hookimpl, Block

``Agent`` is for programs that want a model with tools; ``TextDelta``, ``ToolFinished`` and the other types in ``Event`` are its
events. They are imported at first use, so that other importers do not load them. ``__version__`` is the distribution's.
``toolcrib.chat`` and ``toolcrib.platforms`` are for chat platforms, ``toolcrib.backends`` for backends, ``toolcrib.testing``
for tests. toolcrib's own agent and tools import neither this module nor these four; they import ``toolcrib.contract``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib.contract.after import After
from toolcrib.contract.background import SpawnedProcess
from toolcrib.contract.containment import Contained, Containment, HasOutside, LimitsHosts
from toolcrib.contract.context import ActivityEvent, AgentSpec, EventSink, Principal, ProgressStatus, RunIdentity, ToolCallContext
from toolcrib.contract.decision import Block, Decision, SetResult, Suspend, strongest
from toolcrib.contract.derive import tool
from toolcrib.contract.display import ShownLine, ToolDisplay
from toolcrib.contract.effects import (
    DeletesFile,
    Effect,
    ReadsFile,
    RunsCommand,
    SchedulesJob,
    SendsMessage,
    ShellState,
    UsesProcess,
    WritesFile,
    WritesInput,
)
from toolcrib.contract.entry import ToolEntry
from toolcrib.contract.environment import (
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
    ReleasesIdle,
    RemovesFolders,
    ReplacesFiles,
    Restable,
    SearchesPath,
)
from toolcrib.contract.errors import (
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
from toolcrib.contract.hooks import hookimpl
from toolcrib.contract.image import Image
from toolcrib.contract.registry import ToolRegistry, registry
from toolcrib.contract.session import (
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
from toolcrib.contract.state import StateKey, StateScope, StateUpdate
from toolcrib.contract.terminal import OpensTerminals, TerminalProcess, TerminalSize
from toolcrib.contract.tool_sources import ToolSource
from toolcrib.contract.types import (
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
    from agent.api import Agent
    from agent.events import (
        CompressionFailed,
        ContextCompressed,
        ContextCompressing,
        DelegateEnded,
        Event,
        ImageMade,
        ModelAnswered,
        Retrying,
        SessionBusy,
        TextDelta,
        ThinkingDelta,
        TicketOpened,
        TicketReminder,
        ToolActivity,
        ToolCallDelta,
        ToolFinished,
        ToolProgressed,
        ToolStarted,
        TurnFinished,
        TurnStarted,
    )

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
    "CompressionFailed",
    "ConfigError",
    "ConnectionFailed",
    "Contained",
    "Containment",
    "ContextCompressed",
    "ContextCompressing",
    "ContextTooLong",
    "Decision",
    "DelegateEnded",
    "DeletesFile",
    "Denied",
    "Effect",
    "Environment",
    "EnvironmentFailed",
    "Event",
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
    "ImageMade",
    "Internal",
    "InvalidArguments",
    "InvalidTransition",
    "KnowsHome",
    "LeaseLost",
    "LimitsHosts",
    "ModelAnswered",
    "Named",
    "NotFound",
    "OpensTerminals",
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
    "ReleasesIdle",
    "RemovesFolders",
    "ReplacesFiles",
    "Restable",
    "Retrying",
    "RunIdentity",
    "RunsCommand",
    "SchedulesJob",
    "SearchesPath",
    "SendsMessage",
    "SessionBusy",
    "SetResult",
    "ShellState",
    "ShownLine",
    "SpawnedProcess",
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
    "TerminalProcess",
    "TerminalSize",
    "TextDelta",
    "TextProtocol",
    "ThinkingDelta",
    "TicketOpened",
    "TicketReminder",
    "Timeout",
    "TokenPrices",
    "Tool",
    "ToolActivity",
    "ToolCall",
    "ToolCallContext",
    "ToolCallDelta",
    "ToolCallStatus",
    "ToolDescriptor",
    "ToolDisplay",
    "ToolEntry",
    "ToolError",
    "ToolFinished",
    "ToolOutput",
    "ToolProgressed",
    "ToolRegistry",
    "ToolResult",
    "ToolSource",
    "ToolStarted",
    "ToolStatus",
    "ToolcribError",
    "ToolsetError",
    "TurnFinished",
    "TurnStarted",
    "Unavailable",
    "UsesProcess",
    "WritesFile",
    "WritesInput",
    "hookimpl",
    "registry",
    "strongest",
    "tool",
]


_EVENTS = {
    "CompressionFailed",
    "ContextCompressed",
    "ContextCompressing",
    "DelegateEnded",
    "Event",
    "ImageMade",
    "ModelAnswered",
    "Retrying",
    "SessionBusy",
    "TextDelta",
    "ThinkingDelta",
    "TicketOpened",
    "TicketReminder",
    "ToolActivity",
    "ToolCallDelta",
    "ToolFinished",
    "ToolProgressed",
    "ToolStarted",
    "TurnFinished",
    "TurnStarted",
}
"""Names in agent.events."""

if not TYPE_CHECKING:  # a type checker that saw __getattr__ would accept any name

    def __getattr__(name: str) -> object:
        if name == "Agent":
            from agent.api import Agent

            found: object = Agent
        elif name in _EVENTS:
            from agent import events

            found = getattr(events, name)
        elif name == "__version__":
            from agent._version import __version__

            found = __version__
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = found  # from now on it is found without this function
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_EVENTS, "Agent", "__version__"})
