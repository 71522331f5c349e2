"""A full context in the chat and in a run: what fills it, and how to continue."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.window_server import WindowServer
from toolcrib.testing import ChatServer

TOO_LONG = ChatServer.body({"error": {"message": "maximum context length is 100 tokens", "code": "context_length_exceeded"}}, 400)


@pytest.fixture
def chat(run: Any) -> Any:
    def start(server: ChatServer, *lines: str) -> Any:
        typed = "".join(f"{line}\n" for line in lines).encode()
        return run("chat", "--base-url", server.base_url, "--model", "m", stdin=typed)

    return start


def said(request: Any) -> list[str]:
    return [message["content"] for message in request["messages"] if message["role"] != "system"]


def test_a_refusal_for_length_is_no_dead_end(chat: Any, run: Any) -> None:
    """The message says how to continue, and /fork works: it keeps the last messages, without the refused one."""
    answers = [ChatServer.text(f"answer {n}") for n in range(3)]
    with ChatServer(*answers, TOO_LONG, ChatServer.text("fits")) as server:
        done = chat(server, "one", "two", "three", "four", "/fork 2", "four again")
    assert "reports that the conversation is too long for the model" in done.err
    assert "ContextTooLong" not in done.err, "a class name helps no user"
    assert "/compress" not in done.err, "toolcrib compresses what it can before it reports this"
    assert done.err.count("/fork [N]") == 1
    for way in ("/fork [N]", "/new", "/export", "/model"):
        assert way in done.err
    assert re.search(
        r"a new session, [0-9a-f]{12}, with your last 2 messages; to return to the old one: /resume [0-9a-f]{12}\n",
        done.err,
    )
    assert "did not fit" not in done.err
    assert "unanswered, so left out; send it again: four\n" in done.err
    assert said(server.requests[-1]) == ["two", "answer 1", "three", "answer 2", "four again"]
    listed = run("sessions").out
    assert " (fork of " in listed
    assert len(listed.splitlines()) == 3


def test_a_context_that_the_server_s_count_fills_is_told_at_once(chat: Any, config: Any) -> None:
    config("model: {context_window: 5000}\n")
    message = {"role": "assistant", "content": "hello"}
    usage = {"prompt_tokens": 5000, "completion_tokens": 5, "total_tokens": 5005}
    with ChatServer(ChatServer.body({"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage})) as server:
        done = chat(server, "hi")
    assert "the context is full: 5,005 of 5,000 tokens. The session continues if you free space:\n  /compress " in done.err


def test_a_message_that_fills_it_is_told_before_it_is_sent(chat: Any, config: Any) -> None:
    """Some servers silently cut a text that is too long. The warning comes once per run, also if the server refuses."""
    config("model: {context_window: 3000}\n")
    with ChatServer(ChatServer.text("hello"), TOO_LONG) as server:
        done = chat(server, "hi", "word " * 3000)
    assert done.err.count("the context is full: about 3,7") == 1
    assert done.err.count("The session continues if you free space:") == 1
    assert done.err.index("the context is full") < done.err.index("reports that the conversation is too long")


def test_a_context_with_room_is_not_spoken_of(chat: Any, config: Any) -> None:
    config("model: {context_window: 100000}\n")
    with ChatServer(ChatServer.text("hello")) as server:
        assert "context" not in chat(server, "hi").err


def test_a_run_names_the_fix(run: Any) -> None:
    with ChatServer(TOO_LONG) as server:
        done = run("run", "go", "--base-url", server.base_url, "--model", "m", "--no-stdin")
    assert done.code == 1
    assert "reports that the conversation is too long for the model" in done.err
    assert "`toolcrib sessions fork ID` starts a session with the end of another" in done.err


def test_sessions_fork(run: Any, chat: Any) -> None:
    with ChatServer(*[ChatServer.text(f"answer {n}") for n in range(4)]) as server:
        chat(server, "one", "two")
        parent = json.loads(run("sessions", "--json").out)[0]["id"]
        made = run("sessions", "fork", parent[:8], "--messages", "1")
        assert made.code == 0
        assert f"2 of 4 records; to continue: toolcrib chat --resume {made.out[:12]}\n" in made.err
        run("run", "three", "--resume", made.out.strip(), "--no-stdin")
        assert said(server.requests[-1]) == ["two", "answer 1", "three"]
        told = json.loads(run("sessions", "fork", parent, "--json").out)
    assert (told["parent"], told["messages"]) == (parent, 2)
    assert f"session {made.out.strip()} (fork of {parent[:12]})" in run("sessions", "show", made.out.strip()).out
    assert run("sessions", "fork").code == 2


def test_trace_of_a_fork_says_where_its_calls_ran(run: Any, chat: Any) -> None:
    calls = [ChatServer.calls(("terminal", {"command": "echo hi"})), ChatServer.text("done")]
    with ChatServer(*calls, *calls) as server:
        chat(server, "one")
        parent = json.loads(run("sessions", "--json").out)[0]["id"]
        made = run("sessions", "fork", parent).out.strip()
        again = run("sessions", "fork", made).out.strip()
        run("run", "two", "--resume", again, "--no-stdin")
    for session in (made, again):
        told = run("trace", session).out
        assert "never ran" not in told
        assert f"\n    ran in {parent[:12]}: succeeded\n" in told
    assert told.count("\n    succeeded, ") == 1, "its own call"


@pytest.mark.parametrize("line", ["/fork 0", "/fork some", "/fork -1"])
def test_a_wrong_number_is_told(chat: Any, line: str) -> None:
    with ChatServer(ChatServer.text("hello")) as server:
        assert "✗ use /fork, or /fork N" in chat(server, "hi", line).err


def test_context_says_what_fills_it(chat: Any, tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Be brief.")
    rows = {"object": "list", "data": [{"id": "m", "object": "model", "context_length": 100_000}]}
    calls = ChatServer.calls(("read_file", {"path": "AGENTS.md"}))
    with ChatServer(calls, ChatServer.text("hello"), answers={"/v1/models": rows}) as server:
        done = chat(server, "/context", "hi", "/context")
    before, after = done.out.split("hello\n")
    assert before.startswith("estimated, at 4 bytes a token:\n  system prompt ")
    assert "the server's last count: none yet\nwindow: 100,000 (reported by its server)\nused: " in before
    assert "  instruction files " in after
    assert ": AGENTS.md\n" in after
    assert "the server's last count: 1" in after
    assert "largest results:\n  read_file " in after
    assert all(len(line) < 72 for line in done.out.splitlines())


def test_context_without_a_model(run: Any) -> None:
    done = run("chat", "--provider", "manual", stdin=b"/context\n")
    assert "no model is connected: nothing is sent\n" in done.out


# -- compression -------------------------------------------------------------------------------------------------------

WINDOW = 16_000
SETTINGS = f"model: {{context_window: {WINDOW}}}\ntoolsets: {{enabled: [file, session_search]}}\n"
LINE = r"context compressed, [\d,]+ → about [\d,]+ tokens; the whole conversation is kept and can be searched\n"


def reader(times: int) -> Any:
    """A model that reads the file that many times for each message, and then answers."""

    def answer(sent: Any) -> Any:
        again = len(calls) % (times + 1) < times  # with another limit each time: the same call would end the run
        return [("read_file", {"path": "big.txt", "limit": 900 + len(calls) % 7})] if again else "I have read it."

    def counted(sent: Any) -> Any:
        said = answer(sent)
        calls.append(said)
        return said

    calls: list[Any] = []
    return counted


@pytest.fixture
def big(tmp_path: Path, config: Any) -> None:
    config(SETTINGS)
    (tmp_path / "big.txt").write_text("".join(f"line {number} of a long file\n" for number in range(300)))


@pytest.mark.usefixtures("big")
def test_a_run_says_in_one_line_that_it_compressed(run: Any) -> None:
    with WindowServer(WINDOW, reader(9)) as server:
        done = run("run", "read it", "--base-url", server.base_url, "--model", "m", "--no-stdin")
    assert (done.code, done.out) == (0, "I have read it.\n")
    assert len(re.findall(LINE, done.err)) == len(server.summaries) > 0
    assert server.refused == 0


@pytest.mark.usefixtures("big")
def test_a_run_s_json_has_it_as_an_event(run: Any) -> None:
    with WindowServer(WINDOW, reader(9)) as server:
        done = run("run", "read it", "--base-url", server.base_url, "--model", "m", "--no-stdin", "--json")
    events = [json.loads(line) for line in done.out.splitlines()]
    compressed = next(place for place, event in enumerate(events) if event["type"] == "context_compressed")
    assert events[compressed]["why"] == "threshold"
    assert 0 < events[compressed]["after"] < events[compressed]["before"]
    assert events[compressed + 1]["type"] == "turn_started"
    assert len([event for event in events if event["type"] == "context_compressed"]) == len(server.summaries)


@pytest.mark.usefixtures("big")
def test_compress_does_it_at_once(run: Any, chat: Any, tmp_path: Path) -> None:
    with WindowServer(WINDOW, reader(1), lambda text: "They read big.txt.") as server:
        done = chat(server, "read it", "and again", "once more", "/compress", "/context", "/show all", "go on", "/export it.md")
        asked, reply = server.sizes, server.requests[-1]["messages"]
        listed = json.loads(run("usage", "--json").out)
    assert len(re.findall(LINE, done.err)) == len(server.summaries) == 1
    assert re.search(r"^  summary +\d", done.out, re.MULTILINE)
    assert "; the model's summary:\n  They read big.txt.\n" in done.out
    assert "They read big.txt." in reply[1]["content"]
    assert reply[1]["content"].startswith("read it\n\n[To save room")
    exported = (tmp_path / "it.md").read_text()
    assert "; the model's summary\n\nThey read big.txt." in exported
    assert exported.count("line 299 of a long file") == len(asked) // 2
    assert listed[0]["turns"] == len(asked) + 1
    assert listed[0]["input"] > sum(asked)


def test_compress_says_why_not(chat: Any, run: Any) -> None:
    with ChatServer(ChatServer.text("hello")) as server:
        done = chat(server, "/compress", "hi", "/compress the names", "/compress")
    assert done.err.count("✗ there is nothing to compress yet\n") == 3
    assert "no model is connected" in run("chat", "--provider", "manual", stdin=b"/compress\n").err


@pytest.mark.usefixtures("big")
def test_compress_keeps_what_the_person_wishes(run: Any, chat: Any) -> None:
    """Only the model that writes the summary reads the request: it is not in the session."""
    wish = "the harbour codes; 'write OK'"
    with WindowServer(WINDOW, reader(1), lambda text: "They read big.txt.") as server:
        done = chat(server, "read it", "and again", f"/compress {wish}", "go on", "/show all")
    assert len(re.findall(LINE, done.err)) == len(server.summaries) == 1
    mark = re.search(r"-----CONVERSATION (\w+)-----", server.summaries[0])
    assert mark is not None
    assert f"-----WISH {mark[1]}-----\n{wish}\n-----END OF WISH {mark[1]}-----" in server.summaries[0]
    assert not any(wish in json.dumps(sent, ensure_ascii=False) for sent in server.requests)
    assert wish not in done.out
    assert wish not in run("sessions", "search", "harbour").out


@pytest.mark.usefixtures("big")
def test_that_it_will_be_compressed_is_told_before(chat: Any) -> None:
    with WindowServer(WINDOW, lambda sent: "Noted.") as server:
        done = chat(server, "hi", "word " * (WINDOW // 2), "and?", "and now?")
    told = re.findall(r"the context is (\d+) % full; from 80 % on its middle is summarised. /compress TEXT does it now", done.err)
    assert len(told) == 1
    assert 68 <= int(told[0]) < 80


def test_what_a_refusal_taught_stands_in_context(chat: Any, tmp_path: Path, config: Any) -> None:
    config("toolsets: {enabled: [file, session_search]}\n")
    (tmp_path / "big.txt").write_text("".join(f"line {number} of a long file\n" for number in range(300)))
    with WindowServer(WINDOW, reader(8), lambda text: "They read big.txt.") as server:
        done = chat(server, "read it", "/context")
        assert server.refused
    assert f"window: {WINDOW:,} (learned from a refusal of its server)" in done.out


@pytest.mark.usefixtures("big")
def test_a_failed_compression_is_told_and_the_run_goes_on(run: Any) -> None:
    with WindowServer(WINDOW, reader(6), lambda text: "") as server:
        done = run("run", "read it", "--base-url", server.base_url, "--model", "m", "--no-stdin")
    assert "was not compressed: the model's summary is empty; use /fork or /new\n" in done.err
    assert server.summaries
