"""A session's title that a model drafts, if this is enabled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from agent.api import Agent, open_store
from agent.config import load_config
from agent.conversation.titling import title_in
from tests.agent.delegates.conftest import Reply, TaskServer, configured
from toolcrib.testing import ChatServer

MODEL = "sessions: {titles: model}\n"
ASKED = "-----CONVERSATION "
DONE = ChatServer.text("done")


def talked(
    folder: Path, scripts: Mapping[str, Sequence[Reply]], says: Sequence[str], config: str = MODEL
) -> tuple[str, TaskServer]:
    """Send these messages in one session, and close it; return its title and the server."""

    async def title(session_id: str) -> str:
        store = open_store(load_config())
        try:
            info = await store.sessions.get(session_id)
        finally:
            store.close()
        assert info is not None
        return info.title

    with TaskServer(scripts) as server:
        with Agent(model="m", base_url=server.base_url, project_dir=folder, config=configured(folder, config)) as agent:
            for text in says:
                agent.ask(text)
            session_id = agent.session.id
        return asyncio.run(title(session_id)), server


def test_it_is_drafted_once_after_the_first_answer(tmp_path: Path) -> None:
    draft = ChatServer.text('\n**"Mending the flaky login test."**\nIt is about that.\x1b')
    scripts = {"go": [ChatServer.text("I mended it."), DONE], ASKED: [draft]}
    title, server = talked(tmp_path, scripts, ["go and fix the login test", "more"])
    assert title == "Mending the flaky login test"
    (request,) = server.talks[ASKED]
    assert "PERSON: go and fix the login test" in request["messages"][1]["content"]
    assert "AGENT: I mended it." in request["messages"][1]["content"]
    assert "tools" not in request
    assert len(server.talks["go"][-1]["messages"]) == 4, "the conversation knows nothing of it"


def test_switched_off_nobody_is_asked(tmp_path: Path) -> None:
    title, server = talked(tmp_path, {"go": [DONE], ASKED: []}, ["go on"], "sessions: {}\n")
    assert (title, server.talks[ASKED]) == ("go on", [])


def test_the_conversation_does_not_wait_and_a_title_of_the_persons_stays(tmp_path: Path) -> None:
    goes_on = threading.Event()

    def late(request: Any) -> Any:
        goes_on.wait(10)
        return ChatServer.text("The model's")

    async def main() -> None:
        with TaskServer({"go": [DONE, DONE], ASKED: [late]}) as server:
            settings = configured(tmp_path, MODEL)
            async with Agent(model="m", base_url=server.base_url, project_dir=tmp_path, config=settings) as agent:
                await agent.aask("go")
                await agent.aask("more")
                while not server.talks[ASKED]:
                    await asyncio.sleep(0.02)
                await agent.session.store.sessions.label(agent.session.id, title="Mine")
                goes_on.set()
                await agent.session.close()
                info = await agent.session.info()
                assert info is not None
                assert info.title == "Mine"

    asyncio.run(main())


@pytest.mark.parametrize(
    "reply",
    [
        ChatServer.body({"error": {"message": "no"}}, 400),
        ChatServer.text("  \n"),
        ChatServer.calls(("todo", {})),
        ChatServer.text("\u200b\u202e"),
    ],
    ids=["refused", "empty", "a call", "unseen"],
)
def test_without_one_the_first_words_stay(tmp_path: Path, reply: Any) -> None:
    title, server = talked(tmp_path, {"go": [DONE], ASKED: [reply]}, ["go ahead with it"])
    assert title == "go ahead with it"
    assert len(server.talks[ASKED]) == 1


def test_a_delegates_title_is_its_task(tmp_path: Path) -> None:
    call = ChatServer.calls(("delegate_task", {"task": "count them"}))
    scripts = {"go": [call, DONE], "count": [ChatServer.text("7")], ASKED: [ChatServer.text("A title")]}
    title, server = talked(tmp_path, scripts, ["go"])
    assert title == "A title"
    assert len(server.talks[ASKED]) == 1


def test_secrets_are_taken_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKY_API_KEY", "a-secret-that-nobody-sees")
    title, _ = talked(tmp_path, {"go": [DONE], ASKED: [ChatServer.text("Use a-secret-that-nobody-sees")]}, ["go"])
    assert title.startswith("Use ")
    assert "secret-that" not in title


def test_the_model_of_compression_is_asked(tmp_path: Path) -> None:
    with TaskServer({ASKED: [ChatServer.text("Elsewhere")]}) as other:
        config = f"{MODEL}compression: {{model: small, base_url: {other.base_url}}}\n"
        assert talked(tmp_path, {"go": [DONE]}, ["go"], config)[0] == "Elsewhere"
        assert other.requests[0]["model"] == "small"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Title: A plan", "A plan"),
        ("# A plan.", "A plan"),
        ("\u201cA  plan\u201d", "A plan"),
        ("\n\n- \n", "-"),
        ("x" * 100, "x" * 79 + "\u2026"),
        ("***", ""),
    ],
)
def test_a_title_is_one_line(text: str, expected: str) -> None:
    assert title_in(text) == expected
