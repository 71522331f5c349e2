"""The display of a tool's calls on screens: a part of its registration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

from toolcrib.contract.dataclass import dataclass, replace
from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.types import Json

LineStyle: TypeAlias = Literal["", "dim", "strong", "ok", "warn", "bad", "strike"]
Subject: TypeAlias = "Sequence[str] | Callable[[Mapping[str, Json]], str | None]"


class ShownLine(NamedTuple):
    """A line below a call. ``sign`` is a character before it."""

    text: str
    style: LineStyle = "dim"
    sign: str = ""


Below: TypeAlias = "Literal['', 'output', 'content'] | Callable[[Mapping[str, Json]], Sequence[ShownLine]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDisplay:
    """The display of a tool's calls on screens. Without one, screens show the tool's name, its arguments and, on request, its
    result.

    As a function, ``subject`` gets the arguments of a call, and each other field gets the ``data`` of its successful result if
    that is a mapping. If a function returns None or raises, the call is shown like that of any other tool.
    """

    emoji: str = ""
    """The tool's emoji; if it is "", the ``emoji`` of the registration is used."""
    verb: str = ""
    """A word between the tool's name and the subject of the call, such as "reads"."""
    subject: Subject = ()
    """The names of the arguments that show what a call is about (screens join their values by "in"), or a function of all
    arguments that returns the text.
    """
    below: Below = ""
    """The lines below a call: "output" is the end of the result as text, "content" the difference that the call made or else the
    lines of its argument ``content``. A function gets the data of the result, and returns lines.
    """
    outcome: Callable[[Mapping[str, Json]], tuple[str, LineStyle] | None] | None = None
    """A function that returns how a successful call ended, shown in place of "ok": a few words, and their style."""
    brief: bool = False
    """If the output is a pipe, one line is printed for each call. If ``brief`` is True, that line shows the subject and the first
    line of ``below`` instead of all arguments.
    """
    result: Callable[[Mapping[str, Json]], str | None] | None = None
    """A function that returns the data as text, for a user who asks for the whole result."""
    in_result: Sequence[str] = ()
    """Arguments that the result contains too. Screens omit them if they show a successful result."""
    in_difference: Sequence[str] = ()
    """Arguments that the difference in files shows already: an approval prompt leaves them out. This applies to
    built-in tools only: if a plugin's tool declared too much here, a user would approve what they can't see.
    """

    def with_emoji(self, emoji: str) -> ToolDisplay:
        """Return the display with this emoji if it has none of its own."""
        return self if self.emoji or not emoji else replace(self, emoji=emoji)


NO_DISPLAY = ToolDisplay()
