"""The board under streaming text, running calls and key presses: the input line stays visible, and no row is lost or doubled."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pyte
import pytest

from agent.cli.liveview import LiveView
from agent.cli.screen.cells import Row, plain
from agent.cli.screen.draft import DraftRows, Pastes, draft_rows, said_rows
from agent.cli.screen.frame import Board
from agent.cli.screen.markdown import Markdown
from agent.cli.screen.painter import BEGIN, END, Painter
from agent.cli.screen.themes import Theme
from agent.events import Event, TextDelta, ToolActivity, ToolFinished, ToolProgressed, ToolStarted, TurnFinished
from toolcrib import ExecutedCall, ToolCall, ToolCallStatus, ToolDisplay, ToolResult

SIZE = (60, 20)
TEXT = "".join(
    f"## Part {part}\n\nSome **words** of part {part} that fill more than a row of the screen, and `code` too.\n\n"
    f"- item {part}.1\n- item {part}.2\n\n```python\ndef f{part}():\n    return {part}\n```\n\n"
    f"| a | b |\n|---|---|\n| {part} | x |\n\n"
    for part in range(15)
)


class Scene:
    """A board with a view, a draft, and every frame that it wrote."""

    def __init__(self) -> None:
        self.frames: list[str] = []
        self.now = 0.0
        self.draft = ""
        self.board = Board(Painter(self.frames.append, lambda: SIZE, Theme("dark")), self, clock=lambda: self.now)
        self.view = LiveView(self.board, markdown=True, thinking=False, clock=lambda: self.now)

    def above(self, columns: int) -> Sequence[Row]:
        return self.view.rows(columns)

    def typed(self, columns: int) -> DraftRows:
        return draft_rows(self.draft, len(self.draft), columns)

    def below(self, columns: int) -> Sequence[Row]:
        return [(("  status", "dim"),)]


def replayed(frames: list[str]) -> tuple[list[str], int]:
    """Return all rows of a terminal that received the frames, and how often the input line was missing between updates."""
    screen = pyte.HistoryScreen(*SIZE, history=100_000, ratio=0.5)
    stream = pyte.Stream(screen)
    missing = 0
    inside = False
    for frame in frames:
        for at in range(0, len(frame), 256):
            piece = frame[at : at + 256]
            stream.feed(piece)
            inside = (inside or BEGIN in piece) and END not in piece
            missing += not inside and not any(line.startswith("> ") for line in screen.display)
    history = ["".join(line[x].data for x in range(SIZE[0])) for line in screen.history.top]
    return [line.rstrip() for line in [*history, *screen.display]], missing


def test_a_long_answer_with_calls_and_keys() -> None:
    async def play() -> Scene:
        scene = Scene()
        scene.board.begin()
        for number in range(4):
            scene.view(ToolStarted(ToolCall(f"c{number}", "terminal", {"command": f"sleep {number}"}), "💻"))
        for place in range(0, len(TEXT), 5):
            scene.now += 0.005
            scene.view(TextDelta(TEXT[place : place + 5]))
            if place % 35 == 0:
                scene.board.frame()
            if place % 100 == 0:
                scene.draft = (scene.draft + "k")[-150:]
                scene.board.keyed()
        scene.view.finish()
        scene.board.frame()
        return scene

    scene = asyncio.run(play())
    lines, missing = replayed(scene.frames)
    whole = Markdown(SIZE[0] - 1)
    whole.feed(TEXT)
    whole.end()
    expected = [plain(row).rstrip() for row in whole.take()]
    assert lines[: len(expected)] == expected
    assert missing == 0
    assert sum(map(len, scene.frames)) < 60 * len(TEXT) / 5


def test_a_call_lives_and_then_stays() -> None:
    async def play() -> tuple[Scene, list[str]]:
        scene = Scene()
        scene.board.begin()
        call = ToolCall("1", "terminal", {"command": "make"})
        scene.view(ToolStarted(call, "💻", TERMINAL))
        scene.now = 3.0
        scene.view(ToolActivity("1", "terminal-output", {"text": "one\x1b[2J\ntwo\n"}))
        scene.board.frame()
        living, _ = replayed(scene.frames)
        data = {"output": "", "exit_code": 0, "where": "local"}
        result = ToolResult.success("terminal", data)
        scene.view(ToolFinished(ExecutedCall(call, result, ToolCallStatus.SUCCEEDED, 3.2), "💻", TERMINAL))
        scene.board.frame()
        return scene, living

    scene, living = asyncio.run(play())
    assert living[:3] == ["│ ⠋ 💻 terminal runs make  3 s", "│     one^[[2J", "│     two"]
    lines, _ = replayed(scene.frames)
    assert lines[0] == "│ 💻 terminal runs make  3.2 s  ok  #1"
    assert "two" not in lines


async def shown(*events: Event) -> list[str]:
    """Return the rows below a call's line after these reports."""
    scene = Scene()
    scene.board.begin()
    scene.view(ToolStarted(ToolCall("1", "x", {}), ""))
    for event in events:
        scene.view(event)
    scene.board.frame()
    lines = [line.strip("│ ") for line in replayed(scene.frames)[0]]
    return lines[1 : lines.index(">")]


TERMINAL = ToolDisplay(emoji="💻", verb="runs", subject=("command",), below="output")
BAR = "██████████░░░░░░░░░░"


@pytest.mark.parametrize(
    ("progress", "row"),
    [
        (ToolProgressed("1", "running", "half of it", 0.5), f"{BAR} 50 % half of it"),
        (ToolProgressed("1", "running", "", 0.999), f"{'█' * 20} 99 %"),
        (ToolProgressed("1", "done", "", 1.0), f"{'█' * 20} 100 % done"),
        (ToolProgressed("1", "failed", "no room", 0.5), f"{BAR} 50 % failed: no room"),
        (ToolProgressed("1", "running", "file \x1b[2J\u202e 7"), "file ^[[2J\\u202e 7"),
        (ToolProgressed("1", "running", "", None, 1_234), "1,234 reports of its work"),
    ],
)
def test_progress_is_a_bar_or_words(progress: ToolProgressed, row: str) -> None:
    """002-17: without a fraction there is no bar, and a hostile message can't move the cursor."""
    assert asyncio.run(shown(progress)) == [row]


def test_an_activity_takes_the_place_of_the_one_before() -> None:
    """002-15"""
    plan = [ToolActivity("1", "plan", {"step": step, "of": 3}) for step in (1, 2)]
    assert asyncio.run(shown(*plan)) == ["plan:", "step: 2", "of: 3"]
    several = [ToolActivity("1", "plan", "checked\x07"), ToolProgressed("1", "running", "", 0.5), ToolActivity("2", "other", "x")]
    assert asyncio.run(shown(*several)) == [f"{BAR} 50 %", "plan: checked^G"]


def test_what_a_call_shows_is_a_few_rows() -> None:
    many = [ToolActivity("1", f"a{number}", [f"line {line}" for line in range(30)]) for number in range(20)]
    assert asyncio.run(shown(*many)) == ["a0:", "line 0", "line 1", "line 2", "… 27 more", "a1:"]


def test_drafts() -> None:
    shown = draft_rows("one\ntwo", 7, 30)
    assert ([plain(row) for row in shown.rows], shown.cursor) == (["> one", "  two"], (1, 5))
    long = draft_rows("x" * 1000, 1000, 30)
    assert (len(long.rows), long.cursor[0]) == (8, 7)
    full = draft_rows("x" * 28, 28, 30)
    assert full.cursor == (1, 2)
    assert [plain(row) for row in said_rows("a\x1b[2J\nb", 30)] == ["> a^[[2J", "  b"]


def test_pastes() -> None:
    pastes = Pastes()
    first, second = "\n".join("a" * 20), "\n".join("b" * 20)
    assert pastes.collapse("short") == "short"
    assert [pastes.collapse(text) for text in (first, second, first)] == [
        *("[pasted 20 lines]", "[pasted 20 lines #2]", "[pasted 20 lines]"),
    ]
    assert pastes.expand("x [pasted 20 lines #2] [pasted 9 lines]") == f"x {second} [pasted 9 lines]"


def test_calls_that_wait_for_their_turn_are_told_of() -> None:
    """Commands of one reply run one after the other; the screen shows that more follow."""
    scene = Scene()
    calls = [ToolCall(f"c{number}", "terminal", {"command": f"sleep {number}"}) for number in range(3)]
    scene.view(TurnFinished(1, "", len(calls)))
    seen = []
    for call in calls:
        scene.view(ToolStarted(call, ""))
        seen.append([plain(row).strip("│ ") for row in scene.view.rows(60) if "one after another" in plain(row)])
        scene.view(ToolFinished(ExecutedCall(call, ToolResult.success("terminal", "ok"), ToolCallStatus.SUCCEEDED), ""))
    assert seen == [["2 more calls wait: they run one after another"], ["1 more call waits: they run one after another"], []]
    scene.view(ToolStarted(ToolCall("by-hand", "terminal", {}), ""))
    assert not any("one after another" in plain(row) for row in scene.view.rows(60))


def test_an_empty_row_separates_who_speaks() -> None:
    """The user, calls and answers are apart; rows of one speaker and notes about calls are not."""

    async def play() -> Scene:
        scene = Scene()
        scene.board.begin()
        call = ToolCall("1", "terminal", {"command": "make"})
        done = ExecutedCall(call, ToolResult.success("terminal", "ok"), ToolCallStatus.SUCCEEDED, 3.2)
        scene.view.said("do it")
        for _ in range(2):
            scene.view(ToolStarted(call, "💻", TERMINAL))
            scene.view(ToolFinished(done, "💻", TERMINAL))
        scene.view.screen.print_note("a note")
        scene.view(TextDelta("\n\nAn answer."))
        scene.view(TurnFinished(1, "", 0))
        scene.view(TextDelta("More of it."))
        scene.board.frame()
        return scene

    lines, _ = replayed(asyncio.run(play()).frames)
    call = "│ 💻 terminal runs make  3.2 s  ok  #"
    assert lines[: lines.index("More of it.") + 1] == [
        *("", "> do it", "", f"{call}1", f"{call}2", "a note", "", "An answer.", "More of it."),
    ]
