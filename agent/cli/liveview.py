"""A run as it happens, on the chat's own screen: what is final goes up, what goes on is live."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from agent.cli.calls import SPINNER, ShownItem, diff_rows, finished_rows, running_row
from agent.cli.escape import one_line, tame
from agent.cli.render import display_of, seconds_of
from agent.cli.screen.cells import Row, folded, shortened, width, words_of
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
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.image import Image
from toolcrib.contract.session import ExecutedCall
from toolcrib.contract.types import Json, ToolCall
from tools.dispatch.json_results import images_of

if TYPE_CHECKING:
    from agent.cli.screen.frame import Board
    from toolcrib.contract.display import ToolDisplay

_KEPT = 200
"""Items whose wholes are remembered."""
_MOST_THOUGHT = 200_000
_LIVE_SHARE, _LEAST_LIVE = 4, 4
"""Share of the screen's rows, and rows at least, that a text has live: made smaller, a screen holds what it breaks of them."""


class _Running:
    """A call that runs, ``place`` of its reply's. ``asked`` are the seconds that a person was asked about it."""

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
        """Time at which it reported its end; a call that runs beside others is finished with them."""
        self.shows: dict[str, Json] = {}
        """Other activities of the call, by their names."""
        self.differs: str | None = None

    def seconds(self, now: float) -> float:
        """Return how long it took by itself."""
        waiting = 0.0 if self.asking_since is None else now - self.asking_since
        now = now if self.ended is None else self.ended
        return max(now - self.begin - self.asked - waiting, 0.0)

    def took(self, event: ToolProgressed, now: float) -> None:
        """Take how far it says it is."""
        self.progress = event
        if event.status in ENDED:
            self.ended = self.ended or now

    def shown(self, event: ToolActivity) -> None:
        """Take what it shows now in the place of what it showed before."""
        content = event.content
        if event.activity == OUTPUT:
            self.output = output_lines(content)
        elif event.activity == DIFFERENCE:
            self.differs = text if isinstance(content, dict) and isinstance(text := content.get("text"), str) else None
        else:
            self.shows[event.activity] = content

    def rows(self, now: float, columns: int) -> list[Row]:
        """Return its live rows: its line, how far it is, what it prints and what else it shows, in a few rows altogether."""
        below = [] if self.progress is None else [progress_row(self.progress, columns - 4)]
        below += [((shortened(line, columns - 4), "dim"),) for line in self.output]
        for name, content in self.shows.items():
            below += activity_rows(name, content, columns - 4)
        first = running_row(self.call, self.display, self.seconds(now), columns, ended=self.ended is not None)
        return [first, *((("    ", ""), *row) for row in below[: MOST_ROWS + 1])]


class LiveScreen:
    """The chat's screen for what is no run: notes, faults and results of commands. Same methods as agent.cli.render.Screen."""

    interactive = True
    words = False

    def __init__(self, board: Board) -> None:
        self._board = board

    @property
    def width(self) -> int:
        """Columns of a row."""
        return self._board.columns

    def print_note(self, text: str) -> None:
        """Print a note about the chat itself."""
        self._words(text, "dim")

    def fault(self, text: str) -> None:
        self._words(text, "bad")

    def text(self, text: str) -> None:
        """Print a text as it is."""
        rows: list[Row] = []
        for line in tame(text).split("\n"):
            rows += folded(((line.expandtabs(8), ""),) if line else (), self.width)
        self._board.add(rows)

    def diff(self, text: str) -> None:
        """Print a unified diff in colours."""
        self._board.add(diff_rows(text, self.width, named=True))

    def draw(self, image: Image) -> None:
        """Draw a picture between what was printed and what comes, where this terminal is known to show it."""
        from agent.cli.picturing import drawn, protocol_of
        from agent.cli.screen import tty

        if self._board.is_painting and (sequence := drawn(image, protocol_of(), self.width)):
            with self._board.aside():
                tty.write(sequence)

    def whole(self, number: int | None) -> str:
        """Raise ToolcribError: the chat shows its items by LiveView."""
        raise ToolcribError("this screen keeps no items")

    def _words(self, text: str, style: str) -> None:
        rows: list[Row] = []
        for line in tame(text).expandtabs(8).split("\n"):
            blanks = len(line) - len(line.lstrip(" "))
            if width(line) <= self.width or "  " in line.strip():  # columns stay columns
                rows += folded(((line, style),) if line else (), self.width)
                continue
            margin: Row = ((line[:blanks], ""),) if blanks else ()
            rows += [(*margin, *row) for row in words_of(line, style, max(self.width - blanks, 8))]
        self._board.add(rows)


class LiveView:
    """A listener for events, and the live rows that follow from them. ``brief`` as in agent.cli.view.View."""

    def __init__(self, board: Board, *, markdown: bool, thinking: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._board = board
        self.screen = LiveScreen(board)
        self.brief = True
        self.idle = False
        """True while the person is at the prompt, and no run is under way."""
        self.items: dict[int, ShownItem] = {}
        self.numbers: dict[str, int] = {}
        """Number of the newest call of each id."""
        self._number = 0
        self._clock = clock
        self._text = Markdown(board.columns, laid_out=markdown)
        self._laid_out = markdown
        self._has_text = False
        self._said = ""
        """Text that is laid out with the next frame, for the screen as it is then."""
        self._plain = ""
        self._shows_thinking = thinking
        self._thought: deque[str] = deque()
        self._thought_length = 0
        self._thinking_since = 0.0
        self._running: dict[str, _Running] = {}
        self._waits_for = ""
        self._waits_since = 0.0
        self._calls = self._coming = 0
        """Number of calls of the last reply, and of those that have not begun."""
        self.usage: dict[str, int] = {}
        """The server's count of tokens in the last turn."""

    # -- events --------------------------------------------------------------------------------------------------

    def __call__(self, event: Event) -> None:
        match event:
            case TextDelta(text=text) if text and not self.brief:  # ours, about what a person typed
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
                self._waits(f"the model writes a call of {one_line(name, 40)}" if name else "the model writes a call")
            case ToolStarted(call=call):
                self._coming -= 1
                self.end()
                if call.fault is None:
                    self._running[call.id] = _Running(call, display_of(event), self._clock(), self._calls - self._coming)
            case ToolFinished(executed=executed):
                self._finished(executed, display_of(event))
            case Retrying(attempt=attempt, seconds=seconds, reason=reason):
                again = "; the reply begins anew" if self._has_text else ""
                self.end()
                self.screen.print_note(f"attempt {attempt} failed: {tame(reason)}\nasking again in {seconds:.1f} s{again}")
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
                self.screen.print_note("another process is at work on this session; this waits until it is done")
            case _:
                pass

    def end(self) -> None:
        """End the text and the thinking: all of it is final."""
        self._end_thought()
        self._waits("")
        if self._plain:
            self.screen.text(self._plain.rstrip("\n"))
            self._plain = ""
        if self._has_text:
            self._read(self._board.columns)
            self._text.end()
            self._board.add(self._text.take())
            self._has_text = False

    def finish(self) -> None:
        """End all that is live: a run is over."""
        self.end()
        self._running.clear()
        self._calls = self._coming = 0
        self._board.changed()

    def asking(self, call_id: str, *, begins: bool) -> None:
        """Leave out of a call's time what a person takes to answer about it."""
        running, now = self._running.get(call_id), self._clock()
        if running is None:
            return
        if begins:
            running.asking_since = now
        elif running.asking_since is not None:
            running.asked += now - running.asking_since
            running.asking_since = None

    def place_of(self, call_id: str) -> str:
        """Say which call of the model's reply it is: ``call 2 of 3``; "" where it is the only one."""
        running = self._running.get(call_id)
        return "" if running is None or self._calls < 2 else f"call {running.place} of {self._calls}"

    # -- rows ----------------------------------------------------------------------------------------------------

    @property
    def is_moving(self) -> bool:
        """True while something ticks."""
        return bool(self._running or self._waits_for or self._thought_length)

    def rows(self, columns: int) -> list[Row]:
        """Return the live rows, once what became final was given to the board."""
        self._read(columns)
        live: list[Row] = []
        if self._has_text:
            final = self._text.take()
            if final:
                self._board.add(final)
            live += self._text.live()[-max(self._board.rows // _LIVE_SHARE, _LEAST_LIVE) :]
        return [*live, *self._ticking(columns)]

    def _read(self, columns: int) -> None:
        """Lay out the text that has come."""
        if columns != self._text.columns:
            self._text.resize(columns)
        said, self._said = self._said, ""
        self._text.feed(said)

    def _ticking(self, columns: int) -> Iterator[Row]:
        now = self._clock()
        for running in self._running.values():
            if running.asking_since is None:
                yield from running.rows(now, columns)
        asks = any(running.asking_since is not None for running in self._running.values())
        if self._running and self._coming > 0 and not asks:
            more = f"{self._coming} more call{'' if self._coming == 1 else 's'}"
            yield ((shortened(f"  {more} wait{'s' if self._coming == 1 else ''}: one runs after the other", columns), "dim"),)
        what = "the model is thinking" if self._thought_length else self._waits_for
        if what:
            seconds = now - (self._thinking_since if self._thought_length else self._waits_since)
            spinner = SPINNER[int(now * 10) % len(SPINNER)]
            span = f" {seconds_of(seconds, whole=True)}" if seconds >= 1 else ""
            yield ((f"{spinner} ", "bullet"), (f"{what} ...{span}", "dim"))

    def add_item(self, title: str, whole: str, diff: str = "") -> int:
        """Remember the whole of something, and what differs; return its number."""
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
        self._board.add(finished_rows(executed, display, number, self._board.columns, whole=not self.brief, differs=differs))
        for image in images_of(executed):
            self.screen.draw(image)

    def show_again(self, executed: ExecutedCall, display: ToolDisplay) -> None:
        """Show a call of a resumed session; it gets a number here. How long it took is not known."""
        number = self.add_item(executed.call.name, whole_of(executed, display), diff_of(executed))
        self.numbers[executed.call.id] = number
        self._board.add(finished_rows(executed, display, number, self._board.columns, whole=False, timed=False))

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
        self._board.add([((f"💭 thought for {seconds_of(seconds)}", "dim"), (f"  #{number}", "dim"))])
        if self._shows_thinking:
            self.screen.print_note(thought.strip("\n"))

    def _waits(self, what: str) -> None:
        if what != self._waits_for:
            self._waits_for, self._waits_since = what, self._clock()
