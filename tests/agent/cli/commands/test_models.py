"""``toolcrib models``, ``/model`` in the chat, and the model that a resumed session uses."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import pytest

import agent.providers.discover
from toolcrib.testing import ChatServer


@pytest.fixture(autouse=True)
def _nothing_on_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ignore servers that happen to run on the machine."""
    monkeypatch.setattr(agent.providers.discover, "PORTS", {})


def chat_reply(text: str) -> dict[str, Any]:
    return {"model": "test-model", "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]}


def chat_call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    return {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [call]}, "finish_reason": "tool_calls"}]}


def claude_reply(*blocks: dict[str, Any], stop: str = "end_turn") -> dict[str, Any]:
    usage = {"input_tokens": 5, "output_tokens": 5}
    return {"type": "message", "id": "m", "role": "assistant", "model": "claude-x", "content": list(blocks), "stop_reason": stop,
            "usage": usage}  # fmt: skip


def gemini_reply(text: str) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}]}


@pytest.fixture
def vendors(serve: Any, config: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Return a function that starts three local servers in place of the vendors, each with its replies."""

    def start(chat: list[Any], claude: list[Any], gemini: list[Any]) -> dict[str, Any]:
        rows = {"data": [{"id": "test-model"}, {"id": "other-model"}]}
        servers = {
            "chat": serve({"/v1/models": rows, "/v1/chat/completions": chat}),
            "anthropic": serve({"/v1/models": {"data": [{"id": "claude-x-20250101"}]}, "/v1/messages": claude}),
            "gemini": serve(
                {
                    "/v1beta/models": {"models": [{"name": "models/gemini-x"}]},
                    "/v1beta/models/gemini-x:generateContent": gemini,
                }
            ),
        }
        monkeypatch.setenv("ANTHROPIC_BASE_URL", f"{servers['anthropic'].root}/v1")
        monkeypatch.setenv("ANTHROPIC_API_KEY", "anthropic-secret")
        monkeypatch.setenv("GEMINI_BASE_URL", f"{servers['gemini'].root}/v1beta")
        monkeypatch.setenv("GEMINI_API_KEY", "gemini-secret")
        config(f"model: {{name: test-model, base_url: '{servers['chat'].root}/v1', stream: false}}\nretry: {{attempts: 1}}\n")
        return servers

    return start


def posted(server: Any) -> list[Any]:
    return [body for _, _, body in server.asked if body is not None]


# -- switching ---------------------------------------------------------------------------------------------------------


def test_a_conversation_stays_whole_across_three_wires(run: Any, vendors: Any) -> None:
    """004-22: each wire gets the calls and results of the previous one in its own form; each server gets only its own key."""
    use = {"type": "tool_use", "id": "t1", "name": "terminal", "input": {"command": "echo two"}}
    servers = vendors(
        [chat_call("terminal", {"command": "echo one"}), chat_reply("It was one.")],
        [claude_reply(use, stop="tool_use"), claude_reply({"type": "text", "text": "Then two."})],
        [gemini_reply("And three.")],
    )
    typed = b"first\n/model claude-x\nsecond\n/model gemini gemini-x\nthird\n/model\n"
    done = run("chat", stdin=typed)
    assert (done.code, done.out.splitlines()[:3]) == (0, ["It was one.", "Then two.", "And three."])
    assert "using claude-x from now on" in done.err
    claude, gemini = posted(servers["anthropic"]), posted(servers["gemini"])
    assert [message["role"] for message in claude[0]["messages"]] == ["user", "assistant", "user", "assistant", "user"]
    assert claude[0]["messages"][1]["content"][0]["name"] == "terminal"
    assert "one" in json.dumps(claude[0]["messages"][2])
    contents = json.dumps(gemini[0]["contents"])
    for words in ("first", "echo one", "It was one.", "second", "echo two", "Then two.", "third"):
        assert words in contents, words
    assert sum("functionCall" in part for one in gemini[0]["contents"] for part in one["parts"]) == 2
    assert sum("functionResponse" in part for one in gemini[0]["contents"] for part in one["parts"]) == 2
    secrets = {"anthropic": "anthropic-secret", "gemini": "gemini-secret"}
    for name, server in servers.items():
        sent = json.dumps([headers for _, headers, _ in server.asked])
        assert [other for other, secret in secrets.items() if secret in sent] == [other for other in secrets if other == name]
    listed = json.loads(run("sessions", "--json").out)
    records = json.loads(run("sessions", "show", listed[0]["id"], "--json").out)["records"]
    via = [record["via"]["provider"] for record in records if record["role"] == "assistant"]
    assert via == ["chat", "chat", "anthropic", "anthropic", "gemini"]
    assert "secret" not in json.dumps(records)


def test_a_wrong_name_gives_the_nearest_and_changes_nothing(run: Any, vendors: Any) -> None:
    servers = vendors([chat_reply("One."), chat_reply("Two.")], [], [])
    typed = b"a\n/model othr-model\n/model gemni gemini-x\n/model a b c\n/model\n/model other-model\nb\n"
    done = run("chat", stdin=typed)
    assert "no configured server lists 'othr-model'; did you mean 'other-model'?" in done.err
    assert "unknown provider 'gemni'" in done.err
    assert "did you mean gemini?" in done.err
    assert "use /model NAME" in done.err
    assert "also there: other-model" in done.err
    assert "claude-x-20250101" in done.err
    assert [body["model"] for body in posted(servers["chat"])] == ["test-model", "other-model"]


def test_by_hand_and_back(run: Any, vendors: Any) -> None:
    servers = vendors([chat_reply("One.")], [], [])
    done = run("chat", stdin=b'/model manual\n@terminal {"command": "echo hand"}\n/model test-model\nhello\n')
    assert "hand\n" in done.out
    assert done.out.endswith("One.\n")
    assert "no model: call tools by hand" in done.err
    assert len(posted(servers["chat"])) == 1


def test_another_way_to_talk_to_the_same_server(run: Any, vendors: Any) -> None:
    servers = vendors([chat_reply("One."), chat_reply("Two.")], [], [])
    done = run("chat", stdin=b"a\n/model text other-model\nb\n")
    assert done.out == "One.\nTwo.\n"
    assert "tools" not in posted(servers["chat"])[1]


def test_000_14_switching_models_chooses_how_calls_are_made_anew(run: Any, serve: Any, config: Any) -> None:
    """000-14: the chat switches from a model with native calls to one without, at the same server, and back again."""
    shown = {"able:8b": {"capabilities": ["tools"]}, "unable:8b": {"capabilities": ["completion"], "template": "<arg_key>"}}
    routes = {
        "/v1/models": {"data": [{"id": name, "owned_by": "library"} for name in shown]},
        "/api/show": lambda body: shown[body["model"]],
        "/v1/chat/completions": [chat_reply("One."), chat_reply("Two."), chat_reply("Three.")],
    }
    server = serve(routes)
    config(f"model: {{name: 'able:8b', base_url: '{server.root}/v1', stream: false}}\n")
    assert run("chat", stdin=b"a\n/model unable:8b\nb\n/model able:8b\nc\n").out == "One.\nTwo.\nThree.\n"
    native = ["tools" in body for path, _, body in server.asked if path == "/v1/chat/completions"]
    assert native == [True, False, True]


# -- resuming ----------------------------------------------------------------------------------------------------------


def test_a_session_goes_on_with_its_own_model_and_provider(run: Any, vendors: Any) -> None:
    """Without --model, chat and run use the session's model; --model overrides it. A new session uses the configured model."""
    text = {"type": "text", "text": "I am."}
    servers = vendors([chat_reply("Chat.")], [claude_reply(text)] * 3, [gemini_reply("Gem.")])
    assert run("chat", "--provider", "anthropic", "--model", "claude-x", stdin=b"hello\n").out == "I am.\n"
    session = json.loads(run("sessions", "--json").out)[0]["id"]
    assert run("run", "and now?", "--resume", session).out == "I am.\n"
    assert run("chat", stdin=f"/resume {session}\nstill?\n".encode()).out.endswith("I am.\n")
    assert [len(body["messages"]) for body in posted(servers["anthropic"])] == [1, 3, 5]
    assert {body["model"] for body in posted(servers["anthropic"])} == {"claude-x"}
    assert run("run", "you?", "--resume", session, "--provider", "gemini", "--model", "gemini-x").out == "Gem.\n"
    assert run("run", "nothing named").out == "Chat.\n"


def test_a_session_goes_on_where_nothing_is_configured(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server that the person named is used again; a key that is no longer set is reported with the fix."""
    with ChatServer(ChatServer.text("One."), ChatServer.text("Two."), ChatServer.text("Three.")) as server:
        run("run", "a", "--base-url", server.base_url, "--model", "m")
        assert run("run", "b", "--continue").out == "Two.\n"
        assert run("chat", "--continue", stdin=b"c\n").out == "Three.\n"
    refused = run("run", "go")
    assert (refused.code, "no model is configured" in refused.err) == (2, True)


def test_a_session_whose_first_question_failed_knows_its_server(run: Any) -> None:
    with ChatServer(ChatServer.body({"error": {"message": "no"}}, 400), ChatServer.text("Two.")) as server:
        assert run("run", "a", "--base-url", server.base_url, "--model", "m").code != 0
        assert run("run", "b", "--continue").out == "Two.\n"


def test_a_key_that_has_gone_is_told(run: Any, vendors: Any, config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    servers = vendors([], [claude_reply({"type": "text", "text": "I am."})], [])
    assert run("run", "hello", "--provider", "anthropic", "--model", "claude-x").code == 0
    config("plugins: {enabled: []}\n")
    for name in [name for name in os.environ if name.startswith(("ANTHROPIC", "GEMINI"))]:
        monkeypatch.delenv(name)
    done = run("run", "and?", "--continue")
    assert (done.code, done.out) == (2, "")
    assert "this session used claude-x: its key was in ANTHROPIC_API_KEY, which is not set" in done.err
    assert len(posted(servers["anthropic"])) == 1


# -- the list ----------------------------------------------------------------------------------------------------------


def test_models_are_listed_with_what_is_known(run: Any, serve: Any, config: Any) -> None:
    rows = [{"id": "qwen3", "max_model_len": 32768, "supported_parameters": ["tools"]}, {"id": "tiny\x1b[2J"}]
    server = serve({"/v1/models": {"data": rows}})
    away = "{name: far, base_url: 'http://127.0.0.1:9/v1'}"
    config(f"model: {{name: qwen3, base_url: '{server.root}/v1', fallback: [{away}]}}\n")
    done = run("models")
    assert done.code == 0
    lines = [line.split() for line in done.out.splitlines()]
    assert ["*", "qwen3", "32,768", "yes"] in lines
    assert ["tiny^[[2J", "unknown", "unknown"] in lines
    assert "chat 127.0.0.1:9  (model.fallback, entry 1)\n  ✗ could not connect" in done.out
    assert "check that the model server runs" in done.out
    again = run("models", "qwen", "--json")
    first, second = json.loads(again.out)
    assert first["models"] == [{"name": "qwen3", "context": 32768, "tools": True, "protocol": None}]
    assert (first["source"], first["provider"], first["configured"], first["error"]) == ("model", "chat", True, None)
    assert second["error"].startswith("could not connect")
    assert len(server.asked) == 1
    run("models", "--refresh")
    assert len(server.asked) == 2


def test_where_calls_are_not_native_the_protocol_is_shown(run: Any, serve: Any, config: Any) -> None:
    """The chat template decides, else the model's name. The provider ``text`` always has a protocol."""
    shown = {
        "own:8b": {"capabilities": ["completion"], "template": "<tool_call>", "model_info": {"x.context_length": 4096}},
        "kimi:1b": {"capabilities": ["completion"], "template": "{{ .Prompt }}"},
        "able:8b": {"capabilities": ["tools"], "template": "[TOOL_CALLS]"},
    }
    rows = [{"id": name, "owned_by": "library"} for name in shown]
    server = serve({"/v1/models": {"data": rows}, "/api/show": lambda body: shown[body["model"]]})
    config(f"model: {{name: 'own:8b', base_url: '{server.root}/v1'}}\n")
    lines = [" ".join(line.split()) for line in run("models").out.splitlines()]
    assert "* own:8b 4,096 no; in text as hermes" in lines
    assert "kimi:1b unknown no; in text as kimi" in lines
    assert "able:8b unknown yes" in lines
    (offer,) = json.loads(run("models", "able", "--json").out)
    assert offer["models"] == [{"name": "able:8b", "context": None, "tools": True, "protocol": "mistral"}]
    config(f"model: {{name: 'own:8b', provider: text, base_url: '{server.root}/v1'}}\n")
    assert "able:8b unknown yes; in text as mistral" in [" ".join(line.split()) for line in run("models").out.splitlines()]


def test_what_is_found_is_marked_and_not_used(run: Any, serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve({"/v1/models": {"data": [{"id": "m"}]}})
    monkeypatch.setattr(agent.providers.discover, "PORTS", {server.port: "Ollama"})
    done = run("models")
    assert done.code == 0
    assert "(Ollama: found, not configured)" in done.out
    assert json.loads(run("models", "--json").out)[0]["configured"] is False
    assert "model to probe" in run("models", "m", "--probe").err
    assert posted(server) == []


def test_without_any_server_it_tells_how(run: Any) -> None:
    done = run("models")
    assert done.code == 1
    assert "no server is configured" in done.out
    assert json.loads(run("models", "--json").out) == []


def test_a_probe_asks_the_model_itself(run: Any, serve: Any, config: Any) -> None:
    answers = [chat_call("ready", {}), 401]
    rows = {"data": [{"id": f"m{number}"} for number in range(9)]}
    server = serve({"/v1/models": rows, "/v1/chat/completions": answers})
    config(f"model: {{name: m1, base_url: '{server.root}/v1'}}\n")
    assert ["*", "m1", "unknown", "yes"] in [line.split() for line in run("models", "--probe").out.splitlines()]
    done = run("models", "m2", "--probe")
    assert "m2: " in done.err
    assert "401" in done.err
    assert "a probe takes 8 at most" in run("models", "m", "--probe").err


# -- the name ----------------------------------------------------------------------------------------------------------


def test_a_provider_by_name(run: Any) -> None:
    assert "chat, responses, anthropic, gemini, text, or a plugin's" in " ".join(run("run", "--help").out.split())
    done = run("run", "go", "--provider", "gemni", "--model", "m")
    assert done.code == 2
    assert "unknown provider 'gemni'; known: chat, responses, anthropic, gemini, text, manual; did you mean gemini?" in done.err


def test_a_plugins_provider_by_name_and_again(run: Any, user_plugin: Any) -> None:
    user_plugin(
        "scripted",
        "from toolcrib import hookimpl\nfrom toolcrib.testing import ScriptedSession\n\n\n"
        "@hookimpl\ndef register_provider(add):\n    add('scripted', lambda **more: ScriptedSession('Hi, said.'))\n",
    )
    assert run("run", "go", "--provider", "scripted").out == "Hi, said.\n"
    assert run("run", "go on", "--continue").out == "Hi, said.\n"
    assert "chat, responses, anthropic, gemini, text, manual, scripted" in run("run", "go", "--provider", "skripted").err


def test_what_a_server_names_does_not_reach_the_terminal_raw(run: Any, serve: Any, config: Any) -> None:
    server = serve({"/v1/models": {"data": [{"id": "m"}, {"id": "evil\x1b[2J"}]}})
    config(f"model: {{name: m, base_url: '{server.root}/v1'}}\n")
    done = run("chat", stdin=b"/model\n/model evil\n")
    assert "also there: evil^[[2J" in done.err
    assert "\x1b" not in done.err + done.out


@pytest.mark.parametrize(("wanted", "sent"), [("medium", "medium"), ("'1024'", "low"), ("''", None)])
def test_how_much_it_thinks_is_configured(wanted: str, sent: str | None, run: Any, config: Any) -> None:
    with ChatServer(ChatServer.text("Yes.")) as server:
        config(f"model: {{name: m, base_url: '{server.base_url}', thinking: {wanted}}}\n")
        assert run("run", "go").code == 0
    assert server.requests[0].get("reasoning_effort") == sent


def test_the_session_mode_is_configured(run: Any, config: Any) -> None:
    """000-15"""
    with ChatServer(*(ChatServer.text("Yes.") for _ in range(5))) as server:
        found = []
        for mode in ("resume", "fresh", "stateless"):
            config(f"model: {{name: m, provider: text, base_url: '{server.base_url}', session_mode: {mode}}}\n")
            for words in (["go"], ["on", "--continue"]) if mode != "stateless" else (["go"],):
                assert run("run", *words).code == 0
                found.append(server.headers[-1].get("x-session-id"))
    assert found[0] == found[1]
    assert found[2]
    assert found[2] != found[3]
    assert found[4] is None
