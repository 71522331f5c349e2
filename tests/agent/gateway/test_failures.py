"""Failures reach the operator's log; users get messages that reveal no internals."""

from __future__ import annotations

import logging

import pytest

from agent.conversation.session import Session
from agent.events import CompressionFailed
from agent.gateway import outbox
from agent.gateway.failures import error_text, logged
from agent.gateway.logs import GatewayLog, chat_id, gateway_log
from tests.agent.gateway.conftest import House, line_of
from toolcrib import (
    AuthFailed,
    BadRequest,
    ConfigError,
    ConnectionFailed,
    ContextTooLong,
    ExecutionFailed,
    Overloaded,
    ProviderError,
    ProviderTurn,
    RateLimited,
    StoreFailed,
    ToolcribError,
)
from toolcrib.chat import Chat, NotSent
from toolcrib.contract.private import Private
from toolcrib.contract.session import OnEvent
from toolcrib.testing import ScriptedSession

ADDRESS = "http://10.1.2.3:8000"
GROUP = Chat("room", is_group=True)


class Silent(ScriptedSession):
    """A model whose server refuses the key."""

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
            assert text == "⚠ The request to the model server failed; the operator's log has details."
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
        (ConnectionFailed(ADDRESS), "request to the model server failed"),
        (BadRequest(ADDRESS), "request to the model server failed"),
        (RateLimited(ADDRESS), "overloaded"),
        (Overloaded(ADDRESS), "overloaded"),
        (ContextTooLong(ADDRESS), "/new"),
        (ConfigError(ADDRESS), "went wrong"),
        (StoreFailed(ADDRESS), "went wrong"),
        (ToolcribError(ADDRESS), "went wrong"),
        (ValueError(ADDRESS), "went wrong"),
    ],
)
def test_no_error_tells_others_than_the_owner_an_address(error: Exception, says: str) -> None:
    assert says in error_text(error, is_owner=False)
    assert ADDRESS not in error_text(error, is_owner=False)
    assert (ADDRESS in error_text(error, is_owner=True)) is isinstance(error, ToolcribError)


class Refusing(ScriptedSession):
    """A model whose server repeats the request in its error."""

    async def stream_turn(self, on_event: OnEvent) -> ProviderTurn:
        raise BadRequest("it can't read: my words", status=400)


@pytest.mark.parametrize("form", ["text", "json"])
async def test_no_line_of_any_level_has_what_was_said(
    form: str, house: House, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(house, "prepare", lambda session: session.link.use(Refusing()))
    monkeypatch.setattr(outbox, "_FIRST_PAUSE", 0.02)
    house.platform.failing = [NotSent("my words are too long for bobs", code="413"), ValueError("my words")]
    with gateway_log(form, str, logging.DEBUG):
        async with house.gateway() as gateway:
            line_of(gateway)
            await house.platform.says("my words", user="bob", chat=Chat("bobs"))
            await house.until(lambda: house.platform.texts(Chat("bobs")))
    text = capsys.readouterr().err
    assert "BadRequest (400)" in text
    assert "NotSent (413)" in text
    assert "NotSent (ValueError)" in text
    for word in ("my words", "bob"):
        assert word not in text, word


def test_arguments_of_a_line_that_others_wrote_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("agent.gateway.testing")
    with gateway_log("json", lambda text: text.replace('a"key', "[redacted]")):
        log.warning("in %s: %s", Chat("their-chat", "their-thread"), Private("my words"))
        log.warning('it is a"key')
    broken = logging.LogRecord(log.name, logging.WARNING, "", 1, "%d", ("my words",), None)
    GatewayLog("text", str, None).handle(broken)
    err = capsys.readouterr().err
    assert f"in the chat {chat_id(Chat('their-chat', 'their-thread').key)}: (left out here)" in err
    assert "[redacted]" in err
    assert err.splitlines()[-1] == "agent.gateway.testing: a line could not be logged: TypeError"
    for word in ("their", "my words", "key"):
        assert word not in err, word


def test_the_log_has_no_words_that_may_be_somebody_s() -> None:
    assert logged(BadRequest("it said: my words", status=400)) == "BadRequest (400)"
    assert logged(ValueError("my words")) == "ValueError"
    assert logged(ConnectionFailed(f"{ADDRESS}\ndoes not answer")) == f"ConnectionFailed: {ADDRESS} does not answer"
    assert len(logged(ConfigError("x" * 5_000))) < 600
    assert logged(Overloaded("my words", status=500)) == "Overloaded (500)"
    assert logged(ProviderError("the plugin's provider failed: my words")) == "ProviderError"
    assert logged(ExecutionFailed("my words")) == "ExecutionFailed (execution_failed)"
    assert logged(NotSent("my words", code="M_FORBIDDEN")) == "NotSent (M_FORBIDDEN)"
    assert logged(NotSent("my words", code="my words")) == "NotSent"
    assert logged(OSError(28, "my words")) == "OSError: No space left on device"
    assert logged(Foreign("my words")) == "Foreign"
    assert logged(_caused(Foreign("my words"), BadRequest("my words", status=400))) == "Foreign: BadRequest (400)"
    assert logged(_caused(Foreign("my words"), KeyError("my words"))) == "Foreign: KeyError"
    assert logged(_caused(StoreFailed("it can't be read: my words"), BadRequest("my words"))) == "StoreFailed: BadRequest"


def _caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


class Foreign(ToolcribError):
    """An error class of a plugin."""


async def test_a_failure_is_told_where_the_secrets_can_t_be_read_any_more(
    silent: House, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The process can't open more files: secrets that were read before are still redacted."""
    with gateway_log("text", str):
        async with silent.gateway() as gateway:
            line_of(gateway)

            def unreadable() -> None:
                raise ConfigError("secrets.env cannot be read: Too many open files")

            monkeypatch.setattr(silent.cribs[-1], "redactor", unreadable)
            await silent.platform.says("my words", user="bob", chat=Chat("bobs"))
            await silent.until(lambda: silent.platform.texts(Chat("bobs")))
    log = capsys.readouterr().err
    assert "a run failed" in log
    assert "hunter2" not in log
