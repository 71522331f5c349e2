"""The loop around a model: its first request, the gap between turns, the memory of a long conversation, the reading of a
reply.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks._loop_children import CALLS
from benchmarks._model_server import ModelServer
from benchmarks.core import CannotMeasureError, Figure, best_of_each, clean_environment, median_of_each, once
from toolcrib.contract.store import Store
from toolcrib.testing import ChatServer

ROOT = Path(__file__).resolve().parent.parent
_WORDS = """the a of to in is and file line test call value error return import path server while because first second model
reads writes naïve — “quoted” runs. def __init__(self): self.value = None raise KeyError('missing') => 1024 0.5 {} []"""


def measure(*, quick: bool) -> list[Figure]:
    """Return times of processes and turns in ms, memory in MiB."""
    with tempfile.TemporaryDirectory(prefix="toolcrib-bench-") as folder:
        home = Path(folder)
        return [
            _first_request(home, 1 if quick else 15),
            _turn_gap(home, 1 if quick else 30),
            _session_memory(home, 200 if quick else 10_000, 1 if quick else 5),
            _stream(200 if quick else 10_000, 1 if quick else 15),
        ]


# -- the first request ---------------------------------------------------------------------------------------------------


def _first_request(home: Path, rounds: int) -> Figure:
    command = Path(sys.executable).with_name("toolcrib")
    if not command.exists():
        raise CannotMeasureError(f"{command} is missing; install the project first (pip install -e .)")
    environment = clean_environment(home)
    text = ChatServer.text("Hello.").body
    with ModelServer(lambda path, before: text) as server:

        def ask() -> float:
            begin = time.monotonic()
            _child([str(command), "run", "--base-url", server.base_url, "--model", "m", "hi"], environment, home)
            try:
                return server.next_arrival(begin) - begin
            except IndexError:
                raise CannotMeasureError("`toolcrib run` ended without a request") from None

        runs = {"pass": once(lambda: _child([sys.executable, "-c", "pass"], environment, home)), "ask": ask}
        for run in runs.values():
            run()  # compiles bytecode that is missing, and makes the store
        took = median_of_each(runs, rounds)
    return Figure("loop.first_request", took["ask"] * 1e3, "ms", took["pass"] * 1e3, 20, "ratio", "python -c pass")


# -- from a tool's end to the next request -------------------------------------------------------------------------------


def _turn_gap(home: Path, rounds: int) -> Figure:
    with ModelServer(_note_or_text()) as server:
        marks = json.loads(_measured_in_child(home, "turns", server.base_url, str(rounds)))
        gaps = {name: [server.next_arrival(mark) - mark for mark in marks[name]] for name in ("ended", "posted")}
    if len(gaps["ended"]) != rounds * CALLS:
        raise CannotMeasureError(f"{len(gaps['ended'])} calls ran instead of {rounds * CALLS}")
    took = {name: statistics.median(values) * 1e3 for name, values in gaps.items()}
    return Figure("loop.turn_gap", took["ended"], "ms", took["posted"], 5, "value", "a bare httpx POST; the store on, on disk")


def _note_or_text() -> Callable[[str, int], bytes]:
    """Return a function that answers each message with CALLS turns that make a call, then with text."""
    text = ChatServer.text("Noted.").body
    turn = 0

    def answer(path: str, before: int) -> bytes:
        nonlocal turn
        if not path.endswith("/chat/completions"):  # the bare requests, and requests before the first turn
            return text
        turn += 1
        return text if turn % (CALLS + 1) == 0 else ChatServer.calls(("bench_note", {}), ids=[f"call_{turn}"]).body

    return answer


# -- a long conversation -------------------------------------------------------------------------------------------------


def _session_memory(home: Path, number: int, rounds: int) -> Figure:
    from agent.store.sqlite import SqliteStore

    messages = list(_conversation(number))
    size = sum(map(_text_bytes, messages))
    store = SqliteStore(home / "toolcrib" / "toolcrib.db")
    try:
        asyncio.run(_fill(store, home, {"short": [], "long": messages}))
    finally:
        store.close()

    def resume(session_id: str) -> Callable[[], float]:
        return lambda: int(_measured_in_child(home, "resume", session_id)) / 1024

    resident = median_of_each({"short": resume("short"), "long": resume("long")}, rounds)
    against = f"the text of {number:,} messages of {size / number:.0f} bytes; measured: RSS beyond an empty session's"
    return Figure("loop.session_memory", resident["long"] - resident["short"], "MiB", size / 2**20, 3, "ratio", against)


async def _fill(store: Store, home: Path, sessions: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    for name, messages in sessions.items():
        await store.sessions.create(name, platform="api", user="", cwd=str(home))
        await store.sessions.append_many(name, messages)


def _conversation(number: int) -> Iterator[dict[str, Any]]:
    """Yield records as the loop writes them: a user's message, then turns with a call and its result, then an answer."""
    chance = random.Random(1)

    def text() -> str:
        long = chance.randint(600, 900)
        return " ".join(chance.choices(_WORDS.split(), k=long // 3))[:long]

    reply = {"role": "assistant", "model": "bench", "usage": {"input": 20_000, "output": 200, "cached": 18_000}}
    call_id = ""
    for place in range(number):
        if place % 8 == 0:
            yield {"role": "user", "text": text()}
        elif place % 2 == 1 and place % 8 != 7:
            call_id, args = f"call_{chance.randbytes(12).hex()}", {"path": f"/project/source_{place}.py", "content": text()}
            function = {"name": "write_file", "arguments": json.dumps(args)}
            calls = [{"id": call_id, "type": "function", "function": function}]
            message = {"role": "assistant", "content": None, "tool_calls": calls}
            call = {"id": call_id, "name": "write_file", "args": args}
            yield {**reply, "text": "", "calls": [call], "native": {"wire": "chat", "message": message}}
        elif place % 2 == 0:
            result = {"call_id": call_id, "name": "write_file", "text": json.dumps({"output": text()}), "is_error": False}
            yield {"role": "results", "results": [result]}
        else:
            said = text()
            message = {"role": "assistant", "content": said}
            yield {**reply, "text": said, "calls": [], "native": {"wire": "chat", "message": message}}


def _text_bytes(record: Mapping[str, Any]) -> int:
    """Return the size of a record's text, arguments and results, each counted once."""
    texts = [record.get("text", ""), *(one["text"] for one in record.get("results", ()))]
    texts += [value for call in record.get("calls", ()) for value in call["args"].values()]
    return sum(len(text.encode()) for text in texts)


# -- reading a reply -----------------------------------------------------------------------------------------------------


def _stream(number: int, rounds: int) -> Figure:
    """Return the worst of text and arguments, at one event per read and at 64 KiB per read. The best processor time of each
    counts, because the work is always the same.
    """
    found: list[Figure] = []
    for what, payloads in (("text", _text_deltas(number)), ("arguments", _argument_deltas(number))):
        runs = {"loads": _loads(payloads)}
        for how, pieces in _reads(payloads).items():
            came: list[object] = []
            _read(pieces, came.append)()
            if len(came) != number:
                raise CannotMeasureError(f"{len(came)} events came of {number} deltas of {what}, {how}")
            runs[how] = _read(pieces, deque[object](maxlen=1).append)  # an interface shows an event and drops it
        took = best_of_each({name: once(run, time.process_time) for name, run in runs.items()}, rounds)
        loads = took.pop("loads") * 1e3
        for how, seconds in took.items():
            against = f"json.loads of the payloads; the worst: {what}, {how}"
            found.append(Figure("loop.stream", seconds * 1e3, "ms", loads, 1.5, "ratio", against))
    return max(found, key=lambda figure: figure.ratio)


def _reads(payloads: Sequence[str]) -> dict[str, list[bytes]]:
    events = [f"data: {payload}\n\n".encode() for payload in payloads]
    whole = b"".join(events)
    return {"one event a read": events, "64 KiB a read": [whole[at : at + 65536] for at in range(0, len(whole), 65536)]}


def _loads(payloads: Sequence[str]) -> Callable[[], None]:
    def run() -> None:
        for payload in payloads:
            json.loads(payload)

    return run


def _read(pieces: Sequence[bytes], on_event: Callable[[object], None]) -> Callable[[], None]:
    """Return a function that reads a reply as the provider does."""
    from agent.providers._chat_reader import ChatReader
    from agent.providers.sse import SseReader

    def run() -> None:
        sse, reader = SseReader(), ChatReader(on_event)
        for piece in pieces:
            reader.read_events(sse.feed(piece))
        reader.read_events(sse.close())

    return run


def _text_deltas(number: int) -> list[str]:
    chance = random.Random(2)
    return [_chunk({"content": f"{word} "}) for word in chance.choices(_WORDS.split(), k=number)]


def _argument_deltas(number: int) -> list[str]:
    chance = random.Random(3)
    head = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "write_file", "arguments": '{"content": "'}}
    pieces = [{"index": 0, "function": {"arguments": f"{word} "}} for word in chance.choices(_WORDS.split(), k=number - 1)]
    return [_chunk({"tool_calls": [one]}) for one in (head, *pieces)]


def _chunk(delta: Mapping[str, Any]) -> str:
    chunk = {
        "id": "chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG",
        "object": "chat.completion.chunk",
        "created": 1741570283,
        "model": "gpt-4o-mini-2024-07-18",
        "system_fingerprint": "fp_06737a9306",
        "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}],
    }
    return json.dumps(chunk, ensure_ascii=False, separators=(",", ":"))


def _measured_in_child(home: Path, *arguments: str) -> str:
    environment = {**clean_environment(home), "PYTHONPATH": str(ROOT)}
    return _child([sys.executable, "-m", "benchmarks._loop_children", *arguments], environment, home)


def _child(command: list[str], environment: Mapping[str, str], cwd: Path) -> str:
    quiet: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True}
    done = subprocess.run(command, env=environment, cwd=cwd, text=True, check=False, **quiet)
    if done.returncode:
        raise CannotMeasureError(f"{' '.join(command)}: {done.stderr.strip()[-2000:]}")
    return str(done.stdout)
