"""The real program is killed with -9 between the call of send_message and the message, over a webhook that shows a key once."""

from __future__ import annotations

import json
import random
import socket
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest

from plugins.webhook.signing import HEADER, signature
from tests.fuzz.kill_gateway import Gateway
from tests.fuzz.kill_town import Answers, serving
from tests.infra.served import NO_TLS

SECRET = "a secret of the webhook's"
TEXT = "the build is broken"
_LIMIT = 60.0


class Post:
    """Records the messages that chats show, and the requests to the model. ``meets`` decides what happens to a message."""

    def __init__(self) -> None:
        self.came: list[dict[str, Any]] = []
        self.heard: list[dict[str, Any]] = []
        self.called = Event()
        self.reached = Event()
        self.meets: Callable[[], str] = str

    def in_chat(self, chat: str, words: str) -> set[str]:
        """Return the keys of the chat's messages with these words."""
        return {one["edits"] or one["key"] for one in self.came if one["chat"] == chat and words in one["text"]}

    def model(self) -> type[BaseHTTPRequestHandler]:
        post = self

        class Model(Answers):
            def do_POST(self) -> None:  # noqa: N802 - as http.server has it
                messages = self.body()["messages"]
                post.heard = messages
                delta: dict[str, Any] = {"content": "done" if messages[-1]["role"] == "tool" else "hello"}
                if messages[-1]["role"] == "user" and "tell" in str(messages[-1]["content"]):
                    call = {"name": "send_message", "arguments": json.dumps({"to": "webhook/home", "text": TEXT})}
                    delta = {"tool_calls": [{"index": 0, "id": "call_0", "type": "function", "function": call}]}
                end = "tool_calls" if "tool_calls" in delta else "stop"
                events: list[dict[str, Any]] = [{"delta": delta, "finish_reason": None}, {"delta": {}, "finish_reason": end}]
                lines = [f"data: {json.dumps({'choices': [{'index': 0, **one}]})}\n\n" for one in events]
                self.reply("".join([*lines, "data: [DONE]\n\n"]).encode(), "text/event-stream")
                if end == "tool_calls":
                    post.called.set()

            def do_GET(self) -> None:  # noqa: N802 - as http.server has it
                self.reply({"data": [{"id": "toy"}]})

        return Model

    def receiver(self) -> type[BaseHTTPRequestHandler]:
        post = self

        class Receiver(Answers):
            def do_POST(self) -> None:  # noqa: N802 - as http.server has it
                message = self.body()
                meets = post.meets() if TEXT in message["text"] else ""
                if meets != "refuse":
                    post.came.append(message)
                if meets:  # no response: the gateway that waits for it is killed
                    post.reached.set()
                    self.close_connection = True
                    time.sleep(0.5)
                    return
                self.reply({"id": message["edits"] or message["key"]})

        return Receiver


@pytest.fixture
def post() -> Post:
    return Post()


@pytest.fixture
def gateway(post: Post, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    with serving(post.model()) as model, serving(post.receiver()) as receiver, socket.create_server(("127.0.0.1", 0)) as probe:
        port = int(probe.getsockname()[1])
        probe.close()
        settings = {"url": f"http://127.0.0.1:{receiver}/", "port": str(port)}
        config = {
            "model": {"provider": "chat", "base_url": f"http://127.0.0.1:{model}/v1", "name": "toy"},
            "plugins": {"enabled": ["webhook"]},
            "platforms": {"webhook": {"roles": {"owner": ["ann"]}, "settings": settings}},
        }
        (tmp_path / "config.yaml").write_text(json.dumps(config))  # which is YAML too
        for name, place in {"TOOLCRIB_CONFIG": "config.yaml", "TOOLCRIB_STATE": "state"}.items():
            monkeypatch.setenv(name, str(tmp_path / place))
        monkeypatch.setenv("WEBHOOK_SECRET", SECRET)
        made = Gateway(tmp_path, port)
        made.start()
        try:
            yield made
        finally:
            made.kill()
            made.log.close()


def says(gateway: Gateway, chat: str, text: str) -> None:
    body = json.dumps({"chat": chat, "user": "ann", "message_id": f"{chat}:{text}", "text": text}).encode()
    url = f"http://127.0.0.1:{gateway.port}/v1/messages"
    answer = httpx.post(url, content=body, headers={HEADER: signature(SECRET, body)}, timeout=_LIMIT, verify=NO_TLS)
    assert answer.json()["state"] == "kept"


def until(holds: Callable[[], object]) -> None:
    give_up = time.monotonic() + _LIMIT
    while not holds():
        assert time.monotonic() < give_up
        time.sleep(0.01)


@pytest.mark.parametrize("meets", ["refuse", "show"])
def test_a_message_that_was_kept_comes_once(gateway: Gateway, post: Post, meets: str) -> None:
    """003-32. At the kill the message is not shown; or it is shown, and the gateway does not know it yet."""
    for chat in ("home", "desk"):
        says(gateway, chat, "hello")
        until(lambda chat=chat: post.in_chat(chat, "hello"))  # type: ignore[misc]  # bound
    post.meets = lambda: meets
    says(gateway, "desk", "tell")
    assert post.reached.wait(_LIMIT)
    gateway.kill()
    assert len(post.in_chat("home", TEXT)) == (meets == "show")
    post.meets = str
    gateway.start()
    until(lambda: post.in_chat("home", TEXT) and post.in_chat("desk", "done"))
    gateway.end()
    assert len(post.in_chat("home", TEXT)) == 1
    assert len(post.in_chat("desk", "done")) == 1


@pytest.mark.parametrize("seed", range(3))
def test_at_whatever_moment_it_comes_once_or_the_model_is_not_told_that_it_did(gateway: Gateway, post: Post, seed: int) -> None:
    for chat in ("home", "desk"):
        says(gateway, chat, "hello")
        until(lambda chat=chat: post.in_chat(chat, "hello"))  # type: ignore[misc]  # bound
    says(gateway, "desk", "tell")
    assert post.called.wait(_LIMIT)
    time.sleep(random.Random(seed).uniform(0, 0.08))  # noqa: S311 - dice of a test
    gateway.kill()
    gateway.start()
    until(lambda: post.in_chat("desk", "done"))
    gateway.end()
    told = next(str(one["content"]) for one in post.heard if one["role"] == "tool")
    assert len(post.in_chat("home", TEXT)) == 1 or '"status"' not in told
    assert len(post.in_chat("home", TEXT)) <= 1
    assert len(post.in_chat("desk", "done")) == 1
