"""The gateway's log: lines with ids, in two forms, without users' texts and without secrets."""

from __future__ import annotations

import json
import logging
import re

import pytest

from agent.gateway.logs import about, chat_id, gateway_log, run_id
from tests.agent.gateway.conftest import House, line_of
from toolcrib.chat import Chat

_log = logging.getLogger("agent.gateway.testing")


async def test_a_run_leaves_lines_that_can_be_joined_by_chat_and_run(house: House, capsys: pytest.CaptureFixture[str]) -> None:
    with gateway_log("json", str):
        async with house.gateway() as gateway:
            line_of(gateway)
            await house.platform.says("my words", user="bob", chat=Chat("their-chat"))
            await house.until(lambda: house.platform.texts(Chat("their-chat")) == ["re my words"])
    text = capsys.readouterr().err
    lines = [json.loads(line) for line in text.splitlines()]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", one["time"]) and one["level"] == "info" for one in lines)
    begun, ended = (next(one for one in lines if word in one["message"]) for word in ("begins", "ended"))
    [session] = await house.store.sessions.list(10)
    assert begun["run"] == ended["run"]
    assert begun["run"].startswith(session.id[:12])
    assert (begun["platform"], begun["chat"], ended["chat"]) == ("fake", chat_id("their-chat"), chat_id("their-chat"))
    assert ended["message"].endswith("done")
    for word in ("my words", "bob", "their-chat"):
        assert word not in text, word


@pytest.mark.parametrize("form", ["text", "json"])
def test_secrets_and_what_an_exception_says_are_left_out(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    with gateway_log(form, lambda text: text.replace("hunter2", "[redacted]")):
        try:
            raise ValueError("somebody's words")
        except ValueError:
            _log.exception("it failed with hunter2", extra=about("fake", "c", f"{'a' * 32}-7"))
        logging.getLogger("httpx").error("GET https://host/bot123:token/getMe")
        logging.getLogger("agent.policy.smart").info("what a command would do")
        _log.info("two\nlines")
    text = capsys.readouterr().err
    assert "[redacted]" in text
    assert "ValueError" in text
    assert f"{__name__.rpartition('.')[2]}.py:" in text
    for word in ("hunter2", "words", "token", "command"):
        assert word not in text, word
    assert "run=aaaaaaaaaaaa-7" in text if form == "text" else '"run": "aaaaaaaaaaaa-7"' in text
    if form == "json":
        assert [json.loads(line)["level"] for line in text.splitlines()] == ["error", "info"]
    else:
        assert "two lines" in text


def test_a_level_that_is_named_counts_for_all_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    with gateway_log("text", str, logging.ERROR):
        _log.warning("one")
        logging.getLogger("agent.store").error("two")
    assert capsys.readouterr().err.count("\n") == 1
    assert not any(type(handler).__name__ == "GatewayLog" for handler in logging.getLogger().handlers)


def test_ids_are_short() -> None:
    assert run_id(f"{'b' * 32}-12") == f"{'b' * 12}-12"
    assert len(chat_id("x")) == 12
