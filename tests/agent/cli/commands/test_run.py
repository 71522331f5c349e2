"""``toolcrib run`` against a server that answers over real HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from toolcrib.testing import ChatServer, Response

DELETE = ("terminal", {"command": "rm -rf build"})
QUICK = "retry: {attempts: 2, first: 0.01}\n"


def failing(status: int, message: str, **how: Any) -> Response:
    return ChatServer.body({"error": {"message": message}}, status, **how)


@pytest.fixture
def ask(run: Any) -> Callable[..., Any]:
    """``ask(server, "task", *options)``"""

    def start(server: ChatServer, *words: str, **more: Any) -> Any:
        return run("run", *words, "--base-url", server.base_url, "--model", "test-model", **more)

    return start


def events(done: Any) -> list[dict[str, Any]]:
    found = [json.loads(line, parse_constant=pytest.fail) for line in done.out.splitlines()]
    assert all(one["v"] == 2 for one in found)
    return found


def of_type(done: Any, kind: str) -> list[dict[str, Any]]:
    return [one for one in events(done) if one["type"] == kind]


def test_the_answer_alone_goes_to_stdout(ask: Any) -> None:
    """004-3, 004-4: stdout, which scripts read, has the answer and no text from earlier turns."""
    with ChatServer(
        ChatServer.calls(("terminal", {"command": "echo hi"}), text="Let me look."), ChatServer.text("It says hi.")
    ) as server:
        done = ask(server, "what does it say?")
    assert (done.code, done.out) == (0, "It says hi.\n")
    assert "Let me look.\n💻 terminal  echo hi" in done.err
    assert done.err.endswith("ok\n")


def test_the_task_may_be_piped_in(ask: Any) -> None:
    with ChatServer(ChatServer.text("Yes.")) as server:
        assert ask(server, "-", stdin=b"is it cold?\n").code == 0
        assert server.requests[0]["messages"][-1] == {"role": "user", "content": "is it cold?\n"}
        assert ask(server, "-", stdin=b" \n").code == 2


def test_the_next_turn_has_the_results(ask: Any) -> None:
    """004-5: the call and its result go back to the model, and each request has all of the conversation."""
    with ChatServer(ChatServer.calls(("terminal", {"command": "echo hi"}), ids=["c9"]), ChatServer.text("Done.")) as server:
        ask(server, "go")
    roles = [message["role"] for message in server.requests[1]["messages"]]
    assert roles == ["system", "user", "assistant", "tool"]
    assert server.requests[1]["messages"][-1]["tool_call_id"] == "c9"


def test_a_configured_text_protocol_stays_where_a_server_is_named(ask: Any, config: Any) -> None:
    """000-14"""
    config("model: {provider: text, protocol: hermes}\n")
    call = '<tool_call>{"name": "terminal", "arguments": {"command": "echo hi"}}</tool_call>'
    with ChatServer(ChatServer.text(call), ChatServer.text("It says hi.")) as server:
        assert ask(server, "go").out.endswith("It says hi.\n")
        assert [sent for sent in server.requests if "tools" in sent] == []


REPORTS = """
import toolcrib
from toolcrib import ProgressStatus

def build(args, ctx):
    ctx.report_progress(ProgressStatus.RUNNING, "half", 0.5)
    ctx.report_activity("plan", {"left": [1, float("nan")]})
    ctx.report_activity_delta("plan", {"op": "add", "path": "/left/-", "value": "ä"})
    ctx.report_progress(ProgressStatus.DONE)
    return "built"

@toolcrib.hookimpl
def register_tools(registry):
    registry.register("build", "terminal", {"description": "Build."}, build)
"""


def test_json_lines_have_what_calls_report(ask: Any, user_plugin: Any) -> None:
    """002-15 .. 002-17: events have the call's id and the applied changes; the last report comes before the call's end."""
    user_plugin("build", REPORTS)
    with ChatServer(ChatServer.calls(("build", {}), ids=["c9"]), ChatServer.text("Done.")) as server:
        done = ask(server, "go", "--json")
    told = [one for one in events(done) if one["type"].startswith("tool_") and one["type"] != "tool_call_delta"]
    assert (told[0]["type"], told[-1]["type"]) == ("tool_started", "tool_finished")
    assert of_type(done, "tool_progress")[-1] == {"v": 2, "type": "tool_progress", "id": "c9", "status": "done", "message": ""}
    (*_, plan) = of_type(done, "tool_activity")
    assert plan == {"v": 2, "type": "tool_activity", "id": "c9", "activity": "plan", "content": {"left": [1, None, "ä"]}}


def test_json_lines_have_what_a_command_prints_meanwhile(ask: Any) -> None:
    command = {"command": "echo one; sleep 0.5; echo two"}
    with ChatServer(ChatServer.calls(("terminal", command), ids=["c9"]), ChatServer.text("Done.")) as server:
        done = ask(server, "go", "--json")
    first, *_ = of_type(done, "tool_activity")
    assert (first["id"], first["activity"], first["content"]) == ("c9", "terminal-output", {"text": "one\n"})


def test_json_lines_tell_it_all(ask: Any) -> None:
    """004-2, 004-3, 004-11: deltas are printed as they arrive, each turn has new ids, and all events of a call have one id."""
    with ChatServer(
        ChatServer.calls(("terminal", {"command": "echo hi"}), text="Look: ä", ids=["c9"]), ChatServer.text("It says hi.")
    ) as server:
        done = ask(server, "go", "--json")
    assert done.code == 0
    told = events(done)
    assert told[0] == {**told[0], "type": "run_started", "model": "test-model"}
    assert "terminal" in told[0]["tools"]
    texts = of_type(done, "text_delta")
    assert [one["text"] for one in texts if one["id"] == texts[0]["id"]] == ["Look: ä"]
    assert "".join(one["text"] for one in texts if one["id"] == texts[-1]["id"]) == "It says hi."
    kinds = ("tool_call_delta", "tool_started", "tool_finished")
    of_call = [one for one in told if one["type"] in kinds]
    assert {one["id"] for one in of_call} == {"c9"}
    assert [one["type"] for one in of_call][-2:] == ["tool_started", "tool_finished"]
    assert "".join(one["text"] for one in of_call if one["type"] == "tool_call_delta") == '{"command": "echo hi"}'
    assert of_call[-2]["args"] == {"command": "echo hi"}
    assert of_call[-1]["status"] == "succeeded"
    assert of_call[-1]["result"]["output"] == "hi\n"
    assert told[-1] == {
        "v": 2, "type": "run_finished", "stopped": "done", "finish": "stop", "text": "It says hi.",
        "usage": {"input": 20, "output": 10}, "turns": 2, "exit_code": 0,
    }  # fmt: skip


def cut_off(text: str, finish: str) -> Response:
    choices = [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]
    return ChatServer.stream({"choices": choices})


@pytest.mark.parametrize(("finish", "words"), [("length", "cut off at its token limit"), ("content_filter", "server's filter")])
def test_a_reply_that_was_cut_off_is_warned_of(ask: Any, finish: str, words: str) -> None:
    with ChatServer(cut_off("Half an", finish), cut_off("Half an", finish), ChatServer.text("All of it.")) as server:
        plain = ask(server, "go")
        told = ask(server, "go", "--json")
        whole = ask(server, "go", "--json")
    assert (plain.code, plain.out) == (5 if finish == "length" else 0, "Half an\n")
    assert words in plain.err
    turn, warning, last = events(told)[-3:]
    assert (turn["type"], turn["finish"], last["type"], last["finish"]) == ("turn_finished", finish, "run_finished", finish)
    assert (warning["type"], warning["kind"], warning["turn"]) == ("warning", finish, 1)
    assert words in warning["message"]
    assert f"toolcrib: {warning['message']}\n" in told.err
    assert [one["finish"] for one in events(whole)[-2:]] == ["stop", "stop"]
    assert of_type(whole, "warning") == []
    assert whole.err == ""


def test_json_lines_are_json_whatever_the_model_writes(ask: Any) -> None:
    with ChatServer(
        ChatServer.calls(("terminal", '{"command": NaN, "timeout": Infinity}'), ("terminal", '{"command": "tr')),
        ChatServer.text("Well \ud800, well."),
    ) as server:
        done = ask(server, "go", "--json")
    assert [one["status"] for one in of_type(done, "tool_finished")] == ["failed", "failed"]
    assert "fault" in of_type(done, "tool_started")[1]


def test_results_are_json_values(ask: Any, tmp_path: Path) -> None:
    """Version 2: objects, lists and texts as JSON values."""
    (tmp_path / "a.txt").write_text("one\n")
    with ChatServer(
        ChatServer.calls(
            ("terminal", {"command": "echo hi"}), ("read_file", {"path": "a.txt"}), ("terminal", {"command": "exit 3"})
        ),
        ChatServer.text("Done."),
    ) as server:
        shell, text, failed = of_type(ask(server, "go", "--json"), "tool_finished")
    assert (shell["result"]["output"], shell["result"]["exit_code"]) == ("hi\n", 0)
    assert text["result"].endswith("\n1|one")
    assert failed["result"]["exit_code"] == 3


def test_a_result_that_python_cannot_read_is_its_text(ask: Any, user_plugin: Any) -> None:
    user_plugin(
        "odd",
        """
from toolcrib import hookimpl

@hookimpl
def register_tools(registry):
    for name, text in {"long_number": "[" + "1" * 5000 + "]", "deep": "[" * 985 + "]" * 985, "fine": "[1, [2]]"}.items():
        registry.register(name, "odd", {"description": "Odd."}, lambda args, text=text: text)
""",
    )
    calls = ChatServer.calls(("long_number", {}), ("deep", {}), ("fine", {}))
    with ChatServer(calls, ChatServer.text("Done.")) as server:
        done = ask(server, "go", "--json", "--toolsets", "odd")
    number, deep, fine = of_type(done, "tool_finished")
    assert number["result"] == f"[{'1' * 5000}]"
    assert isinstance(deep["result"], str | list)
    assert fine["result"] == [1, [2]]


def test_every_type_is_documented(root: Path) -> None:
    from agent.cli import jsonl

    page = (root / "docs" / "events.md").read_text()
    source = Path(jsonl.__file__).read_text()
    for kind in ("run_started", "turn_started", "text_delta", "thinking_delta", "tool_call_delta", "retrying", "turn_finished",
                 "warning",
                 "tool_started", "tool_finished", "error", "run_finished"):  # fmt: skip
        assert f"`{kind}`" in page
        assert f'"{kind}"' in source


def test_what_would_ask_is_denied_and_told_in_the_exit_code(ask: Any, config: Any, tmp_path: Path) -> None:
    """003-28"""
    config("approval: {mode: cautious}\n")
    (tmp_path / "build").mkdir()
    for option in ((), ("--json",)):
        with ChatServer(ChatServer.calls(DELETE), ChatServer.text("I could not.")) as server:
            done = ask(server, "tidy up", *option)
        assert done.code == 4
        assert (tmp_path / "build").exists()
        assert "does not ask" in server.requests[1]["messages"][-1]["content"]
        if option:
            assert of_type(done, "tool_finished")[0]["status"] == "denied"
            assert events(done)[-1]["exit_code"] == 4
        else:
            assert "denied" in done.err
            assert "to allow them in a run, --allow RULE; to let the run wait for an answer, --park" in done.err


def test_a_backend_that_is_unavailable_is_told_at_the_start(ask: Any, config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    config("environments: {docker: {image: debian}}\n")
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    with ChatServer(ChatServer.text("Hi.")) as server:
        done = ask(server, "hi", "--backend", "docker")
    assert "the backend 'docker' is unavailable, so calls in it will fail: no docker engine listens at /nowhere" in done.err


def test_max_turns_then_one_final_answer(ask: Any, config: Any) -> None:
    """000-41, 000-43: --max-turns overrides the configuration."""
    config("max_turns: 7\n")
    call = ("terminal", {"command": "true"})
    with ChatServer(ChatServer.calls(call), ChatServer.calls(call), ChatServer.text("So far so good.")) as server:
        done = ask(server, "go", "--max-turns", "2")
    assert (done.code, done.out) == (5, "So far so good.\n")
    assert len(server.requests) == 3
    last = server.requests[2]["messages"][-1]
    assert last["content"] == "You have reached the maximum number of turns. Please provide your final answer now."


def test_max_turns_may_be_an_error(ask: Any, config: Any) -> None:
    """004-6, 000-43: without --max-turns the configured number counts."""
    config("max_turns: 1\nrun: {on_max_turns: error}\n")
    with ChatServer(ChatServer.calls(("terminal", {"command": "true"}))) as server:
        done = ask(server, "go", "--json")
    assert done.code == 5
    assert of_type(done, "error")[0]["kind"] == "MaxTurnsReached"
    assert len(server.requests) == 1


def test_ten_turns_are_the_default(ask: Any) -> None:
    """000-43"""
    turns = [ChatServer.calls(("terminal", {"command": f"echo {number}"})) for number in range(10)]
    with ChatServer(*turns, ChatServer.text("Enough.")) as server:
        assert ask(server, "go").code == 5
    assert len(server.requests) == 11


def test_a_token_cap(ask: Any) -> None:
    with ChatServer(ChatServer.calls(("terminal", {"command": "true"}))) as server:
        done = ask(server, "go", "--max-tokens", "12", "--json")
    assert done.code == 5
    assert of_type(done, "error")[0]["kind"] == "TokenCapReached"
    assert events(done)[-1]["usage"] == {"input": 10, "output": 5}


def test_a_repeated_failure_ends_the_run(ask: Any) -> None:
    with ChatServer(*(ChatServer.calls(("read_file", {"path": "gone"})) for _ in range(9))) as server:
        done = ask(server, "go", "--json")
    assert done.code == 1
    assert of_type(done, "error")[0]["kind"] == "NoProgress"


@pytest.mark.parametrize("slow", ["the model", "a tool"])
def test_a_timeout_ends_all_of_it(ask: Any, slow: str) -> None:
    call = ChatServer.calls(("terminal", {"command": "sleep 60"}))
    with ChatServer(ChatServer.text("late", delay=60) if slow == "the model" else call) as server:
        done = ask(server, "go", "--timeout", "0.5", "--json")
    assert done.code == 6
    assert events(done)[-1] == {**events(done)[-1], "type": "run_finished", "stopped": "timeout", "exit_code": 6}


def test_a_timeout_also_counts_while_the_server_is_asked_for_its_models(run: Any) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/v1"
        done = run("run", "go", "--base-url", url, "--timeout", "0.3")
    assert done.code == 6
    assert "--timeout" in done.err


@pytest.mark.parametrize(
    ("response", "kind", "words"),
    [
        (failing(500, "out of cheese"), "Overloaded", "out of cheese"),
        (failing(429, "slow down", headers={"Retry-After": "900"}), "RateLimited", "slow down"),
        (failing(401, "no such key"), "AuthFailed", "--api-key-env"),
        (failing(400, "This model's maximum context length is 8192 tokens"), "ContextTooLong", "`toolcrib sessions fork ID`"),
        (failing(404, "no such model"), "BadRequest", "no such model"),
        (Response(b"<html>hello</html>", content_type="text/html"), "StreamBroken", "web page"),
        (Response(b"\x00\xff garbage \n\n"), "StreamBroken", "not an event stream"),
        (ChatServer.text("never finished", cut=120), "StreamBroken", "was lost in the middle of its answer"),
    ],
)
def test_errors_of_the_server(ask: Any, config: Any, response: Response, kind: str, words: str) -> None:
    """000-42: an error that a retry can't fix is reported at once, with the server's message."""
    config("retry: {attempts: 1}\n")
    for option in ((), ("--json",)):
        with ChatServer(response) as server:
            done = ask(server, "go", *option)
        assert done.code == 1
        assert f"toolcrib: {kind}: " in done.err
        assert words in done.err
        assert "Traceback" not in done.err
        assert len(server.requests) == 1
    assert of_type(done, "error")[0]["kind"] == kind
    assert events(done)[-1] == {**events(done)[-1], "stopped": "error", "exit_code": 1}


def test_an_http_error_ends_the_run_at_once(ask: Any) -> None:
    """000-42: the error has status and body, and no turn follows."""
    with ChatServer(failing(403, "this project may not")) as server:
        done = ask(server, "go")
    assert "403: this project may not" in done.err
    assert (done.code, len(server.requests)) == (1, 1)


def test_a_server_that_is_down(run: Any, config: Any) -> None:
    config("retry: {attempts: 1}\n")
    with ChatServer() as server:
        url = server.base_url
    for words in (["--model", "m"], []):
        done = run("run", "go", "--base-url", url, *words)
        assert done.code == 1
        assert "ConnectionFailed: could not connect" in done.err


def test_a_server_that_does_not_begin_to_answer(ask: Any, config: Any) -> None:
    config("model: {first_byte_timeout: 0.2}\n")
    with ChatServer(ChatServer.text("late", delay=60)) as server:
        done = ask(server, "go")
    assert done.code == 1
    assert "did not start its answer in 0.2 s" in done.err
    assert "Check its log" in done.err
    assert "Is the server running" not in done.err


def test_a_slow_server(ask: Any, config: Any) -> None:
    config("retry: {attempts: 1}\nmodel: {between_bytes_timeout: 0.2}\n")
    late = ChatServer.text("late")
    with ChatServer(replace(late, pieces=late.body.index(b"\n\n") + 2, pause=60)) as server:
        done = ask(server, "go")
    assert done.code == 1
    assert "sent nothing for 0.2 s" in done.err


def test_what_may_help_is_tried_again_and_told(ask: Any, config: Any) -> None:
    config(QUICK)
    for first in (failing(500, "oops"), failing(429, "slow", headers={"Retry-After": "0"}), ChatServer.text("Half of", cut=150)):
        for option in ((), ("--json",)):
            with ChatServer(first, ChatServer.text("Here I am.")) as server:
                done = ask(server, "go", *option)
            assert done.code == 0
            if option:
                assert of_type(done, "retrying")[0]["attempt"] == 1
                assert events(done)[-1]["text"] == "Here I am."
            else:
                assert done.out.endswith("Here I am.\n")
                assert "retrying" in done.err


def test_no_model(run: Any) -> None:
    done = run("run", "go")
    assert done.code == 2
    for words in ("no model is configured", "--base-url", "OPENAI_BASE_URL", "toolcrib config set model "):
        assert words in done.err
    done = run("run", "go", "--json")
    assert [one["type"] for one in events(done)] == ["error", "run_finished"]
    assert events(done)[-1]["exit_code"] == 2
    assert "toolcrib chat" in run("run", "go", "--provider", "manual").err


def test_servers_on_this_machine_are_named_and_not_used() -> None:
    from agent.cli.offer import offers

    with ChatServer(models=["qwen3", "llama"]) as server:
        lines = offers("run TASK", {server.port: "Ollama"}, seconds=120)
        assert server.requests == []
    assert lines == [
        f"Ollama answers at {server.base_url}, models: qwen3, llama",
        f"  toolcrib run TASK --base-url {server.base_url} --model qwen3",
    ]
    assert offers("chat", {server.port: "Ollama"}) == []


@pytest.mark.parametrize(
    "words",
    [["--max-turns", "0"], ["--timeout", "-1"], ["--timeout", "soon"], ["--continue", "--resume", "x"]],
)
def test_a_wrong_command_line(run: Any, words: list[str]) -> None:
    done = run("run", "go", *words)
    assert (done.code, done.out) == (2, "")
    assert "`toolcrib run --help` shows details" in done.err
    assert "invalid" not in done.err  # argparse's message for an invalid number would name our functions


def test_a_wrong_count_or_age_is_told(run: Any) -> None:
    for words in (["sessions", "--limit", "0"], ["undo", "--list", "--limit", "-3"], ["approvals", "history", "--limit", "few"]):
        assert "--limit: expected " in run(*words).err
    assert "expected an age such as 90s, 30m, 12h or 7d, got 'long'" in run("env", "prune", "--older-than", "long").err


def test_a_reply_that_broke_off_stands_in_no_pipe(ask: Any, config: Any) -> None:
    config(QUICK)
    with ChatServer(ChatServer.text("What was cut off here is no answer", cut=600), ChatServer.text("Whole.")) as server:
        done = ask(server, "go")
    assert (done.code, done.out) == (0, "Whole.\n")
    assert "attempt 1 failed" in done.err
    with ChatServer(*[ChatServer.text("What was cut off here", cut=600)] * 2) as server:
        done = ask(server, "go")
    assert done.code == 1
    assert "What was".startswith(done.out.strip()[:8])


def test_an_empty_answer_is_told(ask: Any, run: Any) -> None:
    with ChatServer(ChatServer.text(""), ChatServer.text(" ")) as server:
        done = ask(server, "go")
        assert (done.code, done.err) == (0, "toolcrib: the model's answer is empty\n")
        done = run("chat", "--base-url", server.base_url, "--model", "m", stdin=b"go\n")
    assert (done.code, done.err) == (0, "the model's answer is empty\n")


def test_the_environment_and_the_configuration_name_a_model(run: Any, config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with ChatServer(ChatServer.text("One."), ChatServer.text("Two."), ChatServer.text("Three.")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        assert run("run", "go").out == "One.\n"
        monkeypatch.delenv("OPENAI_BASE_URL")
        config(f"profiles: {{local: {{model: {{base_url: '{server.base_url}', name: own}}}}}}\n")
        assert run("run", "go").code == 2
        assert run("run", "go", "--profile", "local").out == "Two.\n"
        assert run("--profile", "local", "run", "go").out == "Three.\n"
    assert [request["model"] for request in server.requests] == ["test-model", "own", "own"]
    assert "unknown profile 'lokal'; did you mean 'local'?" in run("run", "go", "--profile", "lokal").err


def test_toolsets_and_disable(ask: Any) -> None:
    with ChatServer(ChatServer.text("."), ChatServer.text(".")) as server:
        ask(server, "go", "--toolsets", "file")
        ask(server, "go", "--disable", "file,terminal")
    names = [{tool["function"]["name"] for tool in request["tools"]} for request in server.requests]
    assert "read_file" in names[0]
    assert "terminal" not in names[0]
    assert not names[1] & {"terminal", "read_file"}


def test_another_folder(ask: Any, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    with ChatServer(ChatServer.calls(("terminal", {"command": "pwd"})), ChatServer.text(".")) as server:
        assert ask(server, "go", "--cwd", str(there)).code == 0
    assert str(there) in server.requests[1]["messages"][-1]["content"]
    assert "is not a folder" in ask(server, "go", "--cwd", str(there / "gone")).err


def test_a_run_goes_on_with_the_last_one(ask: Any) -> None:
    with ChatServer(ChatServer.text("Nice to meet you, Ada."), ChatServer.text("Ada."), ChatServer.text("Still Ada.")) as server:
        session = of_type(ask(server, "my name is Ada", "--json"), "run_started")[0]["session"]
        assert ask(server, "what is my name?", "--continue").out == "Ada.\n"
        assert ask(server, "sure?", "--resume", session[:8]).out == "Still Ada.\n"
        said = [message["content"] for message in server.requests[2]["messages"] if message["role"] != "system"]
        assert said == ["my name is Ada", "Nice to meet you, Ada.", "what is my name?", "Ada.", "sure?"]
        assert "no session starts with" in ask(server, "go", "--resume", "nothing").err


def test_trace_tells_what_is_sent_and_done(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """000-47"""
    monkeypatch.setenv("MY_API_KEY", "very-secret-value")
    for option in (["--trace"], []):
        monkeypatch.setenv("TOOLCRIB_TRACE", "" if option else "1")
        with ChatServer(
            ChatServer.calls(("terminal", {"command": "echo very-secret-value"})), ChatServer.text("It says something.")
        ) as server:
            done = ask(server, "what does it say?", *option)
        assert (done.code, done.out) == (0, "It says something.\n")
        for words in (
            " tools: ",
            "system prompt, ",
            "trace:   Working folder: ",
            "user prompt, 17 characters",
            "trace:   what does it say?",
            "turn 1: 2 messages go to the model",
            "turn 1: status 200, first piece after ",
            " 1 calls, input=10 output=5",
            "trace: tool terminal {",
            "trace: tool terminal: succeeded, ",
            "result of ",
            "turn 2: 4 messages",
            "turn 2: content 'It says something.'",
        ):
            assert words in done.err, words
        traced = [line for line in done.err.splitlines() if line.startswith("trace:")]
        assert not [line for line in traced if "very-secret-value" in line]


def test_trace_tells_failures(ask: Any, config: Any) -> None:
    """000-47"""
    config(QUICK)
    with ChatServer(failing(500, "oops"), failing(400, "no")) as server:
        done = ask(server, "go", "--trace")
    assert "attempt 1 failed (" in done.err
    assert "trace: failed: status 400, " in done.err


def test_an_interrupt_while_the_model_streams(ask: Any) -> None:
    import os
    import signal

    with ChatServer(ChatServer.text("on and on and on", pieces=100, pause=0.05, delay=0.3)) as server:

        def press() -> None:
            while not server.requests:
                stop.wait(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        stop = threading.Event()
        thread = threading.Thread(target=press)
        thread.start()
        done = ask(server, "go", "--json")
        thread.join()
    assert done.code == 130
    assert events(done)[-1] == {**events(done)[-1], "stopped": "interrupted", "exit_code": 130}


def test_a_run_in_plan_mode_changes_nothing_and_tells_the_model(ask: Any, tmp_path: Path) -> None:
    with ChatServer(
        ChatServer.calls(("write_file", {"path": "a", "content": "x"}), ("terminal", {"command": "ls"})),
        ChatServer.text("A plan."),
    ) as server:
        done = ask(server, "make a", "--mode", "plan")
    assert (done.code, done.out) == (0, "A plan.\n")
    results = [one["content"] for one in server.requests[1]["messages"] if one["role"] == "tool"]
    assert "plan mode" in results[0]
    assert "plan mode" not in results[1]
    assert not (tmp_path / "a").exists()
