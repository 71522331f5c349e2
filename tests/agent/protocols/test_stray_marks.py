"""Closing marks around a call that nothing opens: the call runs, and none of them is reported."""

from __future__ import annotations

import pytest

from agent.protocols import find_protocol
from tests.agent.protocols.markup_answers import TOOLS

_RUNS = "<function=terminal>\n<parameter=command>\nls\n</parameter>\n</function>"


@pytest.mark.parametrize("protocol", ["auto", "qwen_xml"])
@pytest.mark.parametrize("size", [1, 7, 500])
@pytest.mark.parametrize(
    "text",
    [
        f"<tool_call>\n{_RUNS}\n</function_invocation>\n</tool_call>", f"<tool_call>\n{_RUNS}\n</function_invocation>",
        f"{_RUNS}\n</function_invocation>\n</tool_call>", f"{_RUNS}\n</tool_use>\n</function_calls>",
        '<tool_call>\n{"name": "terminal", "arguments": {"command": "ls"}}\n</function>\n</tool_call>',
        '<tool_call>\n{"name": "terminal", "arguments": {"command": "ls"}}\n</invoke></tool_call>\n</tool_call>',
    ],
)  # fmt: skip
def test_a_call_with_closing_marks_that_nothing_opens_runs_and_is_not_reported(text: str, size: int, protocol: str) -> None:
    """A report asks the model to send the call again, which would repeat its effect."""
    reader = find_protocol(protocol).reader(TOOLS, thinking="closed")
    for at in range(0, len(text), size):
        reader.feed(text[at : at + size])
    reply = reader.finish()
    assert [(call.name, call.args, call.fault) for call in reply.calls] == [("terminal", {"command": "ls"}, None)]
    assert list(reply.faults) == []


@pytest.mark.parametrize("inside", ["<parameter=command>\nls</b>", "<parameter=command>\nls\n</param>\n</zeta>", "ls\n</zeta>"])
def test_a_call_that_is_not_whole_does_not_run_without_such_marks_either(inside: str) -> None:
    reader = find_protocol("qwen_xml").reader(TOOLS, thinking="closed")
    reader.feed(f"<tool_call>\n<function=terminal>\n{inside}\n</tool_call>")
    reply = reader.finish()
    assert not [call for call in reply.calls if call.fault is None]
    assert reply.faults
