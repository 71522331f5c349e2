"""The webhook platform over real HTTP: signed requests in, signed requests out."""

from __future__ import annotations

import base64
import json
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.webhook.forms import Malformed, inbound_of, press_of
from plugins.webhook.platform import BODY_BYTES, WebhookPlatform
from plugins.webhook.signing import HEADER, problem_of, signature
from tests.infra.served import NO_TLS
from toolcrib import ConfigError, StoreFailed
from toolcrib._testing_server import _QuietServer
from toolcrib.chat import Attachment, Chat, NotSent, Outbound, OutFile
from toolcrib.testing import FakeHost

SECRET = "a secret between us"
MESSAGE = {"chat": "c", "user": "ann", "message_id": "1", "text": "hello"}


class Receiver:
    """The other side: stores received messages. ``answers`` are its first answers."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.problems: list[str] = []
        self.headers: list[str] = []
        """The `idempotency-key` of each request."""
        self.answers: list[tuple[int, dict[str, str]]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.headers.append(self.headers["idempotency-key"])
                receiver.problems.append(problem_of(SECRET, body, self.headers[HEADER]))
                status, headers = receiver.answers.pop(0) if receiver.answers else (200, {})
                if status == 200:
                    receiver.got.append(json.loads(body))
                if status == 0:  # the connection ends before the acknowledgement
                    receiver.got.append(json.loads(body))
                    self.close_connection = True
                    return
                answer = json.dumps({"id": f"m{len(receiver.got)}"}).encode()
                self.send_response(status)
                for name, value in {**headers, "content-length": str(len(answer))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *args: object) -> None:
                return

        self.server = _QuietServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


@asynccontextmanager
async def running(receiver: Receiver, host: FakeHost | None = None) -> AsyncIterator[tuple[WebhookPlatform, FakeHost]]:
    host = host or FakeHost(settings={"url": receiver.url, "port": "0"}, secrets={"WEBHOOK_SECRET": SECRET})
    platform = WebhookPlatform("webhook", host)
    await platform.connect()
    await platform.start()
    try:
        yield platform, host
    finally:
        await platform.stop()


async def posted(platform: WebhookPlatform, path: str, data: Any, sign: str = SECRET, **more: Any) -> httpx.Response:
    body = data if isinstance(data, bytes) else json.dumps(data).encode()
    headers = {HEADER: more.pop("header", signature(sign, body, more.pop("at", None)))}
    async with httpx.AsyncClient(verify=NO_TLS) as client:
        return await client.post(f"http://127.0.0.1:{platform.port}{path}", content=body, headers=headers)


async def test_a_signed_message_arrives(receiver: Receiver) -> None:
    async with running(receiver) as (platform, host):
        data = {**MESSAGE, "thread": "t", "name": "Ann", "is_group": True, "is_addressed": True, "roles": ["staff"]}
        data["attachments"] = [{"name": "a.txt", "media_type": "text/plain", "data": base64.b64encode(b"abc").decode()}]
        answer = await posted(platform, "/v1/messages", data)
        assert (answer.status_code, answer.json()) == (200, {"state": "kept"})
        assert (await posted(platform, "/v1/messages", data)).json() == {"state": "known"}
        [message] = host.received
        assert message.chat == Chat("c", "t", is_group=True)
        assert (message.user, message.text, message.roles, message.is_addressed) == ("ann", "hello", ["staff"], True)
        [file] = message.attachments
        assert (file.name, file.size) == ("a.txt", 3)
        assert b"".join([piece async for piece in platform.fetch(file)]) == b"abc"


@pytest.mark.parametrize(
    ("more", "status", "says"),
    [
        ({"sign": "guessed"}, 401, "does not match this body"),
        ({"at": 1_000}, 401, "older than"),
        ({"at": 99_999_999_999}, 401, "clocks differ"),
        ({"header": ""}, 401, "missing"),
        ({"header": "t=now,v1=ff"}, 401, "form"),
        ({"header": b"t=1,v1=\xc3\xa9"}, 401, ""),
        ({"data": b"\xff\xfe"}, 400, "byte 1 of the body is not UTF-8"),
        ({"data": b"[" * 100_000}, 400, "the body is nested too deeply"),
        ({"data": b'{"chat": ' + b"9" * 5_000 + b"}"}, 400, "the body has a number with too many digits"),
        ({"data": b'{"chat":\n me}'}, 400, "the body is not JSON: line 2, column 2"),
        ({"data": []}, 400, "expected a JSON object"),
        ({"data": {**MESSAGE, "user": 3}}, 400, "user: expected a text"),
        ({"data": {**MESSAGE, "user": ""}}, 400, "user: expected a text that is not empty"),
        ({"data": {**MESSAGE, "chat": "x" * 501}}, 400, "chat: longer than 500"),
        ({"data": {**MESSAGE, "is_group": "yes"}}, 400, "is_group: expected true or false"),
        ({"data": {**MESSAGE, "isgroup": True}}, 400, "isgroup: unknown field; did you mean is_group?"),
        ({"data": {**MESSAGE, "x" * 1_000: 1}}, 400, "x: unknown field"),
        ({"data": {**MESSAGE, "attachments": [{"data": "", "mime": "text/plain"}]}}, 400, "mime: unknown field"),
        ({"data": {**MESSAGE, "attachments": [{"data": "%%"}]}}, 400, "base64"),
        ({"data": {**MESSAGE, "attachments": [{}] * 11}}, 400, "at most 10"),
        ({"data": b" " * (BODY_BYTES + 1)}, 413, "MiB"),
    ],
)
async def test_whatever_else_comes_is_refused(receiver: Receiver, more: dict[str, Any], status: int, says: str) -> None:
    async with running(receiver) as (platform, host):
        answer = await posted(platform, "/v1/messages", more.pop("data", MESSAGE), **more)
        assert answer.status_code == status
        assert says in answer.json()["error"]
        assert host.received == []


async def test_a_port_that_another_has_is_told_with_its_setting_and_what_to_do(receiver: Receiver) -> None:
    async with running(receiver) as (platform, _):
        settings = {"url": receiver.url, "port": str(platform.port)}
        with pytest.raises(
            OSError, match=r"settings.port: 127.0.0.1:\d+ is not available for listening \(Address already in use\); another"
        ):
            async with running(receiver, FakeHost(settings=settings, secrets={"WEBHOOK_SECRET": SECRET})):
                pass


async def test_without_the_extra_that_is_what_it_says(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "starlette", None)
    with pytest.raises(ConfigError, match=r"needs the extra: pip install 'toolcrib\[gateway\]'"):
        async with running(receiver):
            pass


async def test_presses_arrive_and_their_line_goes_back(receiver: Receiver) -> None:
    async with running(receiver) as (platform, host):
        host.answer_to_press = "settled"
        press = {"chat": "c", "user": "ann", "message_id": "m1", "choice": "y", "press_id": "p1"}
        assert (await posted(platform, "/v1/presses", press)).json() == {"notice": "settled"}
        assert [(one.user, one.choice, one.press_id) for one in host.presses] == [("ann", "y", "p1")]
        assert (await posted(platform, "/v1/presses", {**press, "choice": "y" * 65})).status_code == 400
        answer = await posted(platform, "/v1/presses", {**press, "button": "y"})
        assert (answer.status_code, answer.json()["error"]) == (400, "button: unknown field")


async def test_a_full_store_is_told_as_such(receiver: Receiver) -> None:
    async with running(receiver) as (platform, host):
        host.failing = StoreFailed("the disk is full")
        answer = await posted(platform, "/v1/messages", MESSAGE)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")


async def test_what_is_shown_is_signed_and_named(receiver: Receiver, tmp_path: Path) -> None:
    async with running(receiver) as (platform, _):
        (tmp_path / "f").write_bytes(b"data")
        out = Outbound(Chat("c", "t"), "**hi**", "k1", files=[OutFile(tmp_path / "f", "f.bin")])
        assert await platform.send(out) == "m1"
        assert await platform.send(Outbound(Chat("c"), "more", "k2", edits="m1")) == "m1"
        assert receiver.problems == ["", ""]
        assert receiver.got[0]["files"] == [
            {"name": "f.bin", "media_type": "application/octet-stream", "data": base64.b64encode(b"data").decode()}
        ]
        assert [(one["chat"], one["key"], one["edits"]) for one in receiver.got] == [("c", "k1", ""), ("c", "k2", "m1")]


async def test_the_header_is_the_same_for_the_same_content_only(receiver: Receiver) -> None:
    begun, whole = Outbound(Chat("c"), "one", "k \u00e9"), Outbound(Chat("c"), "one two", "k \u00e9", edits="m1")
    async with running(receiver) as (platform, _):
        for out in (begun, begun, whole, whole, Outbound(Chat("c"), "one two", "k \u00e9", is_again=True)):
            await platform.send(out)
    first, again, end, end_again, other = receiver.headers
    assert (first, end) == (again, end_again)
    assert len({first, end, other}) == 3
    assert all(one.startswith("k %C3%A9.") for one in receiver.headers)
    assert len({one["key"] for one in receiver.got}) == 1


@pytest.mark.parametrize(
    ("answer", "for_good", "perhaps", "retry"),
    [
        ((500, {}), False, False, None),
        ((429, {"retry-after": "7"}), False, False, 7.0),
        ((404, {}), True, False, None),
        ((0, {}), False, True, None),
    ],
)
async def test_a_receiver_that_fails(
    receiver: Receiver, answer: tuple[int, dict[str, str]], *, for_good: bool, perhaps: bool, retry: float | None
) -> None:
    async with running(receiver) as (platform, _):
        receiver.answers = [answer]
        with pytest.raises(NotSent) as caught:
            await platform.send(Outbound(Chat("c"), "hi", "k"))
        assert (caught.value.for_good, caught.value.perhaps_sent, caught.value.retry_after) == (for_good, perhaps, retry)


async def test_a_receiver_that_is_gone(receiver: Receiver) -> None:
    async with running(receiver) as (platform, _):
        platform._url = "http://127.0.0.1:9/"
        with pytest.raises(NotSent) as caught:
            await platform.send(Outbound(Chat("c"), "hi", "k"))
        assert not caught.value.perhaps_sent


async def test_what_is_missing_is_named(receiver: Receiver) -> None:
    for settings, secrets, says in (
        ({}, {"WEBHOOK_SECRET": SECRET}, "settings.url"),
        ({"url": "http://x/"}, {}, "WEBHOOK_SECRET"),
        ({"url": "http://x/"}, {"WEBHOOK_SECRET": "x"}, "WEBHOOK_SECRET is shorter than 16"),
        ({"url": "http://x/", "port": "many"}, {}, "settings.port: expected a whole number up to 65535, got 'many'"),
        ({"url": "http://x/", "port": "99999"}, {}, "settings.port: expected a whole number up to 65535"),
        ({"url": "http://x/", "prt": "8790"}, {}, "settings.prt: unknown setting; did you mean port?"),
        ({"url": "http://x/", "colour": "red"}, {}, "settings.colour: unknown setting; known: url, host, port"),
        ({"url": "http://x/", "edit_seconds": "soon"}, {}, "settings.edit_seconds"),
        ({"url": "http://x/", "edit_seconds": "nan"}, {}, "settings.edit_seconds"),
    ):
        with pytest.raises(ConfigError, match=says):
            await WebhookPlatform("webhook", FakeHost(settings=settings, secrets=secrets)).connect()
    async with running(receiver) as (platform, _):
        taken = FakeHost(settings={"url": receiver.url, "port": str(platform.port)}, secrets={"WEBHOOK_SECRET": SECRET})
        other = WebhookPlatform("webhook", taken)
        await other.connect()
        with pytest.raises(OSError, match="in use"):
            await other.start()
        await other.stop()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*MESSAGE, "roles", "attachments"]), inner),
)


@given(JSON)
def test_any_json_is_a_message_or_malformed(data: Any) -> None:
    for read in (inbound_of, press_of):
        try:
            read(data)
        except Malformed:
            continue


async def test_fetching_what_is_kept_in_a_store(receiver: Receiver) -> None:
    platform = WebhookPlatform("webhook", FakeHost())
    pieces = [piece async for piece in platform.fetch(Attachment("a", ref={"data": base64.b64encode(b"x").decode()}))]
    assert pieces == [b"x"]


def test_an_empty_file_is_a_file_and_one_without_data_is_none() -> None:
    [empty] = inbound_of({**MESSAGE, "attachments": [{"name": "empty.txt", "data": ""}]}).attachments
    assert (empty.name, empty.size) == ("empty.txt", 0)
    with pytest.raises(Malformed, match="data: expected a text"):
        inbound_of({**MESSAGE, "attachments": [{"name": "none.txt"}]})
