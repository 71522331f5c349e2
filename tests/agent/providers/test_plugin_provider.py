"""A plugin's provider: its errors are reported as its own, and affect nothing else."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any

import pytest

from agent.providers.endpoint import Endpoint
from agent.providers.factory import ModelTarget, ProviderOpening, open_session
from toolcrib import BadRequest, ProviderError, ProviderSession, ProviderTurn, StreamEvent, ToolCall
from toolcrib.testing import ScriptedSession


class Plugins(ScriptedSession):
    """A provider that runs ``does`` with ``on_event`` instead of a turn."""

    model = "m-1"

    def __init__(self, does: Any) -> None:
        super().__init__()
        self.does = does

    async def stream_turn(self, on_event: Any) -> Any:
        return self.does(on_event)

    async def append_tool_results(self, turn: Any, executed: Any) -> None:
        raise KeyError("results")

    async def close(self) -> None:
        raise RuntimeError("no goodbye")


def opened(does: Any, key: str = "") -> ProviderSession:
    endpoint = Endpoint("", "m", "MINE" if key else None)
    return open_session(
        ModelTarget("mine", endpoint), ProviderOpening(), {"MINE": key}, plugins={"mine": lambda **fields: Plugins(does)}
    )


def turn_of(session: ProviderSession, events: list[StreamEvent] | None = None) -> ProviderTurn:
    return asyncio.run(session.stream_turn(([] if events is None else events).append))


Turn: Any = ProviderTurn  # an alias without a type, so that the tests can make invalid turns


@pytest.mark.parametrize(
    ("does", "says"),
    [
        (lambda tell: {}["nothing"], "KeyError: 'nothing'"),
        (lambda tell: sys.exit(9), "SystemExit: 9"),
        (lambda tell: "hello", "stream_turn returned str; return a ProviderTurn"),
        (lambda tell: Turn(None), "assistant_text is NoneType"),
        (lambda tell: Turn("", [{"name": "t"}]), "must be a ToolCall"),
        (lambda tell: Turn("", assistant_turn=object()), "must be JSON, to be stored: object is not JSON"),
        (lambda tell: Turn("", usage={"input": "many"}), "it must count tokens as integers"),
        (lambda tell: Turn("", images=[b"png"]), "images contains bytes; it must be an Image"),
        (lambda tell: tell("text"), "on_event takes a StreamEvent, not str"),
    ],
)
def test_its_bugs_are_errors_of_the_provider_that_name_it(does: Any, says: str) -> None:
    with pytest.raises(ProviderError, match="the plugin's provider 'mine' failed: ") as caught:
        turn_of(opened(does))
    assert says in str(caught.value)
    assert not caught.value.retryable


def test_what_it_raises_on_purpose_passes_and_so_does_what_the_listener_raises() -> None:
    def refuses(tell: Any) -> None:
        raise BadRequest("too long")

    with pytest.raises(BadRequest, match="too long"):
        turn_of(opened(refuses))

    def full(event: StreamEvent) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        asyncio.run(opened(lambda tell: tell(StreamEvent("assistant_delta", "x"))).stream_turn(full))


def test_a_reply_that_was_not_streamed_is_told_once() -> None:
    """The user would otherwise see no part of such a reply."""
    events: list[StreamEvent] = []
    assert turn_of(opened(lambda tell: ProviderTurn("hi", [ToolCall("1", "t")])), events).assistant_text == "hi"
    assert events == [StreamEvent("assistant_delta", "hi")]

    def streams(tell: Any) -> ProviderTurn:
        tell(StreamEvent("assistant_delta", "hi"))
        return ProviderTurn("hi")

    turn_of(opened(streams), events)
    assert len(events) == 2


def test_the_rest_of_it_is_kept_apart_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    session = opened(lambda tell: (_ for _ in ()).throw(ValueError("with sesame-open")), key="sesame-open")
    assert getattr(session, "model", "") == "m-1"
    with pytest.raises(ProviderError, match=r"ValueError: with \[key\]"):
        turn_of(session)
    with pytest.raises(ProviderError, match="KeyError: 'results'"):
        asyncio.run(session.append_tool_results(ProviderTurn(""), []))
    asyncio.run(session.close())
    assert "the plugin's provider 'mine' failed: RuntimeError: no goodbye (while it was being closed)" in caplog.text
