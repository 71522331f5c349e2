"""What fails reaches the operator's log, and people only in words that tell nothing of the house."""

from __future__ import annotations

import pytest

from agent.conversation.session import Session
from agent.events import CompressionFailed
from agent.gateway.failures import logged, told
from agent.gateway.logs import chat_id, gateway_log
from tests.agent.gateway.conftest import House, line_of
from toolcrib import (
    AuthFailed,
    BadRequest,
    ConfigError,
    ConnectionFailed,
    ContextTooLong,
    Overloaded,
    ProviderTurn,
    RateLimited,
    StoreFailed,
    ToolcribError,
)
from toolcrib._session import OnEvent
from toolcrib.chat import Chat
from toolcrib.testing import ScriptedSession

ADDRESS = "http://10.1.2.3:8000"
GROUP = Chat("room", is_group=True)


class Silent(ScriptedSession):
    """A model whose server lets nobody in."""

    async def stream_turn(self, on_event: OnEvent) -> ProviderTurn:
        raise AuthFailed(f"{ADDRESS} refused the key sk-hunter2", status=401)


@pytest.fixture
def silent(house: House, monkeypatch: pytest.MonkeyPatch) -> House:
    def prepare(session: Session) -> None:
        session.link.use(Silent())

    monkeypatch.setattr(house, "prepare", prepare)
    monkeypatch.setenv("MODEL_API_KEY", "sk-hunter2")
    return house


@pytest.mark.parametrize("level", [None, 30])
async def test_a_model_s_failure_is_a_warning_with_its_words(
    silent: House, level: int | None, capsys: pytest.CaptureFixture[str]
) -> None:
    with gateway_log("text", str, level):
        async with silent.gateway() as gateway:
            line_of(gateway)
            await silent.platform.says("my words", user="bob", chat=Chat("bobs"))
            await silent.until(lambda: silent.platform.texts(Chat("bobs")))
    [line] = [one for one in capsys.readouterr().err.splitlines() if "a run failed" in one]
    assert f" warning fake chat={chat_id('bobs')} run=" in line
    assert line.endswith(f"AuthFailed: {ADDRESS} refused the key [redacted: MODEL_API_KEY]")
    for word in ("my words", "bob", "hunter2"):
        assert word not in line


async def test_the_owner_alone_is_told_where_the_model_is(silent: House) -> None:
    async with silent.gateway() as gateway:
        line_of(gateway)
        await silent.platform.says("hello")
        await silent.platform.says("hello", user="bob", chat=Chat("bobs"))
        await silent.platform.says("hello", chat=GROUP, is_addressed=True)
        for chat in (Chat("bobs"), GROUP):
            await silent.until(lambda chat=chat: silent.platform.texts(chat))
            [text] = silent.platform.texts(chat)
            assert text == "⚠ The model can't be reached just now; the operator finds more in the log."
        await silent.until(silent.platform.texts)
        assert ADDRESS in silent.platform.texts()[0]


async def test_what_is_noted_of_a_run_tells_no_address_either(house: House) -> None:
    async with house.gateway() as gateway:
        line = line_of(gateway)
        await house.platform.says("hello")
        await house.platform.says("hello", user="bob", chat=Chat("bobs"))
        await house.until(lambda: house.platform.texts(Chat("bobs")) and house.platform.texts())
        for record in await house.store.mail.chats():
            line.replies.watch(record.session_id, CompressionFailed(f"{ADDRESS} is down"))
        await house.until(lambda: len(house.platform.texts(Chat("bobs"))) > 1 and len(house.platform.texts()) > 1)
    assert house.platform.texts()[-1].endswith(f"could not be summarised: {ADDRESS} is down_")
    assert house.platform.texts(Chat("bobs"))[-1].endswith("could not be summarised._")


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ConnectionFailed(ADDRESS), "can't be reached"),
        (BadRequest(ADDRESS), "can't be reached"),
        (RateLimited(ADDRESS), "too much to do"),
        (Overloaded(ADDRESS), "too much to do"),
        (ContextTooLong(ADDRESS), "/new"),
        (ConfigError(ADDRESS), "went wrong"),
        (StoreFailed(ADDRESS), "went wrong"),
        (ToolcribError(ADDRESS), "went wrong"),
        (ValueError(ADDRESS), "went wrong"),
    ],
)
def test_no_error_tells_others_than_the_owner_an_address(error: Exception, says: str) -> None:
    assert says in told(error, is_owner=False)
    assert ADDRESS not in told(error, is_owner=False)
    assert (ADDRESS in told(error, is_owner=True)) is isinstance(error, ToolcribError)


def test_the_log_has_no_words_that_may_be_somebody_s() -> None:
    assert logged(BadRequest("it said: my words", status=400)) == "BadRequest (400)"
    assert logged(ValueError("my words")) == "ValueError"
    assert logged(ConnectionFailed(f"{ADDRESS}\ndoes not answer")) == f"ConnectionFailed: {ADDRESS} does not answer"
    assert len(logged(ConfigError("x" * 5_000))) < 600
