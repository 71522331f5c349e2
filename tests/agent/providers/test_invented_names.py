"""A call of a tool that does not exist goes back with a name that the server accepts, or each later request would be refused."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from agent.providers._anthropic_messages import AnthropicMessages
from agent.providers._chat_messages import ChatMessages
from agent.providers._gemini_contents import GeminiContents
from agent.providers._names import WireNames
from agent.providers._reasoning import ReasoningBack
from agent.providers._responses_items import ResponsesItems

NAMES = WireNames(["bash", "file.read"])


def _chat(name: str) -> list[Any]:
    chat = ChatMessages(NAMES, "m")
    call = {"id": "a", "type": "function", "function": {"name": name, "arguments": "{}"}}
    chat.assistant({"role": "assistant", "content": None, "tool_calls": [call]})
    return [one["function"]["name"] for one in json.loads(chat.joined(ReasoningBack("")))[0]["tool_calls"]]


def _anthropic(name: str) -> list[Any]:
    messages = AnthropicMessages(NAMES, "m")
    messages.assistant({"content": [{"type": "tool_use", "id": "a", "name": name, "input": {}}]})
    return [one["name"] for one in json.loads(b"{" + messages.joined() + b"}")["messages"][0]["content"]]


def _responses(name: str) -> list[Any]:
    items = ResponsesItems(NAMES, "m", stored=False)
    items.assistant({"output": [{"type": "function_call", "call_id": "a", "name": name, "arguments": "{}"}]})
    return [one["name"] for one in json.loads(items.joined()) if "name" in one]


def _gemini(name: str) -> list[Any]:
    contents = GeminiContents(NAMES, "m")
    contents.model_content({"role": "model", "parts": [{"functionCall": {"name": name, "args": {}}}]}, ["a"])
    reply, results = json.loads(b"{" + contents.fields() + b"}")["contents"]
    (sent,) = [part["functionCall"]["name"] for part in reply["parts"]]
    assert [part["functionResponse"]["name"] for part in results["parts"]] == [sent]
    return [sent]


@pytest.mark.parametrize("wire", [_chat, _anthropic, _responses, _gemini])
@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("bash", "bash"),
        ("other", "other"),
        ("file_read", "file_read"),
        ("file.read", "file_read"),
        ("functions.bash", "functions_bash"),
        ("sh run", "sh_run"),
        ("bash\n", "bash_"),
        ("\u5de5\u5177", "__"),
        ("x" * 90, "x" * 55 + "_" + hashlib.sha256(b"x" * 90).hexdigest()[:8]),
    ],
)
def test_it_goes_back_with_a_name_that_the_server_accepts(wire: Any, name: str, sent: str) -> None:
    own = wire is _gemini and "." in name  # Gemini accepts these
    assert wire(name) == [name if own else sent]


@pytest.mark.parametrize("blank", ["", " \n", "\n\n"])
def test_blank_text_before_a_call_does_not_go_back_to_anthropic(blank: str) -> None:
    messages = AnthropicMessages(NAMES, "m")
    blocks = [{"type": "text", "text": blank}, {"type": "tool_use", "id": "a", "name": "bash", "input": {}}]
    messages.assistant({"content": blocks})
    assert json.loads(b"{" + messages.joined() + b"}")["messages"][0]["content"] == blocks[1:]
