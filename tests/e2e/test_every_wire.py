"""One task over every wire and in every text protocol, with real tools: write a file, run it, report its output."""

from __future__ import annotations

import importlib.util
import io
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from agent.cli import main
from agent.protocols import NAMES
from tests.forks import Forks
from toolcrib.testing import ChatServer, Response

pytestmark = pytest.mark.e2e
SOURCE = "for n in [6]:\n    print(\"it's\", n * 7, '& <b>')\n"
OUTPUT = "it's 42 & <b>"
"""The file's output. Neither the source nor a call contains it, so a reply with it proves that the file ran."""

CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("write_file", {"path": "answer.py", "content": SOURCE}),
    ("terminal", {"command": "python3 answer.py"}),
)
FINAL = "The file prints 42. ✓"
MODELS = {"chat": "gpt-x", "responses": "gpt-x", "anthropic": "claude-x", "gemini": "gemini-3-x"}
PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1/models/gemini-3-x:streamGenerateContent?alt=sse",
}
SIGNATURES = ("c2lnLW9uZQ==", "c2lnLXR3bw==")
"""Signatures that a server sends with its reasoning, and that it must receive again with its calls."""


@pytest.fixture(scope="module")
def builders(root: Path) -> Callable[[str], ModuleType]:
    """Return a function that loads the helpers for a wire's replies from its tests."""

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(f"replies_{name}", root / f"tests/agent/providers/test_{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


def over_chat(_: Callable[[str], ModuleType]) -> list[Response]:
    calls = [ChatServer.calls(call, ids=[f"c{place}"], pieces=37) for place, call in enumerate(CALLS)]
    return [*calls, ChatServer.text(FINAL, pieces=7)]


def over_responses(load: Callable[[str], ModuleType]) -> list[Response]:
    made = load("responses")
    calls = [
        made.reply(
            {**made.REASONED, "id": f"rs_{place}", "encrypted_content": SIGNATURES[place]},
            made.call(f"c{place}", name, json.dumps(args)),
            pieces=37,
        )
        for place, (name, args) in enumerate(CALLS)
    ]
    return [*calls, made.text(FINAL, pieces=7)]


def over_anthropic(load: Callable[[str], ModuleType]) -> list[Response]:
    made = load("anthropic")
    calls = [
        made.reply({**made.SIGNED, "signature": SIGNATURES[place]}, made.use(f"t{place}", name, args), stop="tool_use", pieces=37)
        for place, (name, args) in enumerate(CALLS)
    ]
    return [*calls, made.text(FINAL, pieces=7)]


def over_gemini(load: Callable[[str], ModuleType]) -> list[Response]:
    made = load("gemini")
    calls = [
        made.streamed(made.reply(made.call(name, SIGNATURES[place], args=args)), pieces=37)
        for place, (name, args) in enumerate(CALLS)
    ]
    return [*calls, made.streamed(*(made.reply({"text": word}) for word in FINAL.partition(" ")), pieces=7)]


WIRES = {"chat": over_chat, "responses": over_responses, "anthropic": over_anthropic, "gemini": over_gemini}


def check(server: ChatServer, project: Path, code: int, out: str, err: str) -> None:
    assert code == 0, err
    assert (project / "answer.py").read_text() == SOURCE, err
    sent = [strings(request) for request in server.requests]
    assert len(sent) == 3, err
    assert [OUTPUT in text for text in sent] == [False, False, True], sent[2]
    assert out == f"{FINAL}\n", err
    assert "write_file" in err
    assert "terminal  python3 answer.py" in err


def strings(value: Any) -> str:
    """Return all texts of a request, joined by newlines, also those in JSON inside of text."""
    if isinstance(value, str):
        return value.replace('\\"', '"')
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return "\n".join(map(strings, inner))


@pytest.mark.parametrize("wire", WIRES)
def test_the_task_over_each_wire(wire: str, forks: Forks, project: Path, builders: Callable[[str], ModuleType]) -> None:
    """000-1, 004-4, 004-5, 004-13, 004-14, 004-15: the tools run here; the server uses its wire's framing, cut anywhere."""
    with ChatServer(*WIRES[wire](builders), models=[MODELS[wire]]) as server:
        words = ["chat", "--provider", wire, "--base-url", server.base_url, "--model", MODELS[wire]]
        done = forks.run(*words, cwd=project, stdin="write answer.py and run it\n")
    check(server, project, done.returncode, done.stdout, done.stderr)
    assert server.paths == [PATHS[wire]] * 3
    if wire != "chat":
        assert [signature in json.dumps(server.requests[2]) for signature in SIGNATURES] == [True, True]


BAR = "\uff5c"


def as_json(name: str, args: Mapping[str, Any], key: str = "arguments") -> str:
    return json.dumps({"name": name, key: args})


def as_params(args: Mapping[str, Any], form: str) -> str:
    return "".join(form.format(key=key, value=value) for key, value in args.items())


def as_xml(name: str, args: Mapping[str, Any]) -> str:
    params = as_params(args, "<parameter={key}>\n{value}\n</parameter>\n")
    return f"<tool_call>\n<function={name}>\n{params}</function>\n</tool_call>"


def as_glm(name: str, args: Mapping[str, Any]) -> str:
    params = as_params(args, "<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n")
    return f"<tool_call>{name}\n{params}</tool_call>"


def as_gemma(name: str, args: Mapping[str, Any]) -> str:
    params = ",".join(f'{key}:<|"|>{value}<|"|>' for key, value in args.items())
    return f"<|tool_call>call:{name}{{{params}}}<tool_call|>"


def as_kimi(name: str, args: Mapping[str, Any]) -> str:
    call = f"<|tool_call_begin|>functions.{name}:0<|tool_call_argument_begin|>{json.dumps(args)}<|tool_call_end|>"
    return f"<|tool_calls_section_begin|>{call}<|tool_calls_section_end|>"


def as_deepseek(name: str, args: Mapping[str, Any]) -> str:
    call = f"<|tool▁call▁begin|>{name}<|tool▁sep|>{json.dumps(args)}<|tool▁call▁end|>"
    return f"<|tool▁calls▁begin|>{call}<|tool▁calls▁end|>".replace("|", BAR)


def as_minimax(name: str, args: Mapping[str, Any]) -> str:
    params = as_params(args, '<parameter name="{key}">{value}</parameter>')
    return f'<minimax:tool_call><invoke name="{name}">{params}</invoke></minimax:tool_call>'


def as_python(name: str, args: Mapping[str, Any]) -> str:
    return f"[{name}({', '.join(f'{key}={value!r}' for key, value in args.items())})]"


def as_harmony(name: str, args: Mapping[str, Any]) -> str:
    head = "<|channel|>analysis<|message|>I call it.<|end|><|start|>assistant"
    return f"{head}<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{json.dumps(args)}<|call|>"


FORMS: dict[str, Callable[[str, Mapping[str, Any]], str]] = {
    "auto": lambda name, args: f"<tool_call>\n{as_json(name, args)}\n</tool_call>",
    "tags": lambda name, args: f"<tool_call>{as_json(name, args, 'args')}</tool_call>",
    "json_object": lambda name, args: json.dumps({"thought": "I call it.", "action": {"tool": name, "args": args}}),
    "command": lambda name, args: f"@tool {name} {json.dumps(args)}",
    "hermes": lambda name, args: f"<tool_call>\n{as_json(name, args)}\n</tool_call>",
    "qwen_xml": as_xml,
    "glm": as_glm,
    "gemma": as_gemma,
    "kimi": as_kimi,
    "deepseek": as_deepseek,
    "mistral": lambda name, args: f"[TOOL_CALLS]{name}[ARGS]{json.dumps(args)}",
    "minimax": as_minimax,
    "harmony": as_harmony,
    "pythonic": as_python,
    "llama_json": lambda name, args: as_json(name, args, "parameters"),
    "granite": lambda name, args: f"<function_call> {as_json(name, args)}",
}
"""Functions that write a call as a model of each protocol does."""


@pytest.mark.parametrize("protocol", NAMES)
def test_the_task_in_each_text_protocol(
    protocol: str, project: Path, config: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """000-1, 000-14, 000-20, 000-40, 001-5, 004-5: no tools field; calls are text in pieces, hidden from the user, and stored."""
    config(f"model: {{protocol: {protocol}}}\n")
    monkeypatch.chdir(project)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"write answer.py and run it\n"), encoding="utf-8"))
    final = json.dumps({"final": {"content": FINAL}}) if protocol == "json_object" else FINAL
    said = [FORMS[protocol](name, args) for name, args in CALLS]
    with ChatServer(*(ChatServer.text(text, piece=4) for text in (*said, final))) as server:
        code = main(["chat", "--provider", "text", "--base-url", server.base_url, "--model", "test-model"])
    shown = capsys.readouterr()
    check(server, project, code, shown.out, shown.err)
    assert all("tools" not in request for request in server.requests)
    messages = server.requests[2]["messages"]
    assert [message["content"] for message in messages if message["role"] == "assistant"] == said
