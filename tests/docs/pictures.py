"""Pictures of the real program at a terminal, for the manual: SVG files, for light and for dark pages.

python -m tests.docs.pictures         regenerates those in docs/_static
"""

from __future__ import annotations

import io
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.style import Style
from rich.terminal_theme import DIMMED_MONOKAI, TerminalTheme
from rich.text import Text

from tests.e2e.conftest import Person
from toolcrib.testing import ChatServer

PLACE = Path(__file__).parents[2] / "docs" / "_static"
COLUMNS, ROWS = 92, 30
LIGHT = TerminalTheme(
    (255, 255, 255), (40, 40, 40),
    [(0, 0, 0), (178, 24, 24), (24, 110, 24), (150, 90, 0), (20, 70, 180), (130, 30, 130), (0, 110, 120), (110, 110, 110)],
    [(90, 90, 90), (200, 40, 40), (30, 130, 30), (170, 110, 0), (40, 90, 210), (150, 50, 150), (0, 130, 140), (60, 60, 60)],
)  # fmt: skip
THEMES: Mapping[str, TerminalTheme] = {"light": LIGHT, "dark": DIMMED_MONOKAI}
_NAMES = {"brown": "yellow", "brightbrown": "bright_yellow"}
_TIMES = re.compile(r"\d+(?:\.\d+)? m?s\b")
_WIDE = re.compile("^(?:│ )?\u270d")
_DIM = re.compile(rb"\x1b\[2(?=[;m])")
_LEFT_OUT = re.compile(r"\s*@font-face \{.*?\}|<!--.*?-->", re.DOTALL)
"""Remote fonts, and the generator's name."""
PROGRAM = "def total(prices):\n    return sum(prices)\n"
ANSWER = """\
`total` ignores what is reduced. I changed it in **shop.py**, and the tests pass:

- one line changed
- 14 tests, all good
"""


class PicturedPerson(Person):
    """A user whose screen shows dim text in grey: pyte drops the attribute."""

    def _shows(self, data: bytes) -> None:
        super()._shows(_DIM.sub(b"\x1b[90", data))


def _colour(name: str) -> str | None:
    if name == "default":
        return None
    if re.fullmatch(r"[0-9a-f]{6}", name):
        return f"#{name}"
    name = _NAMES.get(name, name)
    return re.sub(r"^bright(?=[a-z])", "bright_", name)


def _rows(person: Person) -> list[Text]:
    found = []
    screen: Any = person._screen  # the screen with its colours
    for number in range(screen.lines):
        row, line = screen.buffer[number], Text()
        for column in range(screen.columns):
            one = row[column]
            if one.data:
                style = Style(
                    color=_colour(one.fg), bgcolor=_colour(one.bg), bold=one.bold, italic=one.italics,
                    underline=one.underscore, strike=one.strikethrough, reverse=one.reverse,
                )  # fmt: skip
                line.append(one.data, style)
        line.rstrip()
        found.append(line)
    while found and not found[-1].plain.strip():
        found.pop()
    while found and not found[0].plain.strip():
        found.pop(0)
    return found


def svg(person: Person, name: str, theme: str, folder: str) -> str:
    """Return the screen as SVG. Times are replaced, so that a picture changes only if the program does."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, legacy_windows=False)
    for line in _rows(person):
        console.print(_alike(line, folder), no_wrap=True, overflow="crop", soft_wrap=True, highlight=False)
    return _LEFT_OUT.sub("", console.export_svg(title="toolcrib", theme=THEMES[theme], unique_id=name))


def _alike(line: Text, folder: str) -> Text:
    """Return the line with run-dependent text replaced; a wide character, whose mark the screen drops, gets its second column."""
    for pattern, instead in ((_TIMES, "12 ms"), (re.compile(re.escape(folder) + "/home"), "/home/me"), (_WIDE, "\\g<0> ")):
        for found in reversed(list(pattern.finditer(line.plain))):
            before, _, after = line.divide([found.start(), found.end()])
            line = before + Text(found.expand(instead), line.get_style_at_offset(Console(), found.start())) + after
    return line


def _chat(person: Person) -> None:
    person.at_prompt()
    person.types("why is the total wrong?")
    person.sees(r"14 tests, all good")
    person.at_prompt()


def _question(person: Person) -> None:
    person.at_prompt()
    person.types("clean up")
    person.sees(r"\? help\n.*denies and interrupts")


def _picker(person: Person) -> None:
    person.sees(r"Esc cancels\.")


def _ended(person: Person) -> None:
    person.waits_for_the_end()


EDIT = (
    "patch",
    {"path": "shop.py", "old_string": "sum(prices)", "new_string": "sum(one.reduced or one.price for one in prices)"},
)
PICTURES: Mapping[str, tuple[list[str], Callable[[Person], None], list[Any]]] = {
    "chat": (
        ["chat"],
        _chat,
        [
            ChatServer.calls(("read_file", {"path": "shop.py"}), ids=["a"]),
            ChatServer.calls(EDIT, ids=["b"]),
            ChatServer.text(ANSWER),
        ],
    ),
    "question": (
        ["chat"],
        _question,
        [ChatServer.calls(("terminal", {"command": "rm -rf build && git push --force"}), ids=["a"])],
    ),
    "tools": (["tools"], _picker, []),
    "explain": (["explain", "rm -rf build && git push --force"], _ended, []),
}


def picture(name: str, theme: str) -> str:
    """Return one picture, made in an empty folder by a program with its own home.

    The folder's name always has the same length, so that rows break at the same places.
    """
    with tempfile.TemporaryDirectory(prefix="picture-", dir="/tmp") as folder:
        return _picture(name, theme, Path(folder))


def _picture(name: str, theme: str, folder: Path) -> str:
    args, act, replies = PICTURES[name]
    home, project = folder / "home", folder / "home" / "shop"
    (project / "build").mkdir(parents=True)
    (project / "build" / "x.o").write_text("x")
    (project / "shop.py").write_text(PROGRAM)
    settings = home / ".config" / "toolcrib" / "config.yaml"
    settings.parent.mkdir(parents=True)
    with ChatServer(*replies, models=("qwen3-coder",)) as server:
        settings.write_text(f"model: {{base_url: '{server.base_url}', name: qwen3-coder}}\ndisplay: {{theme: {theme}}}\n")
        env = {
            "HOME": str(home),
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
        }
        person = PicturedPerson(args, project, env, COLUMNS, ROWS)
        try:
            act(person)
            return svg(person, f"{name}-{theme}", theme, str(folder))
        finally:
            person.process.close(force=True)


def main() -> None:
    for name in PICTURES:
        for theme in THEMES:
            (PLACE / f"{name}-{theme}.svg").write_text(picture(name, theme), "utf-8")
            print(f"{name}-{theme}.svg")


if __name__ == "__main__":
    main()
