"""``toolcrib chat`` with a model, with piped input; tests/e2e has the same at a terminal."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.api import assemble
from agent.cli.conversation import Conversation
from agent.cli.opening import ChatOpening
from agent.cli.refusing import refuse
from agent.cli.render import Screen
from agent.cli.slash import COMMANDS, obey
from agent.cli.words import SLASH, meant_by
from agent.conversation.limits import RunLimits
from agent.model_choice.models import ModelChoice
from toolcrib.testing import ChatServer


@pytest.fixture
def chat(run: Any) -> Callable[..., Any]:
    """``chat(server, "a line", "another", options=[...])``"""

    def start(server: ChatServer, *lines: str, options: tuple[str, ...] = ("--model", "test-model")) -> Any:
        typed = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
        return run("chat", "--base-url", server.base_url, *options, stdin=typed)

    return start


def said(request: Any) -> list[str]:
    return [message["content"] for message in request["messages"] if message["role"] != "system"]


def test_lines_are_one_conversation(chat: Any) -> None:
    """004-4, 004-5"""
    with ChatServer(
        ChatServer.text("Hello **Ada**."), ChatServer.calls(("terminal", {"command": "echo hi"})), ChatServer.text("It says hi.")
    ) as server:
        done = chat(server, "I am Ada", "", "run it")
    assert (done.code, done.out) == (0, "Hello **Ada**.\nIt says hi.\n")
    assert "💻 terminal  echo hi" in done.err
    assert said(server.requests[1]) == ["I am Ada", "Hello **Ada**.", "run it"]


def test_a_first_message_is_the_first_line(run: Any) -> None:
    with ChatServer(ChatServer.text("Hello."), ChatServer.text("Fine.")) as server:
        done = run("chat", "I am Ada", "--base-url", server.base_url, "--model", "m", stdin=b"how are you?\n")
    assert (done.code, done.out) == (0, "Hello.\nFine.\n")
    assert said(server.requests[1]) == ["I am Ada", "Hello.", "how are you?"]


LOOKS = [("terminal", {"command": f"echo again {number}"}) for number in range(50)]
LOOK = LOOKS[0]
TURNS = [ChatServer.calls(look, ids=[f"c{number}"]) for number, look in enumerate(LOOKS)]
"""Turns of a model that always calls, each time another command: the same call with the same result would end the run."""


def test_fifty_turns_are_the_default(chat: Any, config: Any) -> None:
    with ChatServer(*TURNS, ChatServer.text("Enough.")) as server:
        done = chat(server, "go")
        assert len(server.requests) == 51
    assert "to resume, type `continue`" in done.err
    config("max_turns: 2\n")
    with ChatServer(*[ChatServer.calls(LOOK)] * 2, ChatServer.text("Enough.")) as server:
        chat(server, "go")
        assert len(server.requests) == 3, "what the person set holds in the chat, too"


def test_at_the_end_of_the_turns_the_chat_asks_whether_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answers, asked = [True, True, False], []

    async def confirm(question: str) -> bool:
        asked.append(question)
        return answers.pop(0)

    async def talk(server: ChatServer) -> None:
        async with assemble(project_dir=tmp_path) as crib:
            opening = ChatOpening(crib, refuse, RunLimits(max_turns=2), confirm=confirm)
            chat = Conversation(opening, ModelChoice("test-model", server.base_url), Screen(interactive=False), obey=obey)
            await chat.open()
            await chat.say("go")
            await chat.say("and now?")
            await chat.close()

    with ChatServer(
        *TURNS[:6],
        ChatServer.text("Enough."),
        ChatServer.text("Fine."),
    ) as server:
        asyncio.run(talk(server))
        requests = server.requests
    assert asked == [f"The model has used {turns} turns. Continue for up to 2 more?" for turns in (2, 4, 6)]
    assert "maximum number of turns" in requests[6]["messages"][-1]["content"]
    assert "maximum number of turns" not in str(requests[5])
    assert requests[7]["messages"][-1]["content"] == "and now?"


def test_two_chats_may_write_one_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The chats take turns: the one that writes takes the session's lease, also to store the mode or the title."""
    monkeypatch.chdir(tmp_path)

    async def talk(server: ChatServer) -> tuple[str, str]:
        choice = ModelChoice("test-model", server.base_url)
        async with assemble(project_dir=tmp_path) as here, assemble(project_dir=tmp_path) as there:
            first, second = (
                Conversation(ChatOpening(crib, refuse, RunLimits()), choice, Screen(interactive=False), obey=obey)
                for crib in (here, there)
            )
            await first.open()
            await first.say("one")
            await second.open(resume=first.session.id)
            await second.say("two")
            await first.say("three")
            await second.say("/mode plan")
            await first.say("four")
            await second.say("/title mine")
            info = await first.session.info()
            await second.close()
            await first.close()
            assert info is not None
            return info.place["mode"], info.title

    with ChatServer(*[ChatServer.text("Fine.")] * 4) as server:
        assert asyncio.run(talk(server)) == ("plan", "mine")
    assert "LeaseLost" not in capsys.readouterr().err


def test_thinking_is_shown_where_it_is_wanted(chat: Any, config: Any) -> None:
    def answer() -> Any:
        deltas = [{"reasoning_content": "hmm,"}, {"reasoning_content": " well"}, {"content": "Yes."}]
        return ChatServer.stream(*({"choices": [{"index": 0, "delta": delta}]} for delta in deltas))

    for wanted in ("false", "true"):
        config(f"display: {{thinking: {wanted}}}\n")
        with ChatServer(answer()) as server:
            done = chat(server, "is it so?")
        assert done.out == "Yes.\n"
        assert ("hmm, well" in done.err) == (wanted == "true")


def test_a_call_typed_by_hand_is_not_the_models(chat: Any) -> None:
    with ChatServer(ChatServer.text("Yes.")) as server:
        done = chat(server, '@terminal {"command": "echo by hand"}', "@stranger is it?", "/tools", "/help")
    assert "by hand\n" in done.out
    assert "💻 terminal" in done.err
    assert "@read_file" in done.out
    assert "the model does not see it" in done.out
    assert [said(request) for request in server.requests] == [["@stranger is it?"]]


def test_a_failed_line_is_told_and_the_next_one_works(chat: Any, config: Any) -> None:
    config("retry: {attempts: 1}\n")
    refused = ChatServer.body({"error": {"message": "no such key"}}, 401)
    with ChatServer(refused, ChatServer.text("Here I am.")) as server:
        done = chat(server, "hello", "and now?")
    assert done.code == 1
    assert "✗ AuthFailed: " in done.err
    assert "The session continues" in done.err
    assert done.out == "Here I am.\n"
    assert said(server.requests[1]) == ["hello", "and now?"]


def test_another_model_goes_on_with_the_conversation(chat: Any) -> None:
    with ChatServer(ChatServer.text("One."), ChatServer.text("Two."), models=["test-model", "other"]) as server:
        done = chat(server, "first", "/model", "/model other", "second", "/model wrong")
    assert [request["model"] for request in server.requests] == ["test-model", "other"]
    assert said(server.requests[1]) == ["first", "One.", "second"]
    assert "also there: other" in done.err
    assert "does not list 'wrong'; list models: /model. To use it anyway: /model " in done.err


def test_whoever_typed_calls_meanwhile_comes_back_to_the_model_of_the_command_line(chat: Any) -> None:
    with ChatServer(ChatServer.text("One."), ChatServer.text("Two."), models=["test-model", "other"]) as server:
        done = chat(server, "first", "/model manual", '@terminal {"command": "echo by hand"}', "/model other", "second")
    assert done.code == 0, done.err
    assert "by hand\n" in done.out
    assert [request["model"] for request in server.requests] == ["test-model", "other"]
    assert said(server.requests[1])[-1] == "second"


def test_what_tools_changed_is_shown(run: Any, tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("one\ntwo\n")
    (tmp_path / "same.txt").write_text("same\n")
    lines = [
        '@patch {"path": "old.txt", "old": "two", "new": "2\\u001b[2J"}',
        '@write_file {"path": "new.txt", "content": "fresh\\n"}',
        '@write_file {"path": "bin", "content": "\\u0000"}',
        '@patch {"path": "same.txt", "old": "same", "new": "other"}',
        '@patch {"path": "same.txt", "old": "other", "new": "same"}',
    ]
    done = run(
        "chat", "--provider", "manual", stdin="\n".join(["/diff", *lines, "/diff", "/diff new.txt", "/diff gone", ""]).encode()
    )
    assert done.err.count("no differences") == 2
    shown = done.out[done.out.index("\nbin: binary; 0 bytes becomes 1 byte") + 1 :].splitlines()
    fresh = ["--- /dev/null", "+++ b/new.txt", "@@ -0,0 +1 @@", "+fresh"]
    changed = ["--- a/old.txt", "+++ b/old.txt", "@@ -1,2 +1,2 @@", " one", "-two", "+2^[[2J"]
    assert shown[1:] == [*fresh, *changed, *fresh]


def test_what_is_granted_and_where_commands_run_is_told(run: Any, tmp_path: Path) -> None:
    lines = ["/approvals", "/env", '@terminal {"command": "mkdir sub; cd sub"}', "/env", "/approvals revoke zz", "/approvals x"]
    done = run("chat", "--provider", "manual", stdin="\n".join([*lines, ""]).encode())
    assert "this session has no grants and no pending requests" in done.err
    assert f"folder: {tmp_path}\n  no command has run yet" in done.out
    assert f"folder: {tmp_path}/sub\n  the shell is running" in done.out
    assert "no grant begins with 'zz'" in done.err
    assert "use /approvals, or /approvals revoke ID" in done.err


SKY = """
from toolcrib import hookimpl

async def sky(text, identity):
    'How the sky is.'
    return f"{text} is blue on {identity.platform}"

@hookimpl
def register_slash(add):
    add("sky", sky)
    add("env", lambda text, identity: "mine")
    add("broken", lambda text, identity: 1 / 0)
"""


def test_a_plugin_has_commands_of_its_own(run: Any, user_plugin: Any) -> None:
    user_plugin("sky", SKY)
    done = run("chat", "--provider", "manual", stdin=b"/sky  Oslo\n/env\n/broken\n/sk\n/help\n")
    assert "Oslo is blue on cli\n" in done.out
    assert "mine" not in done.out
    assert "the plugin's /broken failed: ZeroDivisionError: division by zero" in done.err
    assert "unknown command /sk; did you mean /sky?" in done.err
    assert "/sky       How the sky is." in done.out
    assert "a command of the plugin sky; its function has no docstring" in done.out
    assert "a plugin adds /env, which is a command of the chat" in run("doctor").out


def test_a_message_may_begin_with_a_path(chat: Any) -> None:
    with ChatServer(ChatServer.text("It runs a program.")) as server:
        done = chat(server, "/usr/bin/env is what?", "/usr is what?")
    assert done.out == "It runs a program.\n"
    assert said(server.requests[0])[-1] == "/usr/bin/env is what?"
    assert "unknown command /usr; " in done.err


def test_commands_of_other_agents_lead_to_ours(run: Any) -> None:
    typed = b"/clear\n/compact\n/status\n/config\n/?\n"
    done = run("chat", "--provider", "manual", stdin=typed)
    assert "a new session; the last one is stored" in done.err
    assert "unknown command /" not in done.err.split("/status")[0]
    assert "unknown command /status; /context shows" in done.err
    assert "unknown command /config; outside the chat: toolcrib config edit" in done.err
    assert "/quit      leave (/exit and Ctrl-D do too)" in done.out


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("/usage", "/cost shows this session's usage"),
        ("/history", "Ctrl-R searches"),
        ("/modl", "did you mean /model?"),
        ("/sess", "did you mean /sessions?"),
        ("/hlep", "did you mean /help?"),
        ("/save", "the session is stored automatically"),
        ("/xyz", "list commands: /help"),
        ("/swim", "list commands: /help"),
    ],
)
def test_a_guess_is_made_for_what_is_alike(typed: str, told: str) -> None:
    assert meant_by(typed, SLASH).startswith(told)


def test_the_chat_is_exported(chat: Any, tmp_path: Path) -> None:
    with ChatServer(ChatServer.text("One.")) as server:
        done = chat(server, "/export", "first", "/export talk.md", "/export talk.md", "/export talk.md --force", "/export")
    assert "this session has no messages yet" in done.err
    assert done.err.count(f"wrote {tmp_path}/talk.md\n") == 2
    assert f"{tmp_path}/session-" in done.err  # the message names the path
    assert "talk.md already exists" in done.err
    assert "## You\n\nfirst\n\n## The model\n\nOne.\n" in (tmp_path / "talk.md").read_text()


def test_new_sessions_resume(chat: Any) -> None:
    with ChatServer(*(ChatServer.text(f"Answer {number}.") for number in range(4))) as server:
        done = chat(server, "alpha", "/new", "beta", "/sessions", "/resume", "/resume nothing")
        assert "alpha" in done.out
        assert done.out.count("alpha") == 2  # /resume alone lists them too
        assert done.err.count("to continue one: /resume ID") == 2
        assert "no session starts with 'nothing'" in done.err
        assert said(server.requests[1]) == ["beta"]
        rows = [line.split() for line in done.out.splitlines() if line.endswith("alpha")]
        done = chat(server, f"/resume {rows[0][0]}", "gamma")
        assert "> alpha" in done.err
        assert said(server.requests[2]) == ["alpha", "Answer 0.", "gamma"]
        done = chat(server, "delta", options=("--model", "m", "--continue"))
        assert "Answer 2." in done.err
        assert said(server.requests[3])[-1] == "delta"


def test_the_only_model_of_a_server_is_taken(chat: Any) -> None:
    with ChatServer(ChatServer.text("Yes."), models=["the-one"]) as server:
        assert chat(server, "hello", options=()).code == 0
        assert server.requests[0]["model"] == "the-one"
    with ChatServer(models=["one", "two"]) as server:
        done = chat(server, "hello", options=())
    assert done.code == 2
    assert "choose one with --model (one, two)" in done.err


def test_piped_without_a_model_it_is_manual_and_never_looks(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import agent.cli.offer

    monkeypatch.setattr(agent.cli.offer, "offers", lambda command: pytest.fail("it looked"))
    done = run("chat", stdin=b'@terminal {"command": "echo $((6*7))"}\n/model\n')
    assert done.code == 0
    assert done.out.startswith("42\n")
    assert "toolcrib chat --base-url" in done.err


def test_a_command_is_explained_by_the_living_shell(run: Any, tmp_path: Path) -> None:
    (tmp_path / "build").mkdir()
    lines = ['@terminal {"command": "tidy() { rm -rf build; }"}', "/explain tidy", "/explain ls", "/explain"]
    done = run("chat", "--provider", "manual", stdin="\n".join([*lines, ""]).encode())
    assert "ask: a user must approve it, and the approval may last\nit runs:\n  rm -rf build\n" in done.out
    assert "allow: it runs without asking\nit runs:\n  ls\n" in done.out
    assert "give the command: /explain COMMAND" in done.err
    assert (tmp_path / "build").is_dir()


def test_without_a_model_a_tool_that_is_not_there_is_told(run: Any) -> None:
    done = run("chat", stdin=b'@termnal {"command": "ls"}\n/image\n')
    assert "Unknown tool: termnal (did you mean 'terminal'?)" in done.out
    assert "No model is connected" not in done.out
    assert "\n\u2717 give the file: /image FILE" in done.err


def test_manual_whatever_is_configured(run: Any, config: Any) -> None:
    config("model: {base_url: 'http://127.0.0.1:9/v1', name: m}\n")
    done = run("chat", "--provider", "manual", stdin=b"hello\n")
    assert done.code == 0
    assert "No model is connected" in done.out


def test_bytes_that_are_no_text_reach_the_model_marked(chat: Any) -> None:
    with ChatServer(ChatServer.text("Yes.")) as server:
        assert chat(server, b"caf\xe9".decode("utf-8", "surrogateescape")).code == 0
    assert said(server.requests[0]) == ["caf\ufffd"]


def test_what_needs_a_person_is_denied_when_piped(chat: Any, tmp_path: Path) -> None:
    """003-28"""
    (tmp_path / "build").mkdir()
    with ChatServer(ChatServer.calls(("terminal", {"command": "rm -rf build"})), ChatServer.text("No.")) as server:
        done = chat(server, "tidy up")
    assert "denied" in done.err
    assert (tmp_path / "build").exists()


def test_trace_in_a_chat(chat: Any) -> None:
    """000-47"""
    with ChatServer(ChatServer.text("Yes.")) as server:
        done = chat(server, "is it?", options=("--model", "m", "--trace"))
    assert "trace: user prompt, 6 characters" in done.err
    assert "turn 1: status 200" in done.err


# -- stored sessions ---------------------------------------------------------------------------------------------------


def test_sessions_are_listed_and_shown(chat: Any, run: Any) -> None:
    assert "no sessions yet" in run("sessions").out
    with ChatServer(ChatServer.calls(("terminal", {"command": "echo hi"})), ChatServer.text("It says hi.")) as server:
        chat(server, "what does it say?")
    listed = json.loads(run("sessions", "--json").out)
    assert listed[0] == {**listed[0], "title": "what does it say?", "model": "test-model", "platform": "cli"}
    row = run("sessions", "--here").out.splitlines()[1]
    assert row.startswith(listed[0]["id"][:12])
    shown = run("sessions", "show", listed[0]["id"][:6]).out
    for words in ("user:\n  what does it say?", "-> terminal  echo hi", "assistant:\n  It says hi."):
        assert words in shown
    assert len(json.loads(run("sessions", "show", listed[0]["id"], "--json").out)["records"]) == 4
    assert run("sessions", "show").err == "toolcrib: give the id: toolcrib sessions show ID\n"
    assert "no session starts with" in run("sessions", "show", "nothing").err


def test_the_trace_of_a_stored_session(chat: Any, run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """000-47"""
    assert f"no session of this folder ({tmp_path}) is stored yet" in run("trace").err
    monkeypatch.setenv("MY_API_KEY", "very-secret-value")
    (tmp_path / "build").mkdir()
    call = ("terminal", {"command": "rm -rf build"})
    with ChatServer(
        ChatServer.calls(("terminal", {"command": "echo very-secret-value"})), ChatServer.calls(call), ChatServer.text("No.")
    ) as server:
        chat(server, "tidy up", '@terminal {"command": "true"}')
    told = run("trace").out
    for words in ("user: tidy up", "turn 1: 2 messages, 1 calls", "input=10 output=5", "succeeded, ", "turn 2: 4 messages",
                  "denied, as no user could be asked (fs.recursive-delete)", "manual calls:\n  terminal", "  No."):  # fmt: skip
        assert words in told, words
    assert told.count("denied, as no user could be asked") == 1
    assert "very-secret-value" not in told


def test_a_stored_trace_counts_what_the_model_reads(chat: Any, run: Any) -> None:
    """000-47: for a failed call the model reads the reason."""
    calls = [ChatServer.calls(("read_file", {"path": name})) for name in ("here", "nowhere")]
    Path("here").write_text("some text\n")
    with ChatServer(*calls, ChatServer.text("No.")) as server:
        chat(server, "read them")
        read = [one["content"] for one in server.requests[-1]["messages"] if one["role"] == "tool"]
    counted = [line.partition("result of ")[2] for line in run("trace").out.splitlines() if "result of " in line]
    assert [line.split()[0] for line in counted] == [str(len(text)) for text in read]


@pytest.mark.parametrize("line", ["/new and fix the test", "/tools file", "/sessions 20"])
def test_a_command_that_takes_nothing_loses_no_words(chat: Any, line: str) -> None:
    with ChatServer(ChatServer.text("one"), ChatServer.text("two")) as server:
        done = chat(server, "first", line, "second")
        assert len(server.requests[1]["messages"]) > len(server.requests[0]["messages"])  # the session continues
    assert f"✗ {line.split()[0]} takes no arguments; nothing was done" in done.err


def test_a_slash_alone_is_near_to_nothing(run: Any) -> None:
    assert "unknown command /; list commands: /help" in run("chat", "--provider", "manual", stdin=b"/\n").err


def test_every_command_of_the_chat_is_told_of(run: Any) -> None:
    told = run("chat", "--help").out
    assert {*COMMANDS, "/quit"} == {*SLASH}
    assert [name for name in SLASH if f"  {name}" not in told] == []


def test_the_mode_is_shown_and_switched(run: Any, tmp_path: Path) -> None:
    lines = [
        "/mode",
        '@terminal {"command": "touch a"}',
        "/mode plan",
        '@terminal {"command": "touch b"}',
        "/mode yolo",
        "/new",
        "/mode",
    ]
    done = run("chat", stdin="\n".join(lines).encode())
    assert "→  default" in done.out
    assert "→  plan" in done.out
    assert "in plan mode" in done.out + done.err
    assert "unknown mode 'yolo'; choose default, cautious, confirm-edits, plan" in done.out + done.err
    assert ((tmp_path / "a").exists(), (tmp_path / "b").exists()) == (True, False)
    assert done.out.count("→  plan") == 2, "a new session keeps the mode that the person chose"
    assert "a new session, in mode plan; the last one is stored" in done.err


def test_a_chat_begins_in_the_mode_that_is_named(run: Any, tmp_path: Path) -> None:
    done = run("chat", "--mode", "plan", stdin=b'@terminal {"command": "touch b"}\n/new\n/mode\n')
    assert "→  plan" in done.out
    assert not (tmp_path / "b").exists()
