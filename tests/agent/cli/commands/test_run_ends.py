"""Exit codes and warnings of `toolcrib run` for every end of a reply, on every wire."""

from __future__ import annotations

from typing import Any

import pytest

from agent.reply_ends import NOTES
from tests.agent.test_reply_ends import ENDS, WORDS
from tests.agent.test_unsound_ends import GOOD, WIRES
from toolcrib.testing import ChatServer

CODES = {"whole": 0, "cut": 5, "repeated": 5, "filtered": 0, "broken": 0, "unknown": 0}
"""A broken reply is asked for again."""


def run_task(run: Any, server: ChatServer, wire: str, *options: str) -> Any:
    return run("run", "go", "--base-url", server.base_url, "--model", "m", "--provider", wire, *options)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("kind", CODES)
def test_an_end_has_its_exit_code_and_its_warning(run: Any, wire: str, kind: str) -> None:
    cut = WIRES[wire](WORDS[wire][kind][0], [], "So far", whole=False)
    with ChatServer(cut, WIRES[wire](GOOD[wire], [], "Well.", whole=False)) as server:
        done = run_task(run, server, wire)
    assert (done.code, done.out.strip()) == (CODES[kind], "Well." if kind == "broken" else "So far")
    if kind not in ("whole", "broken"):
        assert NOTES[ENDS[kind].finish] in " ".join(done.err.split())


def test_an_answer_that_reached_the_limit_of_tokens_exits_5(run: Any) -> None:
    with ChatServer(ChatServer.text("All of it.")) as server:
        done = run_task(run, server, "chat", "--max-tokens", "1")
    assert (done.code, done.out) == (5, "All of it.\n")
    assert "--max-tokens was reached" in done.err
