"""Methods of a store's records."""

from __future__ import annotations

from toolcrib import ToolCall, ToolCallStatus
from toolcrib.contract.records import CallRecord


def test_a_call_is_of_the_reply_that_asked_for_it() -> None:
    """If the record names no reply, a call since the beginning of the run's turn belongs to it, and an older one does not."""
    named = CallRecord(ToolCall("1", "t", {}), "session", ToolCallStatus.NEW, opened_at=10.0, turn="reply")
    assert named.is_of("reply", since=20.0)
    assert not named.is_of("another", since=0.0)
    unnamed = CallRecord(ToolCall("1", "t", {}), "session", ToolCallStatus.NEW, opened_at=10.0)
    assert unnamed.is_of("reply", since=10.0)
    assert not unnamed.is_of("reply", since=10.1)
