"""Servers that refuse messages as this wire sends them: two of the user in a row, null as the content of a call, ..."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from typing import Any

import pytest

from agent.protocols import find_protocol
from agent.providers import Endpoint, HttpClient
from agent.providers._chat_messages import ChatMessages
from agent.providers._history import NO_SIGNATURE
from agent.providers._names import WireNames
from agent.providers._reasoning import ReasoningBack
from agent.providers._text_messages import TextMessages
from agent.providers.openai_chat import OpenAIChatSession
from tests.agent.providers.documented import Documented, refuse, reply, talk
from toolcrib import BadRequest, Overloaded
from toolcrib.contract.image import Image
from toolcrib.testing import ChatServer, Response

CALL = {"role": "assistant", "text": "", "calls": [{"id": "a", "name": "bash", "args": {}}]}
RESULTS = {"role": "results", "results": [{"call_id": "a", "name": "bash", "text": "ok"}]}


def template(status: int) -> Any:
    """Return the rules of a server with Mistral's template."""
    words = "Jinja Exception: After the optional system message, conversation roles must alternate user and assistant roles"

    def rules(sent: Any) -> Response | None:
        roles = [one["role"] for one in sent["messages"] if one["role"] != "tool" and not one.get("tool_calls")]
        expected = [("user", "assistant")[place % 2] for place in range(len(roles))]
        return None if roles == expected else refuse(words, status)

    return rules


async def _ask(server: ChatServer, *texts: str, stored: Any = ()) -> str:
    session = OpenAIChatSession(HttpClient(Endpoint(server.base_url, "m"), {}), model="m", records=stored)
    try:
        for text in texts:
            session.say(text)
        return (await session.stream_turn(lambda event: None)).assistant_text
    finally:
        await session.close()


@pytest.mark.parametrize("status", [400, 500])
@pytest.mark.parametrize("stored", [[{"role": "user", "text": "one"}], [{"role": "user", "text": "one"}, CALL, RESULTS]])
def test_a_question_after_a_failed_run_is_answered(status: int, stored: list[dict[str, Any]]) -> None:
    with Documented(template(status), reply(text="yes")) as server:
        assert asyncio.run(_ask(server, "two", stored=stored)) == "yes"
        assert server.refused == 1


def test_a_server_that_is_never_content_is_asked_twice() -> None:
    with Documented(lambda sent: refuse("roles must alternate", 400), reply(text="yes")) as server:
        with pytest.raises((BadRequest, Overloaded), match="must alternate"):
            asyncio.run(_ask(server, "one", "two"))
        assert server.refused == 2


IMAGE = Image("image/png", b"x")
SHOWN = {"type": "image_url", "image_url": {"url": "data:image/png;base64,eA=="}}


@pytest.mark.parametrize(
    ("said", "joined"),
    [
        ([("one", []), ("two", []), ("three", [])], "one\n\ntwo\n\nthree"),
        ([("one", []), ("", [IMAGE])], [{"type": "text", "text": "one"}, SHOWN]),
        ([("", [IMAGE]), ("two", [])], [SHOWN, {"type": "text", "text": "two"}]),
    ],
)
def test_messages_in_a_row_become_one(said: list[tuple[str, list[Image]]], joined: Any) -> None:
    messages = ChatMessages(WireNames(["bash"]), "m")
    for text, images in said:
        messages.user(text, images)
    assert len(json.loads(messages.joined(ReasoningBack("")))) == len(said)
    assert messages.alternate()
    assert not messages.alternate()
    assert json.loads(messages.joined(ReasoningBack(""))) == [{"role": "user", "content": joined}]


def test_results_as_messages_of_the_user_are_joined_too() -> None:
    messages = TextMessages(find_protocol("granite"), "m")
    messages.records([{"role": "user", "text": "one"}, CALL, RESULTS, {"role": "user", "text": "two"}], skip_system=False)
    messages.alternate()
    for as_user in (False, True):
        messages.tool_role = not as_user
        roles = [one["role"] for one in json.loads(messages.joined(ReasoningBack("")))]
        assert roles[-1] == "user"
        assert not any(first == second == "user" for first, second in pairwise(roles))


@pytest.mark.parametrize(
    ("words", "accepted"),
    [
        ("Invalid 'content': 'content' field must be a string or an array of objects.", ""),
        ("messages[1].content must be a string or an object (was null)", ""),
        ("1 validation error for Request\nmessages.1.content\n  Input should be a valid string", ""),
        ("The content field in the Message object at messages.1 is empty. Add a ContentBlock object", "[no text]"),
    ],
)
def test_a_server_that_refuses_null_gets_text(words: str, accepted: str) -> None:
    def rules(sent: Any) -> Response | None:
        contents = [one["content"] for one in sent["messages"] if one["role"] == "assistant" and one.get("tool_calls")]
        return refuse(words) if any(one not in (accepted, "[no text]") for one in contents) else None

    with Documented(rules, reply(call="a"), reply(text="x"), reply(call="b"), reply(text="y")) as server:
        assert [one["content"] for one in talk(server, 2)] == [None, "x", None, "y"]
        assert server.refused == (2 if accepted else 1)


@pytest.mark.parametrize("call", ["", "a"])
def test_a_server_that_refuses_any_content_is_not_asked_for_ever(call: str) -> None:
    def rules(sent: Any) -> Response | None:
        return refuse("content is empty") if not call or len(sent["messages"]) > 1 else None

    with Documented(rules, reply(call="a")) as server:
        with pytest.raises(BadRequest, match="content is empty"):
            talk(server, 1)
        assert server.refused == (3 if call else 1)


def test_a_template_that_refuses_channels_gets_the_final_text() -> None:
    """The server sends gpt-oss's raw text, and its template refuses that text in the history."""
    raw = "<|channel|>analysis<|message|>They greet.<|end|><|start|>assistant<|channel|>final<|message|>Hello!<|return|>"

    def rules(sent: Any) -> Response | None:
        told = "You have passed a message containing <|channel|> tags in the content field."
        return refuse(told, 500) if any("<|channel|>" in str(one["content"]) for one in sent["messages"][1::2]) else None

    with Documented(rules, reply(text=raw), reply(text="yes"), reply(text=raw), reply(text="no")) as server:
        assert [one["content"] for one in talk(server, 4)] == [raw, "yes", raw, "no"]
        assert server.refused == 1
        sent = [one["content"] for one in server.requests[-1]["messages"]]
    assert sent == ["go on", "Hello!", "go on", "yes", "go on", "Hello!", "go on"]


def test_a_call_without_a_signature_of_geminis_is_sent_with_a_substitute() -> None:
    """Another model made the call, or a gateway dropped its signature. Google's server refuses with a list."""

    def rules(sent: Any) -> Response | None:
        calls = [one["tool_calls"][0] for one in sent["messages"] if one.get("tool_calls")]
        if all("thought_signature" in one.get("extra_content", {}).get("google", {}) for one in calls):
            return None
        told = "Function call is missing a thought_signature in functionCall parts. Additional data, function call `bash`"
        return ChatServer.body([{"error": {"code": 400, "message": told, "status": "INVALID_ARGUMENT"}}], 400)

    own = {
        "id": "b",
        "type": "function",
        "function": {"name": "bash", "arguments": "{}"},
        "extra_content": {"google": {"thought_signature": "sig"}},
    }
    native = {"wire": "chat", "message": {"role": "assistant", "content": None, "tool_calls": [own]}}
    calls = [{"id": "b", "name": "bash", "args": {}}]
    signed = {"role": "assistant", "text": "", "calls": calls, "model": "m", "native": native}
    stored = [{"role": "user", "text": "one"}, CALL, RESULTS, signed]
    with Documented(rules, reply(text="yes")) as server:
        assert asyncio.run(_ask(server, "two", stored=stored)) == "yes"
        assert server.refused == 1
        sent = [one["tool_calls"][0]["extra_content"] for one in server.requests[-1]["messages"] if one.get("tool_calls")]
    assert sent == [{"google": {"thought_signature": one}} for one in (NO_SIGNATURE, "sig")]
