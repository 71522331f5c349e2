"""Tools, calls of tools, and their results (002-2 .. 002-11, 002-27 .. 002-35)."""

from __future__ import annotations

import copy
import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib import (
    Answer,
    Cancelled,
    Denied,
    ExecutionFailed,
    Internal,
    InvalidArguments,
    InvalidTransition,
    NotFound,
    SuspendTicket,
    Timeout,
    ToolCall,
    ToolCallStatus,
    ToolcribError,
    ToolDescriptor,
    ToolError,
    ToolOutput,
    ToolResult,
    ToolStatus,
)

S = ToolCallStatus
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
json_objects = st.dictionaries(st.text(), json_values, max_size=3)


def test_descriptor_fields() -> None:
    """002-2"""
    descriptor = ToolDescriptor("get_prefs", "get_preferences", "Read them.")
    assert (descriptor.id, descriptor.name, descriptor.description) == ("get_prefs", "get_preferences", "Read them.")
    assert descriptor.category is None


def test_descriptor_builder_returns_the_descriptor() -> None:
    """002-3"""
    plain = ToolDescriptor.new("greet", "greet", "Greet somebody.")
    assert plain.parameters == {"type": "object", "properties": {}}
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    built = plain.with_parameters(schema).with_category("social")
    assert (built.parameters, built.category, built.name) == (schema, "social", "greet")
    assert plain.category is None, "the first one is unchanged"


def test_default_parameters_cannot_be_changed_for_everybody() -> None:
    """002-3: the default is one shared object"""
    parameters = ToolDescriptor.new("a", "a", "").parameters
    with pytest.raises(TypeError, match="copy"):
        parameters["properties"]["sneaked"] = {}
    assert ToolDescriptor.new("b", "b", "").parameters == {"type": "object", "properties": {}}
    assert copy.deepcopy(parameters) == parameters


def test_result_fields() -> None:
    """002-5"""
    ticket = SuspendTicket("ask", "May I?")
    result = ToolResult("greet", ToolStatus.PENDING, {"a": 1}, "May I?", ticket)
    assert (result.tool_name, result.status, result.data, result.message, result.suspension) == (
        "greet",
        ToolStatus.PENDING,
        {"a": 1},
        "May I?",
        ticket,
    )


def test_statuses() -> None:
    """002-6"""
    assert [status.name for status in ToolStatus] == ["SUCCESS", "PENDING", "ERROR"]


TICKET = SuspendTicket("ask", "May I?")


@pytest.mark.parametrize(
    ("result", "status", "data", "message", "ticket"),
    [
        (ToolResult.success("t", {"x": 1}), ToolStatus.SUCCESS, {"x": 1}, None, None),
        (ToolResult.success_with_message("t", 3, "done"), ToolStatus.SUCCESS, 3, "done", None),
        (ToolResult.error("t", "no"), ToolStatus.ERROR, None, "no", None),
        (
            ToolResult.error_with_code("t", "E7", "no"),
            ToolStatus.ERROR,
            {"error": {"code": "E7", "message": "no"}},
            "[E7] no",
            None,
        ),
        (ToolResult.suspended("t", "wait"), ToolStatus.PENDING, None, "wait", None),
        (ToolResult.suspended_with("t", "wait", TICKET), ToolStatus.PENDING, None, "wait", TICKET),
    ],
)
def test_constructors(result: ToolResult, status: ToolStatus, data: object, message: str | None, ticket: object) -> None:
    """002-7, and 002-8 for the contents of error_with_code and error"""
    assert (result.tool_name, result.status, result.data, result.message, result.suspension) == (
        "t",
        status,
        data,
        message,
        ticket,
    )


def test_wire_form_leaves_out_what_is_absent() -> None:
    """002-8"""
    assert ToolResult.success("t", [1]).to_json() == {"tool_name": "t", "status": "success", "data": [1]}
    assert ToolResult.error("t", "no").to_json() == {"tool_name": "t", "status": "error", "data": None, "message": "no"}
    pending = ToolResult.suspended_with("t", "wait", TICKET).to_json()
    assert pending["status"] == "pending"
    assert pending["suspension"] == TICKET.to_json()


def test_predicates_and_text() -> None:
    """002-9"""
    results = [ToolResult.success("t", 1), ToolResult.suspended("t", "w"), ToolResult.error("t", "n")]
    asked = [(result.is_success, result.is_pending, result.is_error) for result in results]
    assert asked == [(True, False, False), (False, True, False), (False, False, True)]
    assert json.loads(ToolResult.success("t", "ü").to_json_text()) == {"tool_name": "t", "status": "success", "data": "ü"}


def test_a_result_becomes_an_output_without_state_changes() -> None:
    """002-10"""
    result = ToolResult.success("t", 1)
    assert result.to_output() == ToolOutput(result, ())
    assert ToolOutput(result, [("seen", True)]).state_changes == [("seen", True)]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (InvalidArguments, "Invalid arguments: why"),
        (ExecutionFailed, "Execution failed: why"),
        (Denied, "Denied: why"),
        (NotFound, "Not found: why"),
        (Internal, "Internal error: why"),
        (Timeout, "Timed out: why"),
        (Cancelled, "Cancelled: why"),
    ],
)
def test_errors_carry_text(kind: type[ToolError], text: str) -> None:
    """002-11"""
    error = kind("why")
    assert isinstance(error, ToolcribError)
    assert (error.text, str(error)) == ("why", text)


def test_error_codes_differ() -> None:
    """002-11"""
    codes = [kind.code for kind in ToolError.__subclasses__()]
    assert len(set(codes)) == len(codes)


ALLOWED = {
    S.NEW: {S.RUNNING},
    S.RUNNING: {S.SUCCEEDED, S.FAILED, S.SUSPENDED, S.CANCELLED},
    S.SUSPENDED: {S.RESUMING, S.CANCELLED},
    S.RESUMING: {S.RUNNING, S.SUSPENDED, S.SUCCEEDED, S.FAILED, S.CANCELLED},
}


@pytest.mark.parametrize("old", S)
@pytest.mark.parametrize("new", S)
def test_only_the_moves_of_the_table(old: ToolCallStatus, new: ToolCallStatus) -> None:
    """002-27; staying is allowed and does nothing (002-28)"""
    if new is old or new in ALLOWED.get(old, set()):
        assert old.can_become(new)
        assert old.become(new) is new
    else:
        assert not old.can_become(new)
        with pytest.raises(InvalidTransition, match=f"{old.value} can't become {new.value}"):
            old.become(new)


def test_terminal_statuses() -> None:
    """002-28"""
    assert {status for status in S if status.is_terminal} == {S.SUCCEEDED, S.FAILED, S.CANCELLED}


@given(st.lists(st.sampled_from(list(S)), max_size=12))
def test_no_walk_leaves_a_terminal_status(asked: list[ToolCallStatus]) -> None:
    """002-28"""
    status = S.NEW
    for new in asked:
        before = status
        if status.can_become(new):
            status = status.become(new)
        assert not before.is_terminal or status is before


def test_outcomes() -> None:
    """002-29"""
    assert [S.outcome_of(status) for status in ToolStatus] == [S.SUCCEEDED, S.SUSPENDED, S.FAILED]


def test_ticket_wire_form() -> None:
    """002-30"""
    call = ToolCall("c1", "terminal", {"command": "ls"})
    ticket = SuspendTicket("approve", "Run ls?", call, {"risk": "low"}, {"type": "object"}, "pass_to_tool", "digest", "t1")
    assert ticket.to_json() == {
        "suspension": {
            "id": "t1",
            "action": "approve",
            "message": "Run ls?",
            "parameters": {"risk": "low"},
            "binds": "digest",
            "response_schema": {"type": "object"},
        },
        "pending": {"id": "c1", "name": "terminal", "arguments": {"command": "ls"}},
        "resume_mode": "pass_to_tool",
    }
    assert "response_schema" not in SuspendTicket("a", "m").to_json()["suspension"]


@given(
    st.builds(
        SuspendTicket,
        action=st.text(),
        message=st.text(),
        call=st.none() | st.builds(ToolCall, id=st.text(), name=st.text(), args=json_objects, fault=st.none()),
        parameters=json_objects,
        response_schema=st.none() | json_objects,
        resume_mode=st.sampled_from(["replay", "use_as_result", "pass_to_tool"]),
        binds=st.text(),
    )
)
def test_ticket_round_trips_through_json(ticket: SuspendTicket) -> None:
    """002-30"""
    assert SuspendTicket.from_json(json.loads(json.dumps(ticket.to_json()))) == ticket


def test_a_ticket_that_lacks_a_field_is_refused() -> None:
    """002-30"""
    data = SuspendTicket("a", "m").to_json()
    del data["suspension"]["binds"]
    with pytest.raises(KeyError, match="binds"):
        SuspendTicket.from_json(data)


def test_ticket_ids_have_128_bits_and_differ() -> None:
    ids = {SuspendTicket("a", "m").id for _ in range(50)}
    assert len(ids) == 50
    assert all(len(bytes.fromhex(one)) == 16 for one in ids)


def test_answers_say_no_by_their_payload() -> None:
    """002-31: a denial is an answer; decision ids differ, so that a repeated delivery is recognised"""
    assert Answer("t", payload={"approved": False, "reason": "no"}).denied
    assert not Answer("t", payload={"approved": True}).denied
    assert not Answer("t", payload=None).denied
    assert Answer("t").decision_id != Answer("t").decision_id


def test_id_and_name_may_differ() -> None:
    """002-34"""
    descriptor = ToolDescriptor.new("get_prefs", "get_preferences", "")
    assert descriptor.id != descriptor.name


def test_calls_without_an_id_get_one() -> None:
    """X-2"""
    assert ToolCall.new_id() != ToolCall.new_id()


@pytest.mark.parametrize(
    "value", [ToolCall("c", "n"), ToolResult.success("t", 1), TICKET, Answer("t"), ToolDescriptor("a", "a", "")]
)
def test_values_are_frozen(value: object) -> None:
    field = dataclasses.fields(value)[0].name  # type: ignore[arg-type]  # each of them is a dataclass
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, field, "other")
