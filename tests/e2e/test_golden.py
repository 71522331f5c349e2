"""Whole screens of the chat, as text files in ``golden/`` that a person can read: by width, by theme, by event.

After an intended change of a screen, run this file's tests with WRITE_GOLDEN=1 and check the difference.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from toolcrib.testing import ChatServer

pytestmark = pytest.mark.e2e
GOLDEN = Path(__file__).with_name("golden")
SETTLED = r"^│ >[^\n]*\n╰ (?:plan · )?m\b[^\n]*· (/[^\n]*|lo…)\Z"
"""The draft's line, and below it the status of an idle chat, whose last part is /help, shortened to fit."""
ANSWER = """\
## What I found

The **build** folder is stale; `make` writes it anew. See [the manual](http://example.org/make) before you delete it.

- [x] read the manual
- [ ] tidied up
  1. first the objects
  2. then the rest

| file | size | note |
|------|-----:|------|
| a.py | 1 | 漢字 |
| long-name.txt | 22,000 | some words that fill a cell of their own |

> Never delete what you did not make.

```python
def tidy(path: str) -> None:
    return None  # nothing yet
```
"""
WRITES = bool(os.environ.get("WRITE_GOLDEN"))
HELD = {"command": "echo one; echo two; touch started; until [ -e go ]; do sleep 0.05; done"}


class Album:
    """Screens of one chat under their titles. Text that differs between runs is replaced by text of the same width."""

    def __init__(self, name: str, folder: Path) -> None:
        self._file = GOLDEN / f"{name}.txt"
        self._folder = folder
        self._is_narrow = name.endswith("-40")
        self._pages: list[str] = []

    def add(self, title: str, screen: str) -> None:
        self._pages.append(f"===== {title}\n{self._alike(screen)}\n")

    def compare(self) -> None:
        text = "\n".join(self._pages)
        if WRITES:
            self._file.write_text(text, encoding="utf-8")
        assert text == self._file.read_text(encoding="utf-8")

    def _alike(self, screen: str) -> str:
        name = self._folder.parent.name
        screen = re.sub(r"(?:\n  (?:│?↳)?)?".join(name), lambda found: _masked(found[0], name), screen)
        screen = re.sub(r"\b[0-9a-f]{12}\b", "0" * 12, screen)
        screen = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:00000", screen)
        screen = re.sub(r"(?<=  )(\d+ ms|\d+(\.\d+)? s)\b", "N s", screen)
        screen = re.sub(r"\d+\.\d s\b", "N s", screen)
        screen = re.sub(r"(runs|edits|writes|reads) [^\n]*…(?=  N s)", r"\1 …", screen)
        if self._is_narrow:  # on a narrow screen the digits of a call's time decide how much of its line fits
            screen = re.sub(r"^(│ \S+ \w+)[^\n]*(?=  N s  )", r"\1 …", screen, flags=re.MULTILINE)
        screen = re.sub(r"thought for (\d+ ms|[\d.]+ s)", "thought for N s", screen)
        return re.sub(r"^(│ )?[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏] ", r"\1⠋ ", screen, flags=re.MULTILINE)


def _masked(found: str, name: str) -> str:
    """Replace each character of a folder's name by an x, also if a row ends within it."""
    at = 0
    shown = []
    for char in found:
        is_name = at < len(name) and char == name[at]
        shown.append("x" if is_name else char)
        at += is_name
    return "".join(shown)


@pytest.fixture
def project() -> Iterator[Path]:
    """A folder whose name always has the same length, so that rows break at the same place."""
    with tempfile.TemporaryDirectory(prefix="golden-", dir="/tmp") as folder:
        project = Path(folder) / "p"
        project.mkdir()
        yield project


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer(models=["m"]) as server:
        yield server


@pytest.fixture
def chat(sit_down: Any, server: ChatServer) -> Callable[..., Any]:
    """``chat(columns, *arguments)`` starts a chat."""

    def start(columns: int, *args: str, rows: int = 50, **env: str) -> Any:
        person = sit_down("chat", "--base-url", server.base_url, "--model", "m", *args, columns=columns, rows=rows, **env)
        person.sees(SETTLED)
        return person

    return start


def clear(person: Any) -> None:
    person.process.send("\x0c")
    person.sees(r"\A╭─\n" + SETTLED[1:])


def since(person: Any, line: str) -> str:
    """Return the end of the screen, from the last line that begins with ``line``."""
    screen: str = person.text
    return screen[screen.rindex(f"\n{line}") + 1 :]


def holding(text: str) -> Any:
    """Return a reply that sends this text and then nothing more."""
    first, second = ({"choices": [{"index": 0, "delta": {"content": part}}]} for part in (text, "never said"))
    return ChatServer.stream(first, second, pieces=len(ChatServer.stream(first, done=False).body), pause=1_000)


def thought_and_said(text: str) -> Any:
    deltas = [{"reasoning_content": "hmm, "}, {"reasoning_content": "well"}, {"content": text}]
    return ChatServer.stream(*({"choices": [{"index": 0, "delta": delta}]} for delta in deltas))


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_what_is_said_and_done(chat: Any, server: ChatServer, project: Path, columns: int) -> None:
    album = Album(f"said-and-done-{columns}", project)
    (project / "a.py").write_text("one\ntwo\nthree\n")
    person = chat(columns)
    album.add("the first prompt", person.text)
    server.responses.append(thought_and_said(ANSWER))
    person.types("Is the build folder still needed, or may it be deleted before the next release?")
    person.sees(r"nothing yet(.*\n)*" + SETTLED)
    album.add("an answer", person.text)
    clear(person)
    todos = [{"content": "look", "status": "completed"}, {"content": "mend it", "status": "in_progress"}, {"content": "test"}]
    calls: list[tuple[str, Any]] = [
        ("todo", {"todos": todos}),
        ("terminal", {"command": "seq 20"}),
        ("write_file", {"path": "b.py", "content": "first\nsecond\n"}),
        ("patch", {"path": "a.py", "old": "two", "new": "2"}),
        ("write_file", {"path": "a.py", "content": "one\n2\nthree\nfour\n"}),
        ("read_file", {"path": "nowhere"}),
    ]
    server.responses += [ChatServer.calls(*calls), ChatServer.text("All done.")]
    person.types("go")
    person.sees(r"^All done\.$(.*\n)*" + SETTLED)
    album.add("calls, folded", person.text)
    clear(person)
    person.types("/show 3")
    person.sees(r"^20$(.*\n)*" + SETTLED)
    album.add("a call, expanded", person.text)
    clear(person)
    server.responses += [ChatServer.calls(("terminal", HELD)), ChatServer.text("Well.")]
    person.types("work")
    person.sees(r"^│     two$")
    person.types("and then that")
    person.process.send("use tabs\x1bs")
    person.sees("» use tabs")
    person.process.send("a draft")
    person.sees(r"^│ > a draft$")
    album.add("a command that runs, a message that waits, one that steers, a draft", person.text)
    person.presses("c")
    person.sees(r"interrupted; the session is kept$(.*\n)*│ > [^\n]*\n[^\n]*\n[^\n]*\n╰ m\b[^\n]*· /[^\n]*\Z")
    album.add("interrupted: what was not delivered is in the draft again", person.text)
    person.process.send("\x15" + "\x7f" * 60)
    person.sees(SETTLED)
    clear(person)
    server.responses[:] = [holding("Words of a paragraph.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n| 3")]
    person.types("talk")
    person.sees(r"^3$")
    album.add("an answer that has come in part", person.text)
    person.presses("c")
    person.sees(r"interrupted; the session is kept$(.*\n)*" + SETTLED)
    album.compare()


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("columns", [40, 80, 200])
def test_approvals_and_modes(chat: Any, server: ChatServer, project: Path, columns: int) -> None:
    album = Album(f"approvals-{columns}", project)
    hook = project / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(parents=True)
    hook.write_text("one\ntwo\nthree\n")
    for name in ("build", "dist"):
        (project / name).mkdir()
    person = chat(columns)
    deletes = [("terminal", {"command": f"rm -rf {name} --verbose"}) for name in ("build", "dist")]
    server.responses += [ChatServer.calls(*deletes), ChatServer.text("One is left.")]
    person.types("tidy up")
    person.sees(r"\?( help)?\n[^\n]*\Z")
    album.add("a question", person.text)
    person.process.send("?")
    person.sees(r"^  \?   (.*\n)*.*\?( help)?\n[^\n]*\Z")
    album.add("what the answers mean", person.text)
    person.process.send("\x1b[C")
    person.sees(r"\[o once\]|→ o  Allow once")
    person.process.send("\x1b[C")
    person.sees(r"\[p this path\]|→ s  Allow in session")
    album.add("what the arrows reached", since(person, "  d    do not"))
    person.process.send("p")
    person.sees(r"approved: ")
    person.sees(r"rm -rf dist(.*\n)*.*\?( help)?\n[^\n]*\Z")
    album.add("granted for this path; the next one asks", since(person, "  approved"))
    person.process.send("No more")
    person.sees(r"^  a question waits: .*\n(.*\n)*┏━.*\n┃ > No more$")
    album.add("text that continues", since(person, "terminal wants"))
    person.process.send("\x7f" * 7)
    person.chooses("d", r"\?( help)?\n[^\n]*\Z")
    person.sees("why not")
    person.process.send("it is shipped")
    person.sees(r"it is shipped$")
    album.add("a denial with its reason", since(person, "terminal wants"))
    person.types("")
    person.sees(r"^One is left\.$(.*\n)*" + SETTLED)
    album.add("denied", since(person, "terminal wants"))
    clear(person)
    server.responses += [ChatServer.calls(("patch", {"path": str(hook), "old": "two", "new": "2"})), ChatServer.text("Kept.")]
    person.types("edit it")
    person.sees(r"\?( help)?\n[^\n]*\Z")
    album.add("an edit is asked about as its difference", person.text)
    person.presses("c")
    person.sees(r"interrupted; the session is kept$(.*\n)*" + SETTLED)
    album.add("Ctrl-C denies and interrupts", since(person, "  You are asked about"))
    clear(person)
    person.process.send("\x1b[Z")
    person.sees(r"^╰ confirm-edits · ")
    person.process.send("\x1b[Z")
    person.sees(r"^╰ plan · ")
    server.responses[:] = [ChatServer.calls(("terminal", {"command": "touch a-new-file"})), ChatServer.text("Refused.")]
    person.types("make it")
    person.sees(r"^Refused\.$(.*\n)*" + SETTLED)
    album.add("plan mode", person.text)
    album.compare()


STYLES = ("bold", "italics", "underscore", "strikethrough", "reverse")


def painted(person: Any) -> str:
    """Return the screen with its styles: ``<bold blue:text>`` for text that is not plain."""
    lines = []
    for y in range(person._screen.lines):
        line, now, text = [], "", ""
        cells = person._screen.buffer[y]
        for x in range(person._screen.columns + 1):
            cell = cells[x] if x < person._screen.columns else None
            style = "" if cell is None else _style_of(cell)
            if cell is None or style != now:
                line.append(f"<{now}:{text}>" if now and text.strip() else text)
                now, text = style, ""
            text += "" if cell is None else cell.data
        lines.append("".join(line).rstrip())
    return "\n".join(lines).rstrip()


def _style_of(cell: Any) -> str:
    if cell.data == " " and not (cell.reverse or cell.underscore):
        return ""
    colours = [name for name in (cell.fg, f"on {cell.bg}") if name not in ("default", "on default")]
    return " ".join([*(name for name in STYLES if getattr(cell, name)), *colours])


@pytest.mark.parametrize("theme", ["light", "dark", "colorblind", "none"])
def test_themes(chat: Any, server: ChatServer, project: Path, theme: str, plain: Any) -> None:
    plain(f"display: {{theme: {theme}}}\n")
    album = Album(f"theme-{theme}", project)
    (project / "a.py").write_text("one\ntwo\nthree\n")
    (project / "build").mkdir()
    person = chat(80, NO_COLOR="")
    calls: list[tuple[str, Any]] = [
        ("patch", {"path": "a.py", "old": "two", "new": "2"}),
        ("terminal", {"command": "echo out; exit 3"}),
        ("read_file", {"path": "nowhere"}),
        ("todo", {"todos": [{"content": "look", "status": "completed"}, {"content": "mend", "status": "in_progress"}]}),
        ("terminal", {"command": "rm -rf build"}),
    ]
    server.responses += [ChatServer.calls(*calls), ChatServer.text(ANSWER)]
    person.types("tidy up")
    person.sees(r"\? help\n[^\n]*\Z")
    album.add("calls and a question", painted(person))
    person.chooses("o")
    person.sees(r"nothing yet(.*\n)*" + SETTLED)
    clear(person)
    server.responses.append(ChatServer.text(ANSWER))
    person.types("and now?")
    person.sees(r"nothing yet(.*\n)*" + SETTLED)
    album.add("an answer", painted(person))
    album.compare()


def test_a_server_that_dies_and_a_chat_that_is_left(chat: Any, server: ChatServer, project: Path) -> None:
    album = Album("ends", project)
    person = chat(80)
    whole = ChatServer.text("The first words of an answer, and its last.")
    cut = ChatServer.text("The first words of an answer, and its last.", cut=whole.body.index(b"of an an"))
    server.responses += [cut, whole]
    person.types("talk")
    person.sees(r"and its last\.$(.*\n)*" + SETTLED)
    album.add("the server died within its answer, and was asked again", person.text)
    person.presses("d")
    assert person.waits_for_the_end() == 0
    album.add("left", since(person, "The first words of an answer,"))
    album.compare()
