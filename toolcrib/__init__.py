"""The contract: all that a tool or plugin author imports.

from toolcrib import registry, tool, hookimpl, Block
"""

from __future__ import annotations

from toolcrib._context import (
    ActivityEvent,
    AgentSpec,
    EventSink,
    ProgressStatus,
    RunIdentity,
    StateKey,
    ToolCallContext,
)
from toolcrib._decision import Block, Decision, SetResult, Suspend, strongest
from toolcrib._derive import tool
from toolcrib._effects import DeletesFile, Effect, ReadsFile, RunsCommand, WritesFile
from toolcrib._entry import ToolEntry
from toolcrib._environment import Captured, Environment, ExecOutcome, ExecRequest, FileInfo
from toolcrib._errors import (
    Cancelled,
    ConfigError,
    Denied,
    EnvironmentFailed,
    ExecutionFailed,
    Internal,
    InvalidArguments,
    InvalidTransition,
    NotFound,
    PluginError,
    RegistrationError,
    Timeout,
    ToolcribError,
    ToolError,
    ToolsetError,
)
from toolcrib._hooks import hookimpl
from toolcrib._registry import ToolRegistry, registry
from toolcrib._session import ExecutedCall, ProviderSession, ProviderTurn, StreamEvent, TextProtocol
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

__all__ = [
    "ActivityEvent",
    "AgentSpec",
    "Answer",
    "Block",
    "Cancelled",
    "Captured",
    "ConfigError",
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
    "FileInfo",
    "Internal",
    "InvalidArguments",
    "InvalidTransition",
    "NotFound",
    "PluginError",
    "ProgressStatus",
    "ProviderSession",
    "ProviderTurn",
    "ReadsFile",
    "RegistrationError",
    "RunIdentity",
    "RunsCommand",
    "SetResult",
    "StateKey",
    "StreamEvent",
    "Suspend",
    "SuspendTicket",
    "TextProtocol",
    "Timeout",
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
