"""The chat's screen: its first prompt, and a user's waiting times while a model writes 200 tokens a second.

Keys and tokens go through a pseudo-terminal to a real process; rendering is measured in this process, against rich.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks._face_child import RATE, tokens
from benchmarks.core import CannotMeasureError, Figure, clean_environment, median_of_each, once
from benchmarks.start import _of_children, _process

if TYPE_CHECKING:
    from toolcrib.testing import Response

_COLUMNS, _ROWS = 80, 30
_PER_FRAME = 7
_KEYS = "ABCDEFGHIJKLMNOPQRST"
_BETWEEN_KEYS = 0.1
_ERASE = b"\x15"
_LIMIT = 60.0
_LONG = 10_000
_LONG_SESSION = "1f" * 16
_WORKING = b"Alt-S steers"
"""Part of the chat's last line while a model is running."""


def measure(*, quick: bool) -> list[Figure]:
    """Return the figures: start and rendering in processor time, waiting times in ms."""
    with tempfile.TemporaryDirectory(prefix="toolcrib-bench-") as folder:
        home = Path(folder)
        return [
            _first_prompt(home, quick=quick),
            _resume(home, quick=quick),
            *_while_it_streams(home, quick=quick),
            *_render(quick=quick),
            _program(home, quick=quick),
        ]


def _first_prompt(home: Path, *, quick: bool) -> Figure:
    command = Path(sys.executable).with_name("toolcrib")
    if not command.exists():
        raise CannotMeasureError(f"{command} is missing; install the project first (pip install -e .)")

    def chat() -> float:
        before = _of_children()
        _Watched([str(command), "chat", "--provider", "manual"], home).leave(b"/help")
        return _of_children() - before

    runs = {"pass": _process([sys.executable, "-c", "pass"], home), "chat": chat}
    for run in runs.values():
        run()  # compiles bytecode that is missing
    took = median_of_each(runs, 1 if quick else 15)
    return Figure(
        "face.first_prompt",
        took["chat"] * 1e3,
        "ms",
        took["pass"] * 1e3,
        25,
        "ratio",
        "python -c pass; measured with the chat's end",
    )


def _resume(home: Path, *, quick: bool) -> Figure:
    """Time a resumed session of 10,000 messages, until its prompt and its end, against a new one with the same model."""
    from toolcrib.testing import ChatServer

    toolcrib = str(Path(sys.executable).with_name("toolcrib"))
    with ChatServer() as server, tempfile.TemporaryDirectory(prefix="toolcrib-bench-", dir=home) as folder:
        project = Path(folder)
        _fill(project, server.base_url)
        new = [toolcrib, "chat", "--model", "m", "--base-url", server.base_url]

        def chat(command: Sequence[str], shown: bytes) -> float:
            before = _of_children()
            watched = _Watched(command, project)
            watched.sees(shown)
            watched.leave(b"/help", behind=shown)
            return _of_children() - before

        def resumed() -> float:
            return chat([toolcrib, "chat", "--resume", _LONG_SESSION], b"messages above")

        runs: dict[str, Callable[[], float]] = {"resumed": resumed, "new": lambda: chat(new, b"m answers")}
        for run in runs.values():
            run()  # compiles bytecode that is missing
        took = median_of_each(runs, 1 if quick else 9)
    against = f"a new chat; measured: {_LONG:,} messages, with the chat's end"
    return Figure("face.resume", took["resumed"] * 1e3, "ms", took["new"] * 1e3, 1000, "value", against)


def _fill(home: Path, base_url: str) -> None:
    """Store a long session: questions, each with a call and an answer."""
    import asyncio

    from agent.store.sqlite import SqliteStore

    via = {"provider": "chat", "model": "m", "base_url": base_url}
    about = {"model": "m", "via": via, "usage": {"input": 1000, "output": 50}, "at": time.time()}

    def reply(text: str, native: dict[str, Any]) -> dict[str, Any]:
        return {"role": "assistant", "text": text, **about, "calls": [], "native": {"wire": "chat", "message": native}}

    def exchange(number: int) -> list[dict[str, Any]]:
        call, args = f"call_{number}", {"path": f"src/module_{number}.py"}
        function = {"name": "read_file", "arguments": json.dumps(args)}
        asking = {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [{"id": call, "type": "function", "function": function}],
        }
        text = f"It returns one, number {number}. " * 10
        result = {"call_id": call, "name": "read_file", "text": json.dumps({"content": "def f():\n    return 1\n" * 40})}
        return [
            {"role": "user", "text": f"What does function {number} do, and which test covers it?", "via": via},
            reply("I look.", asking) | {"turn": f"r-{number}/1", "calls": [{"id": call, "name": "read_file", "args": args}]},
            {"role": "results", "results": [{**result, "is_error": False, "seconds": 0.01}]},
            reply(text, {"role": "assistant", "content": text}),
        ]

    async def store() -> None:
        kept = SqliteStore(home / "toolcrib" / "toolcrib.db")
        await kept.sessions.create(_LONG_SESSION, platform="cli", user="", model="m", cwd=str(home), via=via)
        await kept.sessions.append_many(_LONG_SESSION, [one for number in range(_LONG // 4) for one in exchange(number)])
        await asyncio.to_thread(kept.close)

    asyncio.run(store())


def _program(home: Path, *, quick: bool) -> Figure:
    """Time the whole chat, with its screen and in a pipe, while a server sends 200 tokens a second."""
    from toolcrib.testing import ChatServer

    count = 60 if quick else 2_000
    text = "".join(tokens(count))
    size = len(text) // count + 1
    command = [str(Path(sys.executable).with_name("toolcrib")), "chat", "--model", "m", "--base-url"]

    def answer() -> Response:
        whole = ChatServer.text(text, piece=size)
        return replace(whole, pieces=len(whole.body) // count, pause=1 / RATE)

    def seen() -> None:
        with ChatServer(answer()) as server:
            watched = _Watched([*command, server.base_url], home)
            watched.sees(b"/help")
            watched.key(b"go\r")
            watched.sees(_WORKING, len(watched.written))
            watched.leave(b"/help", behind=_WORKING)

    def piped() -> None:
        with ChatServer(answer()) as server:
            env = clean_environment(home)
            subprocess.run(
                [*command, server.base_url],
                input=b"go\n",
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=env,
                check=True,
            )

    took = median_of_each({"seen": once(seen, _of_children), "piped": once(piped, _of_children)}, 1 if quick else 2)
    return Figure("face.program", took["seen"] * 1e3, "ms", took["piped"] * 1e3, 1.5, "ratio", "the same chat, piped")


class _Watched:
    """A process on a terminal, and all of its output, with times."""

    def __init__(self, command: Sequence[str], home: Path) -> None:
        self._reader, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
        env = {**clean_environment(home), "TERM": "xterm-256color"}
        root = str(Path(__file__).parents[1])
        env["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [env.get("PYTHONPATH", "")])])
        self._process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=env, cwd=home, start_new_session=True
        )
        os.close(theirs)
        self.written = bytearray()
        self._times: list[tuple[int, float]] = []
        """Pairs (length of all output so far, time when it was read)."""

    def read(self, seconds: float) -> bool:
        """Read output that arrives within ``seconds``. Return False at the end."""
        if not select.select([self._reader], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self._reader, 65536)
        except OSError:
            return False
        self.written += data
        self._times.append((len(self.written), time.monotonic()))
        return bool(data)

    def key(self, key: bytes) -> None:
        os.write(self._reader, key)

    def sees(self, text: bytes, begin: int = 0) -> float:
        """Return when ``text`` was there. Raises CannotMeasureError if it does not appear."""
        end = time.monotonic() + _LIMIT
        while (place := self.written.find(text, begin)) < 0:
            if not self.read(0.2) or time.monotonic() > end:
                self._process.kill()
                self._process.wait()
                raise CannotMeasureError(f"the screen never showed {text!r}: {bytes(self.written[-300:])!r}")
        return self.time_of(place + len(text))

    def time_of(self, length: int) -> float:
        """Return when that many bytes had arrived."""
        return next(moment for there, moment in self._times if there >= length)

    def leave(self, shown: bytes, behind: bytes = b"") -> None:
        """Wait until ``shown`` appears after ``behind``, then end the process by Ctrl-D."""
        self.sees(shown, self.written.rfind(behind) if behind else 0)
        time.sleep(0.05)
        self.key(b"\x04")
        while self.read(_LIMIT):
            continue
        os.close(self._reader)
        if self._process.wait(_LIMIT):
            raise CannotMeasureError(f"it ended with {self._process.returncode}: {bytes(self.written[-300:])!r}")


def _while_it_streams(home: Path, *, quick: bool) -> list[Figure]:
    idle, _, _ = _streamed(home, 0, 10 if quick else 60)
    count = 60 if quick else 3_000
    loaded, shown, size = _streamed(home, count, 0)
    calm = _percentile(idle, 95)
    return [
        Figure("face.echo", _percentile(loaded, 95), "ms", calm, calm + 25, "value", "a key while no run is in progress; p95"),
        Figure("face.first_token", _percentile(shown, 50), "ms", calm, 25, "value", "the same; measured: token to screen, p50"),
        Figure(
            "face.first_token_p95", _percentile(shown, 95), "ms", calm, 50, "value", "the same; measured: token to screen, p95"
        ),
        Figure("face.bytes", size / count, "bytes", 8.0, 50, "value", "the token itself; measured with four calls and the keys"),
    ]


def _streamed(home: Path, count: int, keys: int) -> tuple[list[float], list[float], int]:
    """Return the ms of each key until its echo, of each token until it is shown, and the bytes written in the meantime."""
    file = home / "times.json"
    watched = _Watched([sys.executable, "-m", "benchmarks._face_child", str(count), str(file)], home)
    watched.sees(b"local")
    begin = len(watched.written)
    last = f"t{count - 1:06d}".encode()
    pressed: list[tuple[int, float, bytes]] = []
    while (count and watched.written.find(last, begin) < 0) or len(pressed) < keys:
        key = _KEYS[len(pressed) % len(_KEYS)].encode()
        if key == b"A" and pressed:
            watched.key(_ERASE)
            watched.read(0.05)
        pressed.append((len(watched.written), time.monotonic(), key))
        watched.key(key)
        until = time.monotonic() + _BETWEEN_KEYS
        while (left := until - time.monotonic()) > 0:
            if not watched.read(left):
                raise CannotMeasureError(f"the screen ended: {bytes(watched.written[-300:])!r}")
    size = len(watched.written) - begin
    watched.key(_ERASE)
    watched.leave(b"/help")
    echoed = [(watched.sees(key, place) - moment) * 1e3 for place, moment, key in pressed]
    told = json.loads(file.read_text())["times"]
    shown = [
        (watched.time_of(watched.written.index(word, begin) + len(word)) - moment) * 1e3
        for number, moment in enumerate(told)
        if (word := f"t{number:06d}".encode())
    ]
    return echoed, shown, size


def _percentile(times: Sequence[float], percent: int) -> float:
    return statistics.quantiles(times, n=100)[percent - 1]


def _render(*, quick: bool) -> list[Figure]:
    """Time rendering of the same text as it streams: ours as a whole, and rich's Markdown of each block as it grows. Empty
    without rich.
    """
    from agent.cli.screen.markdown import Markdown
    from agent.cli.screen.painter import Painter
    from agent.cli.screen.themes import Theme

    try:
        from rich.console import Console
        from rich.markdown import Markdown as RichMarkdown
    except ImportError:
        print("benchmarks face: face.render is skipped: rich, its baseline, is not installed", file=sys.stderr)
        return []
    pieces = list(tokens(400 if quick else 2_000))

    def ours() -> None:
        painter = Painter(lambda frame: None, lambda: (_COLUMNS, _ROWS), Theme("dark"))
        markdown = Markdown(painter.columns)
        for number, piece in enumerate(pieces):
            markdown.feed(piece)
            if number % _PER_FRAME == 0:
                painter.paint(markdown.take(), markdown.live())

    def theirs() -> None:
        console = Console(file=io.StringIO(), width=_COLUMNS, force_terminal=True)
        block = ""
        for number, piece in enumerate(pieces):
            before, found, rest = (block + piece).rpartition("\n\n")
            fenced = before.count("```") % 2
            if found and not fenced:
                console.print(RichMarkdown(before))
                block = rest
            else:
                block += piece
            if number % _PER_FRAME == 0:
                console.print(RichMarkdown(block))

    took = median_of_each({"ours": once(ours, time.process_time), "rich": once(theirs, time.process_time)}, 1 if quick else 5)
    each = 1e5 / len(pieces)  # ms per 100 tokens
    against = "rich's Markdown of each block; 100 tokens"
    return [Figure("face.render", took["ours"] * each, "ms", took["rich"] * each, 0.35, "ratio", against)]
