"""An MCP server (protocol 2025-11-25) that misbehaves as its tools are named. It uses no SDK, so it starts fast.

Its first argument is a folder: ``starts`` there has a line for each start, ``tools.json`` replaces its tools, ``read`` has all
messages that it read.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Never

FOLDER = Path(sys.argv[1])
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
NAMES = (
    *(
        "echo",
        "env",
        "die",
        "hang",
        "flood",
        "long_line",
        "noise",
        "half",
        "wrong_id",
        "changes",
        "asks",
        "big",
        "error",
        "fails",
    ),
    *("progress", "picture", "terminal", "hidden", "roots", "samples", "waits"),
)


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def receive() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    with (FOLDER / "read").open("a") as file:
        file.write(line)
    return dict(json.loads(line))


def tools() -> list[dict[str, Any]]:
    file = FOLDER / "tools.json"
    if file.exists():
        return list(json.loads(file.read_text()))
    return [{"name": name, "description": f"Does {name}.", "inputSchema": TEXT} for name in NAMES]


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": said}], **more}


def echo(args: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
    return text(args.get("text", ""))


def env(args: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
    return text(json.dumps(dict(os.environ)))


def die(args: dict[str, Any], meta: dict[str, Any]) -> Never:
    sys.stderr.write("a fatal fault\n")
    sys.stderr.flush()
    os._exit(3)


def hang(args: dict[str, Any], meta: dict[str, Any]) -> Never:
    time.sleep(300)


def flood(args: dict[str, Any], meta: dict[str, Any]) -> Never:
    while True:
        send({"method": "notifications/message", "params": {"level": "info", "data": "x" * 50_000}})


def long_line(args: dict[str, Any], meta: dict[str, Any]) -> Never:
    while True:
        sys.stdout.write("x" * 100_000)


def noise(args: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
    sys.stdout.write("no json\n{}\n[1]\n\n" + '{"jsonrpc": "2.0", "id": "other", "result": {}}\n')
    return text("still here")


def half(args: dict[str, Any], meta: dict[str, Any]) -> Never:
    sys.stdout.write('{"jsonrpc": "2.0", "id": ')
    sys.stdout.flush()
    os._exit(0)


def wrong_id(args: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
    send({"id": 987_654, "result": text("for another call")})
    return text("mine")


def changes(args: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
    changed = [{**one, "description": "Other words."} if one["name"] == "echo" else one for one in tools()]
    (FOLDER / "tools.json").write_text(json.dumps(changed))
    send({"method": "notifications/tools/list_changed"})
    return text("changed")


def asks(args: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}
    params = {"message": "Which size?", "requestedSchema": schema}
    send({"id": "q1", "method": "elicitation/create", "params": params})
    return text(json.dumps(receive()["result"]))


def samples(args: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": args["text"]}]
    if args["text"] == "picture":
        content.append({"type": "image", "data": PIXEL, "mimeType": "image/png"})
    if args["text"] == "sound":
        content.append({"type": "audio", "data": "AAAA", "mimeType": "audio/wav"})
    before = [{"role": "user", "content": content[0]}, {"role": "assistant", "content": {"type": "text", "text": "Go on."}}]
    params = {"messages": [*before, {"role": "user", "content": content}], "systemPrompt": "You are short.", "maxTokens": 40}
    send({"id": "q3", "method": "sampling/createMessage", "params": params})
    answer = receive()
    return text(json.dumps(answer.get("result", answer.get("error"))))


def waits(args: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any] | None:
    (FOLDER / "waits").touch()
    while receive().get("method") != "notifications/cancelled":
        pass
    return None


def roots(args: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
    send({"id": "q2", "method": "roots/list"})
    return text(json.dumps(receive()["result"]))


def big(args: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
    return text("y" * 3_000_000)


def error(args: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
    return text("no such mail", isError=True)


def progress(args: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
    for done in (1, 2):
        told = {"progressToken": meta.get("progressToken"), "progress": done, "total": 2, "message": f"step {done}"}
        send({"method": "notifications/progress", "params": told})
    return text("done")


def picture(args: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
    link = {"type": "resource_link", "uri": "mem://a", "name": "a"}
    held = {"type": "resource", "resource": {"uri": "mem://b", "text": "the text"}}
    sound = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}
    return {"content": [{"type": "image", "data": PIXEL, "mimeType": "image/png"}, link, held, sound]}


def hidden(args: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
    return text("a\u202eb\U000e0041c")


TOOLS: dict[str, Callable[[dict[str, Any], dict[str, Any]], dict[str, Any] | None]] = {
    "echo": echo,
    "terminal": echo,
    "env": env,
    "die": die,
    "hang": hang,
    "flood": flood,
    "long_line": long_line,
    "noise": noise,
    "half": half,
    "wrong_id": wrong_id,
    "changes": changes,
    "asks": asks,
    "roots": roots,
    "samples": samples,
    "waits": waits,
    "big": big,
    "error": error,
    "progress": progress,
    "picture": picture,
    "hidden": hidden,
}


def main() -> None:
    with (FOLDER / "starts").open("a") as file:
        file.write(f"{os.getpid()}\n")
    while True:
        message = receive()
        number, method, params = message.get("id"), message.get("method"), message.get("params") or {}
        if method == "initialize":
            found = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": True}}}
            send({"id": number, "result": {**found, "serverInfo": {"name": "raw", "version": "1"}}})
        elif method == "tools/list":
            send({"id": number, "result": {"tools": tools()}})
        elif method == "tools/call":
            tool = TOOLS.get(params["name"])
            if tool is None:
                send({"id": number, "error": {"code": -32000, "message": "it failed"}})
            else:
                result = tool(params.get("arguments") or {}, params.get("_meta") or {})
                if result is not None:  # else the call was cancelled
                    send({"id": number, "result": result})
        elif number is not None:
            send({"id": number, "error": {"code": -32601, "message": "unknown"}})


main()
