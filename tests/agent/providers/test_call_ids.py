"""Ids of recorded calls that the server of the continued conversation did not make are sent in a form that it accepts."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from agent.providers import Endpoint, HttpClient
from agent.providers._anthropic_messages import AnthropicMessages
from agent.providers._chat_messages import ChatMessages
from agent.providers._names import WireNames
from agent.providers._reasoning import ReasoningBack
from agent.providers._responses_items import ResponsesItems
from agent.providers.openai_chat import OpenAIChatSession
from toolcrib.testing import ChatServer

NAMES = WireNames(["bash"])
ODD = ("Bash:0", "functions.bash:1", "x" * 90)
CALLS = [{"id": one, "name": "bash", "args": {}} for one in ODD]
RESULTS = {"role": "results", "results": [{"call_id": one, "name": "bash", "text": f"of {one}"} for one in ODD]}
NATIVES: Mapping[str, Any] = {
    "anthropic": {"content": [{"type": "tool_use", "id": one, "name": "bash", "input": {}} for one in ODD]},
    "chat": {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": one, "type": "function", "function": {"name": "bash", "arguments": "{}"}} for one in ODD],
    },
    "responses": {"output": [{"type": "function_call", "call_id": one, "name": "bash", "arguments": "{}"} for one in ODD]},
}


def _records(wire: str, model: str) -> list[Mapping[str, Any]]:
    native = {"wire": wire, "message": NATIVES[wire]}
    reply = {"role": "assistant", "text": "", "calls": CALLS, "native": native, "via": {"model": model}}
    return [{"role": "user", "text": "go"}, reply, RESULTS]


def _sent(wire: str, records: list[Mapping[str, Any]], model: str, server: str) -> tuple[list[str], list[str]]:
    """Return the ids of calls and of results that a request contains."""
    if wire == "anthropic":
        messages = AnthropicMessages(NAMES, model)
        messages.records(records, skip_system=False)
        blocks = [one for message in json.loads(b"{" + messages.joined() + b"}")["messages"] for one in message["content"]]
        return [one["id"] for one in blocks if "id" in one], [one["tool_use_id"] for one in blocks if "tool_use_id" in one]
    if wire == "responses":
        items = ResponsesItems(NAMES, model, stored=False)
        items.records(records, skip_system=False)
        sent = json.loads(items.joined())
        return [one["call_id"] for one in sent if "name" in one], [one["call_id"] for one in sent if "output" in one]
    chat = ChatMessages(NAMES, model, server)
    chat.records(records, skip_system=False)
    sent = json.loads(chat.joined(ReasoningBack(server)))
    calls = [call["id"] for one in sent for call in one.get("tool_calls", ())]
    return calls, [one["tool_call_id"] for one in sent if one["role"] == "tool"]


@pytest.mark.parametrize("model", ["claude-x", "kimi-k3"])
@pytest.mark.parametrize(
    ("wire", "server", "form"),
    [
        ("anthropic", "api.anthropic.com", r"[a-zA-Z0-9_-]{1,64}"),
        ("responses", "api.openai.com", r"[a-zA-Z0-9_-]{1,64}"),
        ("chat", "api.mistral.ai", r"[a-zA-Z0-9]{9}"),
        ("chat", "api.mistral.ai:443", r"[a-zA-Z0-9]{9}"),
        ("chat", "api.openai.com", r"[a-zA-Z0-9_-]{1,40}"),
    ],
)
@pytest.mark.parametrize("before", NATIVES)
def test_each_wire_gets_ids_in_its_form(before: str, wire: str, server: str, form: str, model: str) -> None:
    """The ids fit the wire and the server even if the model kept its name. Results have the ids of their calls."""
    calls, results = _sent(wire, _records(before, "kimi-k3"), model, server)
    assert calls == results
    assert len(set(calls)) == len(ODD)
    if (wire, model, server) != ("chat", "kimi-k3", "api.openai.com"):
        assert all(re.fullmatch(form, one) for one in calls)


def test_a_model_gets_its_own_ids_unchanged_on_the_chat_wire() -> None:
    """Kimi's models read the tool's name and the number in their ids."""
    assert _sent("chat", _records("chat", "kimi-k3"), "kimi-k3", "api.moonshot.ai")[0] == list(ODD)


@pytest.mark.parametrize("call_id", ["toolu_01A09q90qw90lq917835lq9", "call_1", "D681PevKs"])
def test_ids_that_fit_stay_as_they_are(call_id: str) -> None:
    record = {"role": "assistant", "text": "", "calls": [{"id": call_id, "name": "bash", "args": {}}], "via": {"model": "other"}}
    for wire in ("anthropic", "responses", "chat"):
        assert _sent(wire, [{"role": "user", "text": "go"}, record], "m", "host")[0] == [call_id]


def test_mistral_s_servers_get_ids_that_toolcrib_made_in_their_form() -> None:
    messages = ChatMessages(NAMES, "mistral-large", "api.mistral.ai")
    messages.user("go")
    messages.assistant({"role": "assistant", "content": None, "tool_calls": [messages.native_call("call_7f1", "bash", {})]})
    messages.results([("call_7f1", "done")])
    sent = json.loads(messages.joined(ReasoningBack("api.mistral.ai")))
    assert re.fullmatch(r"[a-zA-Z0-9]{9}", sent[1]["tool_calls"][0]["id"])
    assert (sent[2]["tool_call_id"], sent[2]["content"]) == (sent[1]["tool_calls"][0]["id"], "done")
    assert messages.ids == {"call_7f1"}


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, "Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9."),
        (500, "Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9."),
        (400, "Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum length 40"),
        (400, "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"),
    ],
)
def test_ids_that_a_server_refuses_are_sent_in_the_shortest_form(status: int, said: str) -> None:
    """A server may refuse its own ids. The refused request and all later ones have other ids; the calls keep theirs."""
    call_id = "call_49c89af0:1"
    refusal = ChatServer.body({"error": {"message": said.format(id=call_id)}}, status)
    calls = [ChatServer.calls(("bash", {}), ids=[one]) for one in (call_id, "call_2")]

    async def run(server: ChatServer) -> list[str]:
        session = OpenAIChatSession(HttpClient(Endpoint(server.base_url, "m", None), {}, None), model="m")
        session.say("go")
        found = []
        for _ in range(3):
            turn = await session.stream_turn(lambda event: None)
            found += [call.id for call in turn.tool_calls]
            await session.append_tool_results(turn, ())
        await session.close()
        return found

    with ChatServer(calls[0], refusal, calls[1], ChatServer.text("done")) as server:
        assert asyncio.run(run(server)) == [call_id, "call_2"]
        refused, repeated, last = (one["messages"] for one in server.requests[1:])
    assert refused[1]["tool_calls"][0]["id"] == call_id
    assert repeated == last[:3]
    for called, result in ((last[1], last[2]), (last[3], last[4])):
        assert called["tool_calls"][0]["id"] == result["tool_call_id"]
        assert re.fullmatch(r"[a-zA-Z0-9]{9}", result["tool_call_id"])
