"""Replies that repeat themselves for ever are stopped, on every wire; long ordinary texts are not."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.api import Agent
from agent.config import config_path
from agent.providers import Endpoint, HttpClient
from agent.providers._repetition import TextEnd
from agent.providers.factory import ModelTarget, ProviderOpening, open_session
from toolcrib import ProviderTurn, StreamBroken
from toolcrib.testing import ChatServer, Response

SENTENCE = "I am sorry, but I cannot help with that request. "
TIMES = 40_000
Json = dict[str, Any]


def sse(*events: Json) -> bytes:
    return b"".join(f"data: {json.dumps(event)}\n\n".encode() for event in events)


def chat(**delta: Any) -> Json:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def gemini(**part: Any) -> Json:
    return {"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]}


def block(kind: str, **fields: Any) -> Json:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": kind, **fields}}


def call(arguments: str, **more: Any) -> Json:
    return chat(tool_calls=[{"index": 0, "function": {"arguments": arguments}, **more}])


USE = {"type": "tool_use", "id": "c", "name": "run", "input": {}}
ITEM = {"type": "function_call", "id": "i", "call_id": "c", "name": "run", "arguments": ""}
ENDLESS: dict[str, tuple[list[Json], Json]] = {
    "chat: text": ([], chat(content=SENTENCE)),
    "chat: thinking": ([], chat(reasoning_content=SENTENCE)),
    "chat: last call": ([call('{"a": "', id="c", type="function")], call(SENTENCE)),
    "text: text": ([], chat(content=SENTENCE)),
    "text: text of a call": ([chat(content='<tool_call>{"name": "run", "args": {"a": "')], chat(content=SENTENCE)),
    "text: text of the thinking": ([chat(content="<think>")], chat(content=SENTENCE)),
    "anthropic: text": ([], block("text_delta", text=SENTENCE)),
    "anthropic: thinking": ([], block("thinking_delta", thinking=SENTENCE)),
    "anthropic: last call": (
        [{"type": "content_block_start", "index": 0, "content_block": USE}],
        block("input_json_delta", partial_json=SENTENCE),
    ),
    "responses: text": ([], {"type": "response.output_text.delta", "output_index": 0, "delta": SENTENCE}),
    "responses: thinking": ([], {"type": "response.reasoning_text.delta", "output_index": 0, "delta": SENTENCE}),
    "responses: last call": (
        [{"type": "response.output_item.added", "output_index": 0, "item": ITEM}],
        {"type": "response.function_call_arguments.delta", "item_id": "i", "output_index": 0, "delta": SENTENCE},
    ),
    "gemini: text": ([], gemini(text=SENTENCE)),
    "gemini: thinking": ([], gemini(text=SENTENCE, thought=True)),
    "gemini: last call": (
        [gemini(functionCall={"name": "run", "willContinue": True})],
        gemini(functionCall={
            "partialArgs": [{"jsonPath": "$.a", "stringValue": SENTENCE, "willContinue": True}], "willContinue": True}),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ENDLESS)
def test_an_endless_sentence_is_stopped(case: str) -> None:
    wire, _, where = case.partition(": ")

    async def go(base_url: str) -> ProviderTurn:
        endpoint = Endpoint(base_url, "m")
        session = open_session(ModelTarget(wire, endpoint), ProviderOpening(), {}, client=HttpClient(endpoint, {}))
        try:
            session.say("go")  # type: ignore[attr-defined]  # all of our sessions have it
            return await session.stream_turn(lambda event: None)
        finally:
            await session.close()

    begin, again = ENDLESS[case]
    with (
        ChatServer(Response(sse(*begin) + sse(again) * TIMES)) as server,
        pytest.raises(StreamBroken, match=f"the {where.partition(' of')[0]} of the reply repeats itself") as caught,
    ):
        asyncio.run(go(server.base_url))
    assert not caught.value.retryable
    assert len(caught.value.text) < 6_000


def test_the_next_request_has_the_beginning_and_the_end(tmp_path: Path) -> None:
    start = "This is the beginning. " * 3
    endless = Response(sse(chat(content=start)) + sse(chat(content=SENTENCE)) * TIMES)
    with (
        ChatServer(endless, ChatServer.text("Well.")) as server,
        Agent(model="m", base_url=server.base_url, project_dir=tmp_path) as agent,
    ):
        with pytest.raises(StreamBroken, match="repeats itself"):
            agent.ask("go")
        assert agent.ask("again").text == "Well."
        sent = json.dumps(server.requests[-1]["messages"])
    assert start in sent
    assert "characters left out" in sent
    assert "stopped here" in sent
    assert sent.count(SENTENCE) < 200


def test_a_reply_beyond_the_model_s_window_is_stopped(tmp_path: Path) -> None:
    said = [f"Line {number} of a text without an end. " for number in range(30_000)]
    endless = Response(sse(*(chat(content=one) for one in said)))
    config_path().parent.mkdir(parents=True, exist_ok=True)
    config_path().write_text(json.dumps({"model": {"context_window": 8_192}}))
    with (
        ChatServer(endless) as server,
        Agent(model="m", base_url=server.base_url, project_dir=tmp_path) as agent,
        pytest.raises(StreamBroken, match="exceeds the model's context window of 8,192 tokens"),
    ):
        agent.ask("go")


CHINESE = "\u5f88\u62b1\u6b49\uff0c\u6211\u65e0\u6cd5\u56de\u7b54\u8fd9\u4e2a\u95ee\u9898\u3002"


LONG_UNIT = "".join(map(str, range(3_000)))


def stopped_at(text: str, piece: int = 4) -> int:
    """Return after how many characters a text in such pieces is stopped, -1 if it is not."""
    end, parts = TextEnd(), list[str]()
    for at in range(0, len(text), 64 * piece):
        parts += [text[start : start + piece] for start in range(at, min(at + 64 * piece, len(text)), piece)]
        if end.repetition(parts) is not None:
            return at + 64 * piece
    return -1


@pytest.mark.parametrize("unit", [SENTENCE, "x", "\n", "0, ", CHINESE, SENTENCE * 3 + "However, ", LONG_UNIT])
def test_a_unit_of_any_length_is_found(unit: str) -> None:
    assert 0 < stopped_at("A beginning. " + unit * (120_000 // len(unit)), 5) <= 90_000


@pytest.mark.parametrize("start", [0, 300, 999, 5_555, 70_000])
def test_a_loop_is_found_before_it_drifts(start: int) -> None:
    """A loop may change its sentence after a while, so that its end does not repeat what is far before it."""
    text = "".join(f"Word {number} of the beginning. " for number in range(3_000))[:start]
    loop = SENTENCE * 441
    assert len(loop) == 21_609
    assert start + 20_000 < stopped_at(text + loop + "Sorry. ") <= start + len(loop)


@pytest.mark.parametrize("unit", ["{}. " + SENTENCE, "{}) " + SENTENCE, f"## Step {{}}.\n{SENTENCE}\n", "{}. " + CHINESE + "\n"])
def test_a_loop_that_counts_is_found(unit: str) -> None:
    text = "A list: \n" + "".join(unit.format(number) for number in range(1, 5_000))
    assert 0 < stopped_at(text) <= 70_000


def test_a_text_in_few_pieces_is_no_repetition() -> None:
    """The server generated the whole text before it sent it, so a stop would save nothing."""
    assert stopped_at(SENTENCE * 1_000, 500) == -1


def test_a_new_call_does_not_continue_the_one_before() -> None:
    end = TextEnd()
    for _ in range(4):
        assert end.repetition([SENTENCE] * 390) is None


# -- ordinary texts ----------------------------------------------------------------------------------------------------

_MOST = 100_000
_LEAST = 20_000


def _files(folder: Path, numbers: dict[str, int]) -> dict[str, list[Path]]:
    """Return that many large files for each suffix."""
    found: dict[str, list[Path]] = {suffix: [] for suffix in numbers}
    for path in sorted(path for path in folder.rglob("*.*") if path.suffix in numbers):
        if len(found[path.suffix]) < numbers[path.suffix] and path.is_file() and path.stat().st_size >= _LEAST:
            found[path.suffix].append(path)
    return found


def _dump(data: bytes) -> str:
    rows = (data[at : at + 16] for at in range(0, len(data), 16))
    return "\n".join(f"{at * 16:08x}: {row.hex(' ', 2)}" for at, row in enumerate(rows))


def _listing(folder: Path) -> str:
    done = subprocess.run(["ls", "-lR", str(folder)], capture_output=True, text=True, check=False)
    return done.stdout


def _import_log(*modules: str) -> str:
    done = subprocess.run(
        [sys.executable, "-v", "-c", f"import {','.join(modules)}"], capture_output=True, text=True, check=False
    )
    return done.stderr


def ordinary() -> Iterator[tuple[str, str]]:
    """Yield long texts as models write them, from files that every machine with Python has."""
    library = Path(sysconfig.get_path("stdlib"))
    files = _files(library, {".py": 80, ".so": 10, ".pyc": 25})
    sources, binaries = files[".py"], [Path(sys.executable).resolve(), *files[".so"], *files[".pyc"]]
    for path in sources:
        yield str(path), path.read_text("utf-8", "replace")
    for path in binaries:
        data = path.read_bytes()[:_MOST]
        yield f"hex dump of {path}", _dump(data)
        yield f"hex of {path}", data.hex(" ")
        yield f"base64 of {path}", base64.b64encode(data).decode()
    for path in sources[:40]:
        lines = path.read_text("utf-8", "replace").splitlines()
        rows = [{"n": n, "text": one, "note": None} for n, one in enumerate(lines)]
        yield (
            f"JSON of {path}",
            json.dumps(rows, separators=(",", ":")),
        )
        yield f"table of {path}", "\n".join(f"| {n} | {len(one)} | {'' if one else 'empty'} | |" for n, one in enumerate(lines))
    for folder in ("json", "email", "asyncio", "unittest", "encodings", "lib2to3", "test", "idlelib"):
        yield f"ls -lR {folder}", _listing(library / folder)
    for modules in (("asyncio", "email.message"), ("unittest.mock",), ("http.server", "sqlite3"), ("xml.dom.minidom",)):
        yield f"log of {modules}", _import_log(*modules)


def written() -> Iterator[tuple[str, str]]:
    """Yield long texts as models make them up: their rows differ in numbers only."""
    rows = {
        "CSV": "{n},user{n},user{n}@example.com,active\n",
        "JSON lines": '{{"id": {n}, "name": "Item {n}", "value": null}}\n',
        "JSON list": '{{"id": {n}, "name": "Item {n}", "tags": []}}, ',
        "log": "2026-01-01 10:{m:02}:{s:02} INFO request {n} was served in {s} ms by worker {m}\n",
        "counting log": "INFO request {n} was served by the worker\n",
        "table": "| {n} | a user of the page | active | 0 |\n",
        "SQL": "INSERT INTO users (id, name) VALUES ({n}, 'User {n}');\n",
        "list": "{n}. Item number {n} costs {m} euros\n",
        "short list": "{n}. yes\n",
    }
    for name, row in rows.items():
        yield name, "".join(row.format(n=n, m=n // 60 % 60, s=n % 60) for n in range(1, 4_000))


def test_two_hundred_ordinary_texts_are_not_stopped() -> None:
    """Each text is checked at many points, as it is while it arrives."""
    texts = [(name, text[:_MOST]) for name, text in (*ordinary(), *written()) if len(text) >= _LEAST]
    assert {name: at for name, text in texts if (at := stopped_at(text)) >= 0} == {}
    assert len(texts) >= 200
