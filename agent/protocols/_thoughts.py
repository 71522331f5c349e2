"""The thinking of a reply, from its beginning to the mark that ends it."""

from __future__ import annotations

import re

from agent.protocols import _fences
from agent.protocols._marks import SpokenMarks
from agent.protocols._reply import ReplyBuilder
from agent.protocols._scan import tokens_of

HALF_TAG = 3
"""Minimum length of a partial tag at the very end that counts as a cut-off tag."""


class Thoughts:
    """Reader of thinking. ``until``, ``peek`` and tags with ``stems`` end it; ``peek`` remains in the text.

    ``skip``: openings and labels that are dropped at the beginning of the thinking.
    """

    def __init__(
        self,
        spoken: SpokenMarks,
        until: tuple[str, ...],
        *,
        peek: tuple[str, ...] = (),
        skip: tuple[str, ...] = (),
        stems: tuple[str, ...] = (),
    ) -> None:
        self._spoken, self._peek, self._skip = spoken, peek, skip
        self._until = tokens_of((*until, *peek), stems=stems)

    def read(self, text: str, reply: ReplyBuilder, *, final: bool) -> tuple[str, bool]:
        """Add thinking to the reply; return the unread text, and whether the thinking has ended."""
        if self._skip:
            text = text.lstrip()
            found = next((one for one in self._skip if text.startswith(one)), "")
            if not (found or final) and any(one.startswith(text) for one in self._skip):
                return text, False
            text, self._skip = text[len(found) :], ()
        for match in self._until.pattern.finditer(text):
            ends = self._ends(match, reply.mused, final=final)
            if ends is not False:
                reply.muse(text[: match.start()])
                return text[match.start() if ends is None or match[0] in self._peek else match.end() :], ends is True
        held = self._until.held(text)
        if final and held < HALF_TAG:
            held = 0
        reply.muse(text[: len(text) - held])
        return "" if final else text[len(text) - held :], False

    def _ends(self, match: re.Match[str], before: str, *, final: bool) -> bool | None:
        """Return whether a mark ends the thinking: harmony's marks may be part of it. None: more text is needed."""
        mark, rest = match[0], match.string[match.end() :]
        if mark in self._peek:
            line = (before + match.string[: match.start()]).rpartition("\n")[2]
            return self._spoken.begins_message(line, rest, anywhere=False, final=final)
        return self._spoken.ends_message(rest, final=final) if self._spoken.in_message and mark in _fences.BODY_ENDS else True
