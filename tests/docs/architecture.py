"""The picture of the architecture, drawn from a table of steps: from a typed line to a process and back.

python -m tests.docs.architecture         draws docs/_static/architecture.svg
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).parents[2] / "docs" / "_static" / "architecture.svg"
WIDTH, TOP, BOX, GAP = 960, 84, 66, 30
SPINE, RIGHT, LEFT = (204, 452), (694, 254), (12, 154)
"""Left edge and width of each column."""
LINE = "#8590a0"
"""Colour of arrows and loose text, readable on white and on black."""
BLUE, PURPLE, GREEN, GREY = "#2f5fb3", "#7a4fb5", "#2a7a4b", "#57606a"
"""Colours of boxes, dark enough for white text: sessions, decisions, execution, and the parts around them."""
STYLE = """\
text { font-family: system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #fff; font-size: 14px }
.title { font-size: 17px; font-weight: 600 }
.folder { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: 12px; fill: #fffd }
.code { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: 14px }
.loose { fill: #8590a0 }
.end { fill: none; stroke: #8590a0; stroke-width: 1.5 }
.way { fill: none; stroke: #8590a0; stroke-width: 2; marker-end: url(#tip) }
.back { stroke-dasharray: 5 4 }
"""


class DrawnStep(NamedTuple):
    """A step on the path of a call, with the folders of its code, and the part beside it: its title, text and folders."""

    title: str
    text: str
    folders: tuple[str, ...]
    colour: str
    beside: tuple[str, str, tuple[str, ...]] | None = None


STEPS = (
    DrawnStep("Interface", "terminal, Python, chat platforms, schedule", ("agent/cli", "agent/gateway", "agent/cron"), BLUE),
    DrawnStep("Front desk", "opens the session, collects decisions", ("agent/desk",), BLUE),
    DrawnStep(
        "Session", "runs one step after another", ("agent/conversation",), BLUE,
        ("Model", "asks for tool calls", ("agent/providers", "agent/protocols")),
    ),
    DrawnStep(
        "Dispatcher", "checks arguments, asks every gate", ("tools/dispatch",), PURPLE,
        ("Plugins", "add tools, gates and hooks", ("plugins", "agent/plugin_host")),
    ),
    DrawnStep("Judge", "works out what the command would do", ("tools/judge",), PURPLE),
    DrawnStep(
        "Approval", "asks you, unless sandbox or undo covers it", ("tools/approval",), PURPLE,
        ("You", "decide now or next week, here or on a phone", ()),
    ),
    DrawnStep("Environment", "runs it: sandbox, docker or ssh", ("tools/environments",), GREEN),
)  # fmt: skip
STORE = ("Store", ("keeps each step,", "each decision, and", "what undo restores"), ("agent/store", "tools/undo"))
ENDS = (("you type", "> clean up the build"), ("bash runs", "$ rm -rf build"))
KEEPING = ("Session", "Dispatcher", "Approval", "Environment")
"""Steps that write to the store."""


def folders() -> Iterator[str]:
    """Yield each folder that the picture names."""
    for step in STEPS:
        yield from step.folders
        if step.beside:
            yield from step.beside[2]
    yield from STORE[2]


def draw() -> str:
    """Return the picture as SVG."""
    height = _top(len(STEPS)) + 44 + 16
    parts = [_ends(height), *_arrows(), *(_step(number, step) for number, step in enumerate(STEPS)), _store()]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="name what">\n'
        '<title id="name">From a typed line to a process</title>\n'
        f'<desc id="what">{escape("; ".join(f"{step.title}: {step.text}" for step in STEPS))}</desc>\n'
        f"<style>\n{STYLE}</style>\n"
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        f'markerUnits="userSpaceOnUse" orient="auto-start-reverse"><path d="M0 0 8 4 0 8z" fill="{LINE}"/></marker></defs>\n'
        f"{''.join(parts)}</svg>\n"
    )


def _top(number: int) -> int:
    return TOP + number * (BOX + GAP)


def _text(x: int, y: int, words: str, kind: str = "", anchor: str = "start") -> str:
    marked = f' class="{kind}"' if kind else ""
    where = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text x="{x}" y="{y}"{marked}{where}>{escape(words)}</text>\n'


def _box(column: tuple[int, int], y: int, height: int, colour: str) -> str:
    return f'<rect x="{column[0]}" y="{y}" width="{column[1]}" height="{height}" rx="8" fill="{colour}"/>\n'


def _step(number: int, step: DrawnStep) -> str:
    left, width = SPINE
    y = _top(number)
    parts = [
        _box(SPINE, y, BOX, step.colour),
        _text(left + 18, y + 28, f"{number + 1}  {step.title}", "title"),
        _text(left + width - 18, y + 27, "  ".join(step.folders), "folder", "end"),
        _text(left + 18, y + 51, step.text),
    ]
    if step.beside:
        title, text, where = step.beside
        lines = (text, " ".join(where)) if where else text.split(", ")
        parts += [
            _box(RIGHT, y, BOX, GREY),
            _text(RIGHT[0] + 14, y + 22, title, "title"),
            _text(RIGHT[0] + 14, y + 40, lines[0]),
            _text(RIGHT[0] + 14, y + 57, lines[1], "folder" if where else ""),
        ]
    return "".join(parts)


def _ends(height: int) -> str:
    middle = SPINE[0] + SPINE[1] // 2
    parts = []
    for y, (who, words) in zip((12, height - 16 - 44), ENDS, strict=True):
        parts.append(f'<rect class="end" x="{SPINE[0]}" y="{y}" width="{SPINE[1]}" height="42" rx="21"/>\n')
        parts.append(_text(SPINE[0] + 18, y + 26, who, "loose"))
        parts.append(_text(middle, y + 26, words, "code loose", "middle"))
    return "".join(parts)


def _arrows() -> Iterator[str]:
    middle = SPINE[0] + SPINE[1] // 2
    for number in range(len(STEPS) + 1):
        end, begin = _top(number) - 2, _top(number) - GAP + 2
        yield f'<path class="way" d="M{middle - 24} {begin}V{end}"/>\n'
        yield f'<path class="way back" d="M{middle + 24} {end}V{begin}"/>\n'
    at = _top([step.title for step in STEPS].index("Dispatcher")) - GAP // 2 + 5
    yield _text(middle - 40, at, "call", "loose", "end")
    yield _text(middle + 40, at, "result, without secrets", "loose")
    for number, step in enumerate(STEPS):
        y = _top(number) + BOX // 2
        if step.beside:
            yield f'<path class="way" marker-start="url(#tip)" d="M{SPINE[0] + SPINE[1] + 2} {y}H{RIGHT[0] - 2}"/>\n'
        if step.title in KEEPING:
            yield f'<path class="way" d="M{SPINE[0] - 2} {y}H{LEFT[0] + LEFT[1] + 2}"/>\n'


def _store() -> str:
    first = next(number for number, step in enumerate(STEPS) if step.title in KEEPING)
    y, end = _top(first), _top(len(STEPS) - 1) + BOX
    title, lines, where = STORE
    x, parts = LEFT[0] + 14, [_box(LEFT, y, end - y, GREY)]
    at = (y + end) // 2 - 50
    parts.append(_text(x, at, title, "title"))
    parts += [_text(x, at + 26 + 19 * number, line) for number, line in enumerate(lines)]
    parts += [_text(x, at + 94 + 18 * number, name, "folder") for number, name in enumerate(where)]
    return "".join(parts)


def main() -> None:
    """Draw the picture's file."""
    FILE.write_text(draw(), "utf-8")


if __name__ == "__main__":
    main()
