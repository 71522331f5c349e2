"""The names that plugin authors rely on. Adding a name here is a promise; removing one breaks plugins."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import toolcrib

PUBLIC = {
    "ActivityEvent", "After", "Agent", "AgentSpec", "Answer", "AuthFailed", "BackgroundProcess", "BadRequest", "Block",
    "Cancelled", "Captured", "ConfigError",
    "ConnectionFailed", "Contained", "Containment",
    "ContextTooLong", "Decision", "DeletesFile", "Denied", "Effect", "Environment", "EnvironmentFailed",
    "EventSink", "ExecOutcome", "ExecRequest", "ExecutedCall", "ExecutionFailed", "FileInfo", "Health", "Image", "Internal",
    "InvalidArguments", "InvalidTransition", "LeaseLost", "NotFound", "Overloaded",
    "PluginError", "Portable", "PortableState", "Principal", "ProgressStatus", "Restable", "ProviderError",
    "ProviderSession", "ProviderTurn", "RateLimited", "ReadsFile", "RegistrationError", "RunIdentity", "RunsCommand",
    "SchedulesJob", "SendsMessage", "SetResult", "ShellState", "ShownLine", "StateConflict", "StateKey", "StateScope",
    "StateUpdate", "StoreFailed",
    "StreamBroken", "StreamEvent", "Suspend", "SuspendTicket", "TerminalProcess", "TerminalSize",
    "TextProtocol", "Timeout", "Tool", "ToolCall", "ToolCallContext", "ToolCallStatus", "ToolDescriptor", "ToolDisplay",
    "ToolEntry",
    "ToolError", "ToolOutput", "ToolRegistry", "ToolResult", "ToolSource", "ToolStatus",
    "ToolcribError", "ToolsetError", "Unavailable",
    "FallsBack", "GivesAttributes", "GivesFiles", "HasOutside", "HoldsFiles", "KnowsHome", "LimitsHosts", "Named",
    "OpensTerminals", "Priced", "ReleasesIdle", "RemovesFolders", "ReplacesFiles", "SearchesPath", "Steerable", "TokenPrices",
    "SpawnedProcess", "UsesProcess", "WritesFile", "WritesInput", "hookimpl", "registry", "strongest", "tool",
    "CompressionFailed", "ContextCompressed", "ContextCompressing", "DelegateEnded", "Event", "ImageMade", "ModelAnswered",
    "Retrying", "SessionBusy", "TextDelta", "ThinkingDelta", "TicketOpened", "TicketReminder", "ToolActivity", "ToolCallDelta",
    "ToolFinished", "ToolProgressed", "ToolStarted", "TurnFinished", "TurnStarted",
}  # fmt: skip


def test_the_public_names_are_exactly_these() -> None:
    assert sorted(toolcrib.__all__) == sorted(PUBLIC)


def test_every_public_name_resolves() -> None:
    assert [name for name in PUBLIC if not hasattr(toolcrib, name)] == []


def test_nothing_public_is_left_out() -> None:
    """Each name of the package without an underscore is either promised or a module."""
    shown = {name for name, value in vars(toolcrib).items() if not name.startswith("_") and type(value).__name__ != "module"}
    assert shown - PUBLIC - {"annotations", "TYPE_CHECKING"} == set()


def test_the_hooks_are_exactly_these() -> None:
    """The promise is in promises/hooks.txt; ``python tests/house/promises/listing.py`` adds a new hook to it."""
    from toolcrib.contract.hooks import GROUPS, declared_in

    promised = (Path(__file__).parent / "promises" / "hooks.txt").read_text("utf-8").splitlines()
    assert sorted(name for group in GROUPS for name in declared_in(group)) == [line.partition("(")[0] for line in promised]


def test_the_contract_imports_alone() -> None:
    code = "import sys, toolcrib; print([n for n in ('tools','toolsets','model_tools','agent','plugins') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_the_version_is_told_and_loads_no_agent_before() -> None:
    code = """
import sys, toolcrib
assert "__version__" in dir(toolcrib) and "agent" not in sys.modules
print(toolcrib.__version__)
import agent._version
assert agent._version.__version__ == toolcrib.__version__ and "agent.api" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*\n", done.stdout)


def test_the_agent_is_loaded_when_it_is_asked_for() -> None:
    """``Agent`` is the only name here that needs the layers above, and only its users load them."""
    code = """
import sys, toolcrib
assert "Agent" in dir(toolcrib) and "agent" not in sys.modules
assert not hasattr(toolcrib, "Agnet") and "agent" not in sys.modules
from toolcrib import Agent
import agent.api
print(Agent is agent.api.Agent is vars(toolcrib)["Agent"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "True"
