"""Contents of a context: an estimate of its parts, the server's own count, and what the model reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.api import Crib, assemble
from agent.config import load_config
from agent.context.window import ContextUse, measure, tokens_of, tokens_of_record, used_now, window_of, window_refused
from agent.conversation.session import Session
from agent.model_choice.models import ModelChoice
from toolcrib import ContextTooLong
from toolcrib.testing import ChatServer


async def opened(crib: Crib, server: ChatServer) -> Session:
    session = await crib.open()
    await session.connect(ModelChoice("m", server.base_url))
    return session


def parts(used: ContextUse) -> dict[str, tuple[int, int]]:
    return {part.name: (part.tokens, part.count) for part in used.parts}


def test_a_token_is_four_bytes() -> None:
    assert [tokens_of(text) for text in ("", "a", "abcd", "abcde", "é" * 4, "\ud800")] == [0, 1, 1, 2, 2, 1]
    call = {"name": "look", "args": {"path": "abcd"}}
    record = {"role": "assistant", "text": "abcd", "calls": [call], "images": [{"data": ""}]}
    assert tokens_of_record(record) == 1 + tokens_of("look" + json.dumps(call["args"])) + 1000


async def test_all_parts_of_a_request_are_told(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Run the tests with make." * 20)
    (tmp_path / "big.txt").write_text("word " * 2000)
    calls = ChatServer.calls(("read_file", {"path": "big.txt"}), ("read_file", {"path": "AGENTS.md"}))
    with ChatServer(calls, ChatServer.text("Read.")) as server:
        async with assemble(project_dir=tmp_path) as crib:
            session = await opened(crib, server)
            await session.ask("read them")
            used = await measure(session)
            await session.close()
        request = server.requests[-1]
    found = parts(used)
    assert list(found) == [
        *("system prompt", "instruction files", "tool schemas"),
        *("your messages", "replies", "calls", "tool results"),
    ]
    assert found["instruction files"] == (120, 1)
    assert found["tool schemas"][1] == len(request["tools"])
    assert found["your messages"] == (3, 1)
    assert found["tool results"][1] == found["calls"][1] == 2
    assert [one.name for one in used.largest] == ["read_file", "read_file"]
    assert used.largest[0].tokens > 500 > used.largest[1].tokens
    whole = tokens_of(json.dumps(request["messages"]) + json.dumps(request["tools"]))
    assert 0.8 * whole < used.estimated < 1.2 * whole


async def test_the_server_s_count_goes_before_the_estimate(tmp_path: Path) -> None:
    with ChatServer(ChatServer.text("Hello.")) as server:
        async with assemble(project_dir=tmp_path) as crib:
            session = await opened(crib, server)
            assert (await measure(session)).counted is None
            await session.ask("hi")
            counted = (await measure(session)).counted
            assert counted is not None
            usage = (await session.records())[-1]["usage"]
            assert counted == usage["input"] + usage["output"]
            await crib.store.sessions.append(session.id, {"role": "user", "text": "four" * 100})
            used = await used_now(session)
            assert (used.counted, used.since, used.tokens) == (counted, 100, counted + 100)
            await session.close()


@pytest.mark.parametrize(("configured", "listed", "window"), [(900, 500, 900), (None, 500, 500), (None, None, None)])
async def test_what_the_model_reads(tmp_path: Path, configured: Any, listed: Any, window: Any) -> None:
    """The configured size, else the size that its server reports; if neither is known, no size is assumed."""
    file = tmp_path / "config.yaml"
    file.write_text("" if configured is None else f"model: {{context_window: {configured}}}\n")
    rows = {"object": "list", "data": [{"id": "m", "object": "model", **({} if listed is None else {"context_length": listed})}]}
    with ChatServer(answers={"/v1/models": rows}) as server:
        async with assemble(config=load_config(file), project_dir=tmp_path) as crib:
            session = await opened(crib, server)
            found = await window_of(session, asks=True)
            used = await measure(session)
            await session.close()
    assert (found.tokens, used.window.tokens) == (window, window)
    assert used.is_full == (window is not None and used.estimated >= window)


@pytest.mark.parametrize(
    ("words", "window"),
    [
        ("This model's maximum context length is 16,385 tokens. However, your messages resulted in 19000 tokens.", 16_385),
        ("This model's maximum context length is 16000 tokens and your request has 20000 input tokens", 16_000),
        ("prompt is too long: 20007 tokens > 18000 maximum", 18_000),
        ("the request exceeds the available context size (8192 tokens), try increasing it", 8_192),
        ('{"error": {"n_prompt_tokens": 20000, "n_ctx": 8192}}', 8_192),
        ("The input token count (20000) exceeds the maximum number of tokens allowed (16384).", 16_384),
        ("too long", 18_000),
        ("context length is 1000000000 tokens, or context length is 12", 18_000),
    ],
)
def test_a_refusal_says_what_the_model_reads(words: str, window: int) -> None:
    """The number that the server names, if it is plausible; else a little less than the 20,000 that it refused."""
    assert window_refused(ContextTooLong("it is too long", body=words), 20_000) == window
