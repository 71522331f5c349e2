"""Requests as a server's prompt cache sees them: the share of a request that the next one repeats from its beginning.

A fake model server asks to read a file again and again, in one run of the command. Requests are compared as bytes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.core import CannotMeasureError, Figure, clean_environment
from toolcrib.testing import ChatServer, Response

TURNS = 50
BAR = 5.0
"""Largest share of a request in percent that may change in the next one."""
_MAIN = "import sys; from agent.cli import main; sys.exit(main(sys.argv[1:]))"
_ROOT = Path(__file__).parents[1]


def measure(*, quick: bool) -> list[Figure]:
    """Return the worst pair of requests on each wire that sends the whole conversation, in percent of the earlier request."""
    turns = 4 if quick else TURNS
    with tempfile.TemporaryDirectory(prefix="toolcrib-bench-") as folder:
        return [_changed(wire, Path(folder), turns) for wire in _REPLIES]


def _changed(wire: str, folder: Path, turns: int) -> Figure:
    home = folder / wire
    home.mkdir()
    (home / "a.txt").write_text("".join(f"line {number} of the file\n" for number in range(40)))
    call, answer = _REPLIES[wire]
    with ChatServer(*(call(number) for number in range(turns)), answer(), models=["m"]) as server:
        arguments = ["--provider", wire, "--base-url", server.base_url, "--model", "m", "--max-turns", str(turns + 1)]
        command = [sys.executable, "-c", _MAIN, "run", "read it", "--no-stdin", *arguments]
        environment = {**clean_environment(home), "PYTHONPATH": str(_ROOT)}
        done = subprocess.run(command, env=environment, cwd=home, capture_output=True, text=True, check=False, timeout=300)
        sent = [json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode() for request in server.requests]
    if done.returncode or len(sent) != turns + 1:
        raise CannotMeasureError(
            f"{wire}: {len(sent)} requests of {turns + 1}, exit code {done.returncode}: {done.stderr[-400:]}"
        )
    before, same = min(((len(one), _same(one, after)) for one, after in pairwise(sent)), key=lambda pair: pair[1] / pair[0])
    changed = 100 - 100 * same / before
    against = f"the previous request; measured: its changed part, the worst of {turns}, of {before:,} bytes"
    return Figure(f"context.cache_{wire}", changed, "%", 100.0, BAR, "value", against)


def _same(one: bytes, after: bytes) -> int:
    """Return the length of the common beginning, in bytes."""
    return next(
        (place for place, (was, now) in enumerate(zip(one, after, strict=False)) if was != now), min(len(one), len(after))
    )


def _args(number: int) -> Mapping[str, Any]:
    """Return other arguments for each call, because a run ends when the same call returns the same result too often."""
    return {"path": "a.txt", "limit": 100 + number}


def _chat_call(number: int) -> Response:
    return ChatServer.calls(("read_file", _args(number)), ids=[f"call_{number}"])


def _anthropic(content: Mapping[str, Any], stop: str) -> Response:
    usage = {"input_tokens": 10, "output_tokens": 5}
    message = {"type": "message", "role": "assistant", "model": "m", "content": [content], "stop_reason": stop, "usage": usage}
    return ChatServer.body(message)


def _anthropic_call(number: int) -> Response:
    return _anthropic({"type": "tool_use", "id": f"toolu_{number}", "name": "read_file", "input": _args(number)}, "tool_use")


def _gemini(part: Mapping[str, Any]) -> Response:
    content = {"role": "model", "parts": [part]}
    return ChatServer.stream({"candidates": [{"content": content, "finishReason": "STOP"}]}, done=False)


def _gemini_call(number: int) -> Response:
    return _gemini({"functionCall": {"name": "read_file", "args": _args(number)}})


def _responses(number: int, *output: Mapping[str, Any]) -> Response:
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    whole = {"id": f"resp_{number}", "object": "response", "status": "completed", "model": "m", "output": output, "usage": usage}
    return ChatServer.body(whole)


def _responses_call(number: int) -> Response:
    """Return a call with the encrypted reasoning before it, which is sent back unchanged."""
    thought = {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": f"{number:06}" * 200}
    arguments = json.dumps(_args(number))
    call = {
        "type": "function_call",
        "id": f"fc_{number}",
        "call_id": f"call_{number}",
        "name": "read_file",
        "arguments": arguments,
    }
    return _responses(number, thought, {**call, "id": f"fc_{number}"})


def _responses_answer() -> Response:
    content = [{"type": "output_text", "text": "Done.", "annotations": []}]
    return _responses(TURNS, {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content})


_REPLIES: Mapping[str, tuple[Callable[[int], Response], Callable[[], Response]]] = {
    "chat": (_chat_call, lambda: ChatServer.text("Done.")),
    "responses": (_responses_call, _responses_answer),
    "anthropic": (_anthropic_call, lambda: _anthropic({"type": "text", "text": "Done."}, "end_turn")),
    "gemini": (_gemini_call, lambda: _gemini({"text": "Done."})),
}
