"""A run on the chat's own screen as it happens: final rows move up, and the rows below them still change."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from agent.cli.calls import SPINNER, ShownItem, finished_rows, running_row
from agent.cli.escape import one_line, tame
from agent.cli.livescreen import LiveScreen
from agent.cli.render import display_of, seconds_of
from agent.cli.screen.cells import Row, Span, shortened, width
from agent.cli.screen.draft import said_rows
from agent.cli.screen.markdown import Markdown
from agent.cli.show_item import diff_of, whole_of
from agent.cli.view import COMPRESSING, CUT_SHORT, compression_said, news_of
from agent.cli.working import DIFFERENCE, ENDED, MOST_ROWS, OUTPUT, activity_rows, output_lines, progress_row
from agent.events import (
    CompressionFailed,
    ContextCompressed,
    ContextCompressing,
    DelegateEnded,
    Event,
    ImageMade,
    ModelAnswered,
    Retrying,
    SessionBusy,
    TextDelta,
    ThinkingDelta,
    ToolActivity,
    ToolCallDelta,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from toolcrib.contract.session import ExecutedCall
from toolcrib.contract.types import Json, ToolCall
from tools.dispatch.json_results import images_of

if TYPE_CHECKING:
    from agent.cli.screen.frame import Board
    from toolcrib.contract.display import ToolDisplay

RULE: Span = ("│ ", "mark")
"""Begins each row of a model's calls and thinking, to distinguish them from its answer even without colours."""
_KEPT = 200
"""Maximum number of items that can be shown in full."""
_MOST_THOUGHT = 200_000
_LIVE_SHARE, _LEAST_LIVE = 4, 4
"""A text has at most rows / _LIVE_SHARE live rows, or _LEAST_LIVE if that is more, so that they fit if the screen shrinks."""


class _Running:
    """A running call, number ``place`` of its reply. ``asked`` is the time that the user took to answer questions about it."""

    def __init__(self, call: ToolCall, display: ToolDisplay, begin: float, place: int) -> None:
        self.call = call
        self.place = place
        self.display = display
        self.begin = begin
        self.asked = 0.0
        self.asking_since: float | None = None
        self.output: list[str] = []
        self.progress: ToolProgressed | None = None
        self.ended: float | None = None
        """Time when the call reported its end. Its result follows when all calls that run in parallel have ended."""
        self.shows: dict[str, Json] = {}
        """The call's activities by name, except its output and its diff."""
        self.differs: str | None = None

    def seconds(self, now: float) -> float:
        """Return the call's own duration so far."""
        waiting = 0.0 if self.asking_since is None else now - self.asking_since
        now = now if self.ended is None else self.ended
        return max(now - self.begin - self.asked - waiting, 0.0)

    def took(self, event: ToolProgressed, now: float) -> None:
        """Record the call's reported progress."""
        self.progress = event
        if event.status in ENDED:
            self.ended = self.ended or now

    def shown(self, event: ToolActivity) -> None:
        """Record the call's current output or activity, in place of the previous one."""
        content = event.content
        if event.activity == OUTPUT:
            self.output = output_lines(content)
        elif event.activity == DIFFERENCE:
            self.differs = text if isinstance(content, dict) and isinstance(text := content.get("text"), str) else None
        else:
            self.shows[event.activity] = content

    def rows(self, now: float, columns: int) -> list[Row]:
        """Return the call's live rows: its line, then a few rows with its progress, output and other activities."""
        below = [] if self.progress is None else [progress_row(self.progress, columns - 4)]
        below += [((shortened(line, columns - 4), "dim"),) for line in self.output]
        for name, content in self.shows.items():
            below += activity_rows(name, content, columns - 4)
        first = running_row(self.call, self.display, self.seconds(now), columns, ended=self.ended is not None)
        return [first, *((("    ", ""), *row) for row in below[: MOST_ROWS + 1])]


class LiveView:
    """A listener that shows events as live rows. ``brief``: as in agent.cli.view.View."""

    def __init__(self, board: Board, *, markdown: bool, thinking: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._board = board
        self.screen = LiveScreen(board)
        self.brief = True
        self.idle = False
        """True while the user is at the prompt and no run is in progress."""
        self.items: dict[int, ShownItem] = {}
        self.numbers: dict[str, int] = {}
        """Call id -> number of the newest call with that id."""
        self._number = 0
        self._clock = clock
        self._text = Markdown(board.columns, laid_out=markdown)
        self._laid_out = markdown
        self._has_text = False
        self._said = ""
        """Text that the next frame formats, for the width that the screen then has."""
        self._plain = ""
        self._shows_thinking = thinking
        self._thought: deque[str] = deque()
        self._thought_length = 0
        self._thinking_since = 0.0
        self._running: dict[str, _Running] = {}
        self._waits_for = ""
        self._waits_since = 0.0
        self._calls = self._coming = 0
        """Number of calls in the last reply, and number of its calls that have not started."""
        self.usage: dict[str, int] = {}
        """The server's token counts of the last turn."""

    # -- events --------------------------------------------------------------------------------------------------

    def __call__(self, event: Event) -> None:
        match event:
            case TextDelta(text=text) if text and not self.brief:  # toolcrib's own text about typed input
                self._plain += text
            case TextDelta(text=text) if text:
                self._end_thought()
                self._waits("")
                self._said += text
                self._has_text = True
            case ThinkingDelta(text=text) if text:
                self._think(text)
            case TurnStarted():
                self._waits("waiting for the model")
            case ToolCallDelta(name=name):
                self._end_thought()
                self._waits(f"the model is writing a call of {one_line(name, 40)}" if name else "the model is writing a call")
            case ToolStarted(call=call):
                self._coming -= 1
                self.end()
                if call.fault is None:
                    self._running[call.id] = _Running(call, display_of(event), self._clock(), self._calls - self._coming)
            case ToolFinished(executed=executed):
                self._finished(executed, display_of(event))
            case Retrying(attempt=attempt, seconds=seconds, reason=reason):
                again = "; the reply starts again" if self._has_text else ""
                self.end()
                self.screen.print_note(f"attempt {attempt} failed: {tame(reason)}\nretrying in {seconds:.1f} s{again}")
                self._waits("waiting for the model")
            case ToolProgressed(call_id=of) if of in self._running:
                self._running[of].took(event, self._clock())
            case ToolActivity(call_id=of) if of in self._running:
                self._running[of].shown(event)
            case _:
                self._rare(event)
        self._board.changed()

    def _rare(self, event: Event) -> None:
        match event:
            case ModelAnswered() | DelegateEnded():
                self.end()
                self.screen.print_note(news_of(event, idle=self.idle))
            case ImageMade(image=image):
                self.end()
                self.screen.print_note(str(image))
                self.screen.draw(image)
            case TurnFinished(finish=finish, usage=usage, calls=calls):
                self._calls = self._coming = calls
                self.end()
                self.usage = dict(usage) or self.usage
                if finish in CUT_SHORT:
                    self.screen.print_note(CUT_SHORT[finish])
            case ContextCompressing():
                self.end()
                self._waits(COMPRESSING)
            case ContextCompressed() | CompressionFailed():
                self.end()
                self.screen.print_note(compression_said(event))
            case SessionBusy():
                self.end()
                self.screen.print_note("another process is using this session; waiting until it is done")
            case _:
                pass

    def said(self, text: str, sign: str = "> ") -> None:
        """Show a message of the user, after a sign."""
        self._board.add(said_rows(text, self._board.columns, sign), "said")

    def end(self) -> None:
        """End the text and the thinking: all of it becomes final."""
        self._end_thought()
        self._waits("")
        if self._plain:
            self.screen.text(self._plain.rstrip("\n"))
            self._plain = ""
        if self._has_text:
            self._read(self._board.columns)
            self._text.end()
            self._board.add(self._text.take(), "text")
            self._has_text = False

    def finish(self) -> None:
        """Make the text and the thinking final, and remove all other live rows, when a run has ended."""
        self.end()
        self._running.clear()
        self._calls = self._coming = 0
        self._board.changed()

    def asking(self, call_id: str, *, begins: bool) -> None:
        """Exclude from a call's duration the time that the user takes to answer about it."""
        running, now = self._running.get(call_id), self._clock()
        if running is None:
            return
        if begins:
            running.asking_since = now
        elif running.asking_since is not None:
            running.asked += now - running.asking_since
            running.asking_since = None

    def place_of(self, call_id: str) -> str:
        """Return which call of the model's reply this is, such as ``call 2 of 3``; "" for a single call."""
        running = self._running.get(call_id)
        return "" if running is None or self._calls < 2 else f"call {running.place} of {self._calls}"

    # -- rows ----------------------------------------------------------------------------------------------------

    @property
    def is_moving(self) -> bool:
        """True while a row changes with time."""
        return bool(self._running or self._waits_for or self._thought_length)

    def rows(self, columns: int) -> list[Row]:
        """Return the live rows, after moving final ones to the board."""
        self._read(columns)
        live: list[Row] = []
        if self._has_text:
            final = self._text.take()
            if final:
                self._board.add(final, "text")
            shown = self._text.live()[-max(self._board.rows // _LIVE_SHARE, _LEAST_LIVE) :]
            live = [*self._board.gap("text"), *shown] if shown else []
        calls = [(RULE, *row) for row in self._calls_rows(columns - width(RULE[0]))]
        if calls:
            live += [*self._board.gap("calls", "text" if live else ""), *calls]
        return [*live, *self._waiting(columns)]

    def _read(self, columns: int) -> None:
        """Format the text received so far."""
        if columns != self._text.columns:
            self._text.resize(columns)
        said, self._said = self._said, ""
        self._text.feed(said)

    def _calls_rows(self, columns: int) -> Iterator[Row]:
        now = self._clock()
        for running in self._running.values():
            if running.asking_since is None:
                yield from running.rows(now, columns)
        asks = any(running.asking_since is not None for running in self._running.values())
        if self._running and self._coming > 0 and not asks:
            more = f"{self._coming} more call{'' if self._coming == 1 else 's'}"
            yield ((shortened(f"  {more} wait{'s' if self._coming == 1 else ''}: they run one after another", columns), "dim"),)

    def _waiting(self, columns: int) -> Iterator[Row]:
        now = self._clock()
        what = "the model is thinking" if self._thought_length else self._waits_for
        if what:
            seconds = now - (self._thinking_since if self._thought_length else self._waits_since)
            spinner = SPINNER[int(now * 10) % len(SPINNER)]
            span = f" {seconds_of(seconds, whole=True)}" if seconds >= 1 else ""
            yield ((f"{spinner} ", "bullet"), (shortened(f"{what} ...{span}", columns - 2), "dim"))

    def add_item(self, title: str, whole: str, diff: str = "") -> int:
        """Store an item's full text and diff; return its number."""
        self._number += 1
        self.items[self._number] = ShownItem(title, whole, diff)
        self.items.pop(self._number - _KEPT, None)
        if len(self.numbers) > 2 * _KEPT:
            self.numbers = {call_id: number for call_id, number in self.numbers.items() if number in self.items}
        return self._number

    def _finished(self, executed: ExecutedCall, display: ToolDisplay) -> None:
        self.end()
        running = self._running.pop(executed.call.id, None)
        differs = None if running is None else running.differs
        number = self.add_item(executed.call.name, whole_of(executed, display), diff_of(executed, differs))
        self.numbers[executed.call.id] = number
        self._add_call(finished_rows(executed, display, number, self._room, whole=not self.brief, differs=differs))
        for image in images_of(executed):
            self.screen.draw(image)

    def show_again(self, executed: ExecutedCall, display: ToolDisplay) -> None:
        """Show a call of a resumed session; it gets a number here. Its duration is unknown."""
        number = self.add_item(executed.call.name, whole_of(executed, display), diff_of(executed))
        self.numbers[executed.call.id] = number
        self._add_call(finished_rows(executed, display, number, self._room, whole=False, timed=False))

    @property
    def _room(self) -> int:
        """The columns of a call's rows."""
        return self._board.columns - width(RULE[0])

    def _add_call(self, rows: list[Row]) -> None:
        """Add a call's rows. The result of a call by hand gets no ``RULE``, so that the user can copy it."""
        shown = len(rows) if self.brief else 1
        self._board.add([*((RULE, *row) for row in rows[:shown]), *rows[shown:]], "calls")

    def _think(self, text: str) -> None:
        if not self._thought_length:
            self.end()
            self._thinking_since = self._clock()
        self._thought_length += len(text)
        if self._thought_length <= _MOST_THOUGHT:
            self._thought.append(text)

    def _end_thought(self) -> None:
        if not self._thought_length:
            return
        seconds, thought = self._clock() - self._thinking_since, "".join(self._thought)
        self._thought.clear()
        self._thought_length = 0
        number = self.add_item("thinking", tame(thought))
        self._board.add([(RULE, (f"💭 thought for {seconds_of(seconds)}  #{number}", "dim"))], "calls")
        if self._shows_thinking:
            self.screen.print_note(thought.strip("\n"))

    def _waits(self, what: str) -> None:
        if what != self._waits_for:
            self._waits_for, self._waits_since = what, self._clock()
