"""A Chat Completions server with a window: it counts the tokens of requests, and refuses longer ones, as servers do."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from toolcrib._testing_server import Response, _delta
from toolcrib.testing import ChatServer

BYTES_A_TOKEN = 4
REPLY = 256
"""Tokens that it reserves for its reply."""

Said = str | Sequence[tuple[str, Any]]
"""A reply: text, or calls as (name, arguments)."""


class WindowServer(ChatServer):
    """A server that calls ``answer`` with a request for the model's reply, and ``summarise`` with the text of a conversation.
    ``more`` are tokens that it counts for each message besides its bytes.

    ``refused`` counts requests that were too long, ``summaries`` counts requests for a summary. ``sizes`` has the tokens of the
    others.
    """

    def __init__(
        self,
        window: int,
        answer: Callable[[dict[str, Any]], Said],
        summarise: Callable[[str], Said] = lambda text: "They talked.",
        more: int = 0,
    ) -> None:
        super().__init__(models=["m"])
        self.window, self.refused = window, 0
        self.summaries: list[str] = []
        self.sizes: list[int] = []
        self.said, self._summarise = answer, summarise
        self._calls = 0
        self._more = more

    def _posted(self, path: str, headers: dict[str, str], sent: Any) -> Response:
        if not path.endswith("/chat/completions"):
            return self._beside(path) or self.body({}, 404)
        tokens = tokens_of(sent) + self._more * len(sent["messages"])
        if tokens + REPLY > self.window:
            self.refused += 1
            words = f"This model's maximum context length is {self.window} tokens; your messages resulted in {tokens} tokens."
            return self.body({"error": {"message": words, "code": "context_length_exceeded"}}, 400)
        messages = sent["messages"]
        if str(messages[0]["content"]).startswith("Write the summary"):
            self.summaries.append(messages[1]["content"])
            return self._reply(self._summarise(messages[1]["content"]), tokens)
        self.requests.append(sent)
        self.sizes.append(tokens)
        return self._reply(self.said(sent), tokens)

    def _reply(self, said: Said, tokens: int) -> Response:
        if isinstance(said, str):
            chunks = [_delta({"content": said}), _delta({}, "stop")]
        else:
            chunks = []
            for place, (name, args) in enumerate(said):
                self._calls += 1
                function = {"name": name, "arguments": json.dumps(args)}
                call = {"index": place, "id": f"call_{self._calls}", "type": "function", "function": function}
                chunks.append(_delta({"tool_calls": [call]}))
            chunks.append(_delta({}, "tool_calls"))
        wrote = len(json.dumps(said)) // BYTES_A_TOKEN
        usage = {"prompt_tokens": tokens, "completion_tokens": wrote}
        return self.stream(*chunks, {"object": "chat.completion.chunk", "choices": [], "usage": usage})


def tokens_of(sent: dict[str, Any]) -> int:
    """Return the tokens of a request, as this server counts them."""
    counted = json.dumps([sent["messages"], sent.get("tools", [])], ensure_ascii=False).encode()
    return len(counted) // BYTES_A_TOKEN


def last_text(sent: dict[str, Any]) -> str:
    """Return the text of a request's last message."""
    content = sent["messages"][-1]["content"]
    return content if isinstance(content, str) else json.dumps(content)
