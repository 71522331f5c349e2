"""Code blocks of the written pages, and a reader who works through them from first to last.

A page's blocks run in order, in a folder with a home of its own:

- ``console``: lines that begin with ``$ `` are typed at a terminal; the lines below one must be printed, line by line, in that
  order. ``…`` or ``...`` in a line matches anything. Lines that begin with ``> `` are typed to the command after the lines above
  them were printed. A comment ``<!-- answers: y, y -->`` before the block has the answers to the command's questions.
  ``console fails``: a command of the block ends with another exit code than 0. ``console background`` leaves its one command
  running until the page's end, after its lines were printed.
- ``python``, ``yaml`` and other text with ``file=PATH`` after the language: the file is written.
- ``python`` alone is run as a program that may use ``await`` anywhere; ``<!-- given: CODE -->`` has the code before it. A
  ``text`` block with the word ``output`` after it is the output of the last program.
- ``yaml`` alone must be a valid configuration.
- ``<!-- replies: [...] -->`` has the next replies of the model's server (http://127.0.0.1:11434/v1 on the page; it is configured
  if the page configures none): ``"text"``, or ``{"tool": {arguments}}``, or a list of these for several calls.
- ``<!-- first: COMMAND -->`` prepares what the page assumes, such as another program's files, before the block runs.
- ``<!-- here: 044f506c is ([0-9a-f]+)  cli -->``: replaces text of the page by output of the last command, by a pattern.
- ``~/src/toolcrib`` is the folder of toolcrib's sources, 8000 a free port.
- ``<!-- tested by: FILE -->`` before a block names a test of its own; ``<!-- not run: REASON -->`` says why there can't be one.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pexpect

from agent.config import parse_config
from tests.forks import Forks
from toolcrib.testing import ChatServer

ROOT = Path(__file__).parents[2]
ADDRESS = "http://127.0.0.1:11434/v1"
PATIENCE = 120
_BLOCK = re.compile(r"(?ms)^(?P<dent> *)(?P<fence>`{3,})(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=dent)(?P=fence) *$")
_COMMENT = re.compile(r"<!-- (answers|replies|given|first|here|tested by|not run): (.*?) -->", re.DOTALL)
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\r")
_PLAIN = re.compile(r"""toolcrib(?: +(?:[\w./:@+,-]+|'[^']*'|"[^"$`\\!]*"))*""")
"""A command line that a shell would run as it is."""
_ANYTHING = re.compile(r"…|\.\.\.")
_INSTALLS = ("pip install 'toolcrib[",)
"""Beginnings of commands that download packages: tests/e2e/test_distribution.py tests the extras."""
_AWAITS = """
import ast, asyncio, inspect, sys
made = eval(compile(sys.argv[1], "page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT))
if inspect.iscoroutine(made):
    asyncio.run(made)
"""
NOT_CODE = ("text", "{toctree}")
"""Languages of blocks that are not code to run."""


@dataclass
class Block:
    """A code block. ``words`` are those after its language; ``notes`` are the comments before it, by their kind."""

    language: str
    words: list[str]
    text: str
    line: int
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def file(self) -> str:
        return next((word.removeprefix("file=") for word in self.words if word.startswith("file=")), "")


def blocks(text: str) -> list[Block]:
    """Return all fenced blocks of a page, in order, with the comments between each and the one before it."""
    found, end = [], 0
    for match in _BLOCK.finditer(text):
        language, *words = match["info"].split() or [""]
        notes = {one[1]: one[2].strip() for one in _COMMENT.finditer(text[end : match.start()])}
        dent = match["dent"]
        lines = [line.removeprefix(dent) for line in match["text"].splitlines()]
        found.append(Block(language, words, "\n".join(lines) + "\n", text.count("\n", 0, match.start()) + 1, notes))
        end = match.end()
    return found


def fault_of(block: Block) -> str:
    """Return why a block can't be tested, or "". A block of text needs no test."""
    if tested := block.notes.get("tested by"):
        return "" if (ROOT / tested).is_file() else f"there is no {tested}"
    if "not run" in block.notes:
        return "" if len(block.notes["not run"]) > 10 else "say why it is not run"
    known = block.language in ("console", "python", "yaml", *NOT_CODE) or block.file
    return "" if known else f"nothing runs {block.language!r}: write it as console, name its file, or say why it is not run"


class Reader:
    """A context manager: a reader who works through one page. With ``forks``, programs and the commands of toolcrib that need no
    shell are run without one.
    """

    def __init__(self, folder: Path, page: str, forks: Forks | None = None) -> None:
        self._forks = forks
        self.home, self.cwd = folder / "home", folder / "home" / "project"
        self.cwd.mkdir(parents=True)
        (self.home / "src").mkdir()
        (self.home / "src" / "toolcrib").symlink_to(ROOT)
        self._folder = folder
        self._page = page
        self._printed = ""
        self._named: dict[str, str] = {}
        self._server = ChatServer()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = str(probe.getsockname()[1])
        self._sockets = tempfile.TemporaryDirectory(prefix="docs-")  # a socket's path is short
        self._running: list[pexpect.spawn] = []
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TOOLCRIB_", "XDG_"))}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._env = {
            **kept,
            "HOME": str(self.home),
            "PATH": path,
            "XDG_RUNTIME_DIR": self._sockets.name,
            "TERM": "xterm",
            "COLUMNS": "200",
            "PAGER": "cat",
            # pip installs into a folder of the reader's, without a network.
            "PYTHONPATH": f"{ROOT}{os.pathsep}{folder / 'site'}",
            "PIP_TARGET": str(folder / "site"),
            "PIP_NO_INDEX": "1",
            "PIP_NO_DEPS": "1",
            "PIP_NO_BUILD_ISOLATION": "0",  # pip's way to report that no package was found
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }

    def __enter__(self) -> Reader:
        self._server.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        for running in reversed(self._running):
            if not running.isalive():  # such as a gateway that the page has stopped
                assert error[0] is not None or running.exitstatus == 0, f"{self._page}: it ended by itself: {running.read()}"
                continue
            running.sendintr()
            try:
                running.expect(pexpect.EOF, timeout=30)
            finally:
                running.close(force=True)
        self._server.__exit__(None, None, None)
        self._sockets.cleanup()

    def do(self, block: Block) -> None:
        """Run a block. Raises AssertionError with the page's line if the result differs."""
        for reply in json.loads(block.notes.get("replies", "[]")):
            self._server.responses.append(_reply(reply))
        if "replies" in block.notes:
            self._have_a_model()
        where = f"{self._page}:{block.line}"
        if "tested by" in block.notes or "not run" in block.notes:
            return
        if here := block.notes.get("here"):
            name, _, pattern = here.partition(" is ")
            found = re.search(pattern, self._printed)
            assert found is not None, f"{where}: {pattern!r} is not in:\n{self._printed}"
            self._named[name] = found[1]
        if first := block.notes.get("first"):
            subprocess.run(["bash", "-c", first], cwd=self.cwd, env=self._env, check=True, timeout=PATIENCE)
        if block.file:
            path = Path(block.file.replace("~", str(self.home), 1) if block.file.startswith("~") else self.cwd / block.file)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self._here(block.text), "utf-8")
        elif block.language == "console":
            self._type(block, where)
        elif block.language == "python":
            self._run(block, where)
        elif block.language == "yaml":
            parse_config(block.text.encode(), Path("config.yaml"))
        elif block.language == "text" and "output" in block.words:
            _compare(block.text.splitlines(), self._printed, where)

    def _have_a_model(self) -> None:
        """Configure the server if the page did not, like a reader who has one."""
        settings = self.home / ".config" / "toolcrib" / "config.yaml"
        if not settings.exists():
            settings.parent.mkdir(parents=True)
            settings.write_text(f"model: {{base_url: '{self._server.base_url}', name: qwen3}}\n", "utf-8")

    def _here(self, text: str) -> str:
        for name, value in self._named.items():
            text = text.replace(name, value)
        return re.sub(r"\b8000\b", self._port, text.replace(ADDRESS, self._server.base_url))

    def _run(self, block: Block, where: str) -> None:
        program = self._here(f"{block.notes.get('given', '')}\n{block.text}")
        if self._forks is not None:
            done = self._forks.run(program, code=_AWAITS, cwd=self.cwd, env=self._env, timeout=PATIENCE)
        else:
            done = subprocess.run(
                [sys.executable, "-c", _AWAITS, program],
                cwd=self.cwd, env=self._env, capture_output=True, text=True, timeout=PATIENCE, check=False,
            )  # fmt: skip
        assert done.returncode == 0, f"{where}: {done.stderr}"
        self._printed = done.stdout

    def _type(self, block: Block, where: str) -> None:
        answers = [one.strip() for one in block.notes.get("answers", "").split(",") if one.strip()]
        failed = False
        for command, wanted in _commands(block.text):
            if command.startswith(_INSTALLS):
                continue
            running = self._spawn(self._here(command))
            if "background" in block.words:
                self._running.append(running)
                for line in wanted:
                    running.expect(_pattern(line), timeout=PATIENCE)
                continue
            if any(line.startswith("> ") for line in wanted):
                _talk(running, wanted, f"{where}: {command}")
                wanted = []
            printed = ""
            for answer in answers:
                running.expect(r"\? ?\S* $|> ?$|\] ?$|: ?$", timeout=PATIENCE)
                printed += running.before + running.after
                running.sendline(answer)
            running.expect(pexpect.EOF, timeout=PATIENCE)
            running.close()
            printed = _ESCAPES.sub("", printed + (running.before or ""))
            self._printed = printed
            status = running.exitstatus
            assert status == 0 or "fails" in block.words, f"{where}: {command}: exit code {status}: {printed}"
            failed = failed or status != 0
            self.cwd = Path((self._folder / "cwd").read_text().strip())
            _compare(wanted, printed, f"{where}: {command}")
        assert failed or "fails" not in block.words, f"{where}: none of it fails"

    def _spawn(self, command: str) -> Any:
        kept = self._folder / "cwd"
        options: dict[str, Any] = {"env": self._env, "dimensions": (60, 200), "echo": False, "encoding": "utf-8"}
        options["timeout"] = PATIENCE
        if self._forks is not None and _PLAIN.fullmatch(command):
            kept.write_text(f"{self.cwd}\n")
            return self._forks.spawn(*shlex.split(command)[1:], cwd=self.cwd, **options)
        script = f"{command}\nstatus=$?\npwd >{kept}\nexit $status\n"
        return pexpect.spawn("bash", ["-c", script], cwd=str(self.cwd), **options)


def _talk(running: Any, lines: list[str], where: str) -> None:
    """Type the lines that begin with ``> ``, each after the lines before it were printed."""
    for line in lines:
        if line.startswith("> "):
            running.sendline(line[2:])
            continue
        try:
            running.expect(_pattern(line), timeout=PATIENCE)
        except (pexpect.TIMEOUT, pexpect.EOF):
            raise AssertionError(f"{where}: {line!r} did not come, in order, in:\n{running.before}") from None


def _commands(text: str) -> Iterator[tuple[str, list[str]]]:
    command, wanted = "", list[str]()
    for line in text.splitlines():
        if line.startswith("$ "):
            if command:
                yield command, wanted
            command, wanted = line[2:], []
        elif command.endswith("\\"):
            command += "\n" + line
        elif line.strip():
            wanted.append(line)
    if command:
        yield command, wanted


def _pattern(line: str) -> str:
    return ".*?".join(re.escape(part) for part in _ANYTHING.split(line.rstrip()))


def _compare(wanted: list[str], printed: str, where: str) -> None:
    rest = printed
    for line in wanted:
        found = re.search(_pattern(line), rest)
        assert found is not None, f"{where}: {line!r} did not come, in order, in:\n{printed}"
        rest = rest[found.end() :]


def _reply(reply: Any) -> Any:
    if isinstance(reply, str):
        return ChatServer.text(reply)
    calls = reply if isinstance(reply, list) else [reply]
    return ChatServer.calls(*((name, args) for one in calls for name, args in one.items()))
