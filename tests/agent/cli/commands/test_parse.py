"""``toolcrib parse``."""

from __future__ import annotations

import json
from typing import Any

CALL = '<think>hm</think>Look.<tool_call>{"name":"run","args":{"command":"ls"}}</tool_call>'


def lines(done: Any) -> list[dict[str, Any]]:
    assert done.code == 0, done.err
    return [json.loads(line) for line in done.out.splitlines()]


def jsonl(*rows: Any) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def test_x_9_a_reply_for_people(run: Any) -> None:
    done = run("parse", stdin=CALL.encode())
    assert (done.code, done.err) == (0, "")
    assert done.out == 'reasoning:\n  hm\ncontent:\n  Look.\ncall run:\n  {\n    "command": "ls"\n  }\n'
    assert run("parse", "--protocol", "tags", CALL).out == done.out
    broken = run("parse", "<tool_call>{oops</tool_call>\x1b[2J")
    assert "not run:\n  it is not valid JSON" in broken.out
    assert "\x1b" not in broken.out
    assert run("parse", "Hello.").out == "content:\n  Hello.\nno calls\n"
    assert "refused: invalid_json" in run("parse", "--protocol", "json_object", "Hello.").out


def test_lines_in_and_out(run: Any) -> None:
    rows = [
        {"id": "a", "text": CALL},
        {"id": "b", "text": "hm</think>Hi", "flags": {"starts_in_thinking": True}},
        {"id": "c", "text": '{"action":{"tool":"nope","args":{}}}', "format": "json_protocol", "tools": [{"name": "run"}]},
        {"id": "d", "text": '{"final":{"content":[1]}}'},
        {"id": "e", "text": '<tool_call>{"name":"run","args":{"command":"l', "flags": {"truncated": True}},
        {"id": "cut", "text": f"{CALL}\n<tool_call>", "flags": {"truncated": True}},
        {"id": "f", "text": 5},
        [1],
        {"id": "g", "text": "x", "tools": "no"},
        {"id": "h", "body": "x"},
    ]
    done = run("parse", "--jsonl", stdin=jsonl(*rows) + b"\nno json\n" + jsonl({"id": 9, "text": "last"}))
    read = lines(done)
    assert [one["id"] for one in read] == ["a", "b", "c", "d", "e", "cut", "f", None, "g", "h", None, 9]
    first = read[0]
    assert first.pop("calls")[0].items() >= {"name": "run", "arguments": {"command": "ls"}}.items()
    assert first == {"id": "a", "content": "Look.", "reasoning": "hm", "finish": "tool_calls", "faults": [], "error": None}
    assert (read[1]["content"], read[1]["reasoning"]) == ("Hi", "hm")
    assert read[2]["error"] == "unknown_tool"
    assert read[3]["final"] == [1]
    assert (read[4]["calls"], len(read[4]["faults"])) == ([], 1)
    assert (len(read[5]["calls"]), read[5]["finish"], len(read[5]["faults"])) == (1, "length", 2)
    assert all(one["error"] for one in read[6:11])
    assert read[11]["content"] == "last"


def test_bodies_of_a_wire(run: Any) -> None:
    def chunk(delta: Any, finish: str | None = None) -> str:
        return f"data: {json.dumps({'choices': [{'index': 0, 'delta': delta, 'finish_reason': finish}]})}\n\n"

    call = {"index": 0, "id": "c1", "function": {"name": "run", "arguments": '{"command": "ls"}'}}
    stream = chunk({"content": "Look."}) + chunk({"tool_calls": [call]}) + chunk({}, "tool_calls") + "data: [DONE]\n\n"
    rows = [{"id": "a", "body": stream}, {"id": "b", "body": 'data: {"error": {"message": "too busy"}}\n\n'}, {"id": "c"}]
    read = lines(run("parse", "--wire", "chat", "--stream", "--jsonl", stdin=jsonl(*rows)))
    assert read[0] == {
        "id": "a",
        "content": "Look.",
        "reasoning": "",
        "calls": [{"id": "c1", "name": "run", "arguments": {"command": "ls"}}],
        "finish": "tool_calls",
        "faults": [],
        "error": None,
    }
    assert "too busy" in read[1]["error"]
    assert "body" in read[2]["error"]
    done = run("parse", "--wire", "chat", "--stream", stdin=stream.encode())
    assert done.out.startswith("content:\n  Look.\ncall run:")


def test_whole_bodies_of_each_wire(run: Any) -> None:
    bodies = {
        "chat": {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]},
        "anthropic": {"type": "message", "content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn"},
        "gemini": {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hi"}]}, "finishReason": "STOP"}]},
        "responses": {"id": "r", "status": "completed", "output": [
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}]},
    }  # fmt: skip
    for wire, body in bodies.items():
        (read,) = lines(run("parse", "--wire", wire, "--jsonl", stdin=jsonl({"id": 1, "body": body})))
        assert (read["content"], read["finish"], read["error"]) == ("Hi", "stop", None), wire


def test_a_wrong_command_line_is_2_and_no_reply_is_1(run: Any) -> None:
    assert "json_object" in run("parse", "--protocol", "nope", "x").err
    assert run("parse", "--protocol", "nope", "x").code == 2
    assert run("parse", "--stream", "x").code == 2
    assert run("parse", "--jsonl", "x").code == 2
    assert "--stream" in run("parse", "--wire", "chat", "data: {}").err
    assert run("parse", "--wire", "chat", '{"error": {"message": "too busy"}}').code == 1
