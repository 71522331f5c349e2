"""Results name the backend that their tool used."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib import ExecutionFailed, ToolCallContext
from toolcrib.testing import FakeEnvironment


@pytest.fixture
def away(bench: Any) -> Any:
    """A bench whose environment is another machine."""

    class Away(FakeEnvironment):
        identity = "ssh:host"

    bench.scope.open_environment = Away
    return bench


def used(args: Any, ctx: ToolCallContext) -> dict[str, Any]:
    assert ctx.environment is not None
    return {"n": 1}


def test_a_tool_that_used_the_environment_says_which(away: Any) -> None:
    away.tool("t", used)
    assert away.call("t").result.data == {"n": 1, "where": "ssh:host"}


def test_one_that_did_not_says_nothing(away: Any) -> None:
    away.tool("first", used)
    away.tool("t", lambda args: {"n": 1})
    away.call("first")
    assert away.call("t").result.data == {"n": 1}


def test_a_failure_says_it_too(away: Any) -> None:
    def fail(args: Any, ctx: ToolCallContext) -> None:
        used(args, ctx)
        raise ExecutionFailed("broken")

    away.tool("t", fail)
    assert "[where: ssh:host]" in away.call("t").result.message


def test_here_is_not_worth_a_word(bench: Any) -> None:
    class Here(FakeEnvironment):
        identity = "local"

    bench.scope.open_environment = Here
    bench.tool("t", used)
    assert bench.call("t").result.data == {"n": 1}


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("done", "done\n[where: ssh:host]"),
        ('{"n": 1}', '{"n": 1}'),
        (' ["n"]', ' ["n"]'),
        ({"where": "elsewhere"}, {"where": "elsewhere"}),
        ([1], [1]),
    ],
)
def test_text_says_it_in_a_line_and_json_stays_json(away: Any, given: Any, shown: Any) -> None:
    def give(args: Any, ctx: ToolCallContext) -> Any:
        used(args, ctx)
        return given

    away.tool("t", give)
    assert away.call("t").result.data == shown
