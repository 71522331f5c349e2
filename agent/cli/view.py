"""Show a run to the user as it happens."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from agent.cli.escape import one_line, tame
from agent.cli.render import Screen, display_of
from agent.cli.terminal import is_terminal
from agent.cli.working import DIFFERENCE, Spoken
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
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from agent.reply_ends import NOTES

if TYPE_CHECKING:
    from agent.cli.images import ImageFolder
    from agent.conversation.session import Session
    from toolcrib.contract.display import ToolDisplay
    from toolcrib.contract.session import ExecutedCall

COMPRESSING = "compressing the context"
CUT_SHORT = NOTES
"""Warnings about replies that may be incomplete, by ``TurnFinished.finish``."""


class View:
    """A listener that writes events one after another; see agent.cli.liveview for a terminal's screen.

    With ``brief`` a model's calls get one line each; else their results follow too, as for typed calls. Text is shown as it
    arrives. A line names each image that the model makes; ``images`` saves it. A pipe or file receives only final content: the
    text of a turn when the turn has ended, so that a reply that was retried does not appear twice. With ``only_answer`` the
    pipe or file receives only the answer; the text of turns that call tools becomes notes. Progress of slow calls is shown as
    notes. Of the other activities of calls, only the differences of files are shown.
    """

    def __init__(
        self,
        screen: Screen,
        *,
        thinking: bool = False,
        brief: bool = True,
        images: ImageFolder | None = None,
        only_answer: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.screen = screen
        self._spoken = Spoken(clock)
        self.brief = brief
        self._images = images
        self._only_answer = only_answer
        self._thinking = thinking
        self._mid_line = ""  # "text" or "thinking": the content of the unfinished line
        self._said = ""
        self._begun = ""
        """Part of a line, which a screen reader receives when the line is complete."""
        self._held: list[str] | None = None if screen.interactive or is_terminal(sys.stdout) else []

    def __call__(self, event: Event) -> None:
        match event:
            case TextDelta(text=text):
                self._text(text)
            case ThinkingDelta(text=text) if self._thinking:
                self._think(text)
            case ToolStarted(call=call) if call.fault is None:
                self.end()
                self._spoken.started(call.id, call.name)
                (self.screen.opened if self.brief else self.screen.started)(call, display_of(event))
            case ModelAnswered() | DelegateEnded():
                self.end()
                self.screen.print_note(news_of(event))
            case ToolFinished(executed=executed):
                self.end()
                self._spoken.ended(executed.call.id)
                (self.screen.closed if self.brief else self.screen.call)(executed, display_of(event))
            case Retrying(attempt=attempt, seconds=seconds, reason=reason):
                begun = bool(self._said)
                if self._held:
                    self._held.clear()
                self.end()
                again = "; the reply starts again" if begun else ""
                self.screen.print_note(f"attempt {attempt} failed: {tame(reason)}\nretrying in {seconds:.1f} s{again}")
            case ImageMade(image=image):
                self.end()
                saved = "" if self._images is None else f" saved as {tame(str(self._images.save(image)))}"
                self.screen.print_note(f"{image}{saved}")
            case TurnFinished():
                self._turn_ended(event)
            case TurnStarted() if self.screen.words:
                self.screen.print_note("the model is working")
            case _:
                self._rare(event)

    def show_again(self, executed: ExecutedCall, display: ToolDisplay) -> None:
        """Show a call of a resumed session."""
        self.screen.closed(executed, display, timed=False)

    def _rare(self, event: Event) -> None:
        match event:
            case ContextCompressing() if self.screen.interactive:
                self.end()
                self.screen.print_note(f"{COMPRESSING} ...")
            case ContextCompressed() | CompressionFailed():
                self.end()
                self.screen.print_note(compression_said(event))
            case ToolActivity(call_id=of, activity=activity, content={"text": str(diff)}) if activity == DIFFERENCE:
                self.screen.differs(of, diff)
            case ToolProgressed() if line := self._spoken.line(event):
                self.end()
                self.screen.print_note(line)
            case SessionBusy():
                self.end()
                self.screen.print_note("another process is using this session; waiting until it is done")
            case _:
                pass

    def end(self) -> None:
        """Show all text received so far, and move the cursor to the beginning of a line."""
        if self._held:
            self._show("".join(self._held))
            self._held.clear()
        if self._begun:
            self._show(self._begun)
            self._begun = ""
        self._break()
        self._said = ""

    def _turn_ended(self, turn: TurnFinished) -> None:
        if self._only_answer and self._held and turn.calls:
            if said := tame("".join(self._held)).strip():
                self.screen.print_note(said)
            self._held.clear()
        self.end()
        if turn.finish in CUT_SHORT:
            self.screen.print_note(CUT_SHORT[turn.finish])

    def _text(self, text: str) -> None:
        if self._mid_line == "thinking":
            self._break()
        self._said = text or self._said
        if self._held is not None:
            self._held.append(text)
        elif self.screen.words:
            whole, newline, self._begun = (self._begun + text).rpartition("\n")
            self._show(whole + newline)
        elif text:
            self._show(text)

    def _show(self, text: str) -> None:
        if not text:
            return
        self.screen.text(text, end="")
        self._mid_line = "" if text.endswith("\n") else "text"

    def _think(self, text: str) -> None:
        if self._mid_line == "text":
            self._break()
        print(tame(text), end="", file=sys.stdout if self.screen.interactive else sys.stderr, flush=True)
        self._mid_line = "" if text.endswith("\n") else "thinking"

    def _break(self) -> None:
        if self._mid_line:
            print(file=sys.stderr if self._mid_line == "thinking" and not self.screen.interactive else sys.stdout, flush=True)
        self._mid_line = ""


def news_of(event: ModelAnswered | DelegateEnded, *, idle: bool = False) -> str:
    """Return one line about a decision of the approval model, or about the end of a delegate. ``idle``: no run is in progress."""
    if isinstance(event, ModelAnswered):
        return model_said(event)
    from agent.cli.format_delegates import ended_words

    return ended_words(event, idle=idle)


def went_on(session: Session) -> str:
    """Return a note about delegates that continue after an interrupted run, and how to stop them; "" if there are none."""
    found = session.delegates.at_work
    if not found:
        return ""
    who = f"delegate {one_line(found[0].name, 40)} continues" if len(found) == 1 else f"{len(found)} delegates continue"
    return f"; {who}: /delegates stop {'ID ends it' if len(found) == 1 else 'all ends them, /delegates stop ID ends one'}"


def model_said(event: ModelAnswered) -> str:
    """Return one line about a decision of the approval.smart model."""
    model, name, why = one_line(event.model, 60) or "the model", one_line(event.call.name, 60), one_line(event.why)
    return f"{model} approved {name}: {why}" if event.approved else f"{model} did not approve {name}, so a user is asked: {why}"


def compression_said(event: ContextCompressed | CompressionFailed) -> str:
    """Return one line about a compression, or why it failed."""
    if isinstance(event, CompressionFailed):
        return f"the context is nearly full, but was not compressed: {one_line(event.reason)}; use /fork or /new"
    refused = "the server refused the request as too long: " if event.why == "refused" else ""
    unsummarised = f" (without a summary: {one_line(event.problem)})" if event.problem else ""
    tokens = f"{event.before:,} → about {event.after:,} tokens"
    return f"{refused}context compressed{unsummarised}, {tokens}; the whole conversation is kept and can be searched"
