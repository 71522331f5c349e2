"""The table of the ends of a model's reply, for all wires and protocols: do calls run, and what does the user read (ADR 0032)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.regex import Regex

EndKind: TypeAlias = Literal["whole", "cut", "repeated", "filtered", "broken", "unknown"]
_SHOWN = 200


class ReplyEnd(NamedTuple):
    """Kind of end of a reply. Calls run only after a ``whole`` reply.

    ``finish`` is the value in ProviderTurn. The model reads ``fault`` for each call that did not run; the user reads ``note``.
    ``is_capped``: a run with such an answer reached a limit (exit code 5 of ``toolcrib run``).
    """

    kind: EndKind
    finish: str
    fault: str = ""
    note: str = ""
    is_capped: bool = False


WHOLE = ReplyEnd("whole", "stop")
CUT = ReplyEnd(
    "cut",
    "length",
    "the reply with this call was cut off ({how}), so none of its calls was run; call again, with less in one reply",
    "the reply was cut off at its token limit; raise model.max_output_tokens or the server's limit, or ask for less",
    is_capped=True,
)
REPEATED = ReplyEnd(
    "repeated",
    "repetition",
    "the reply with this call repeated itself and was cut off ({how}), so none of its calls was run",
    "the server cut off the reply because it repeated itself; rephrase the task, or use another model",
    is_capped=True,
)
FILTERED = ReplyEnd(
    "filtered",
    "content_filter",
    "the reply with this call {how}; a filter interrupted it, so none of its calls was run",
    "the server's filter ended the reply before it was complete; rephrase the task",
)
BROKEN = ReplyEnd(
    "broken",
    "other",
    "the reply with this call {how}; calls are not run after such an end, so none of its calls was run",
)
"""Such a reply without calls raises StreamBroken, so that the model is asked again."""
UNKNOWN = ReplyEnd(
    "unknown",
    "other",
    "the reply with this call {how}; calls are not run after such an end, so none of its calls was run",
    "the server ended the reply for a reason that toolcrib does not know, so it may be incomplete; check it, or ask to continue",
)

_OTHERS: tuple[tuple[ReplyEnd, Regex[str]], ...] = (
    (REPEATED, Regex(r"repet|repeat|degenerat")),
    (
        FILTERED,
        Regex(
            r"filter|safety|unsafe|sensitiv|refus|block|prohibit|recitation|guardrail|moderat|spii|armor|censor|copyright"
            r"|polic(?:y|ies)|violat|harm"
        ),
    ),
    (
        BROKEN,
        Regex(
            r"error|fail|abort|cancel|time_?out|timed_out|insufficient|unavailable|overload|interrupt|network|disconnect|expired"
            r"|exception|preempt|malformed"
        ),
    ),
    (CUT, Regex(r"length|max\w*token|token_?(?:limit|cap)|truncat|context_?(?:window|limit|overflow)")),
)
"""Other ends, by parts of the servers' reasons in lower case. Each vendor has its own reasons, and adds new ones."""

NOTES: Mapping[str, str] = {end.finish: end.note for end in (CUT, REPEATED, FILTERED, UNKNOWN)}
"""Warnings about replies that may be incomplete, by ``finish``."""
CAPPED: Sequence[str] = tuple(end.finish for end in (CUT, REPEATED, FILTERED, UNKNOWN) if end.is_capped)
"""The values of ``finish`` for replies that reached a limit."""


_KEPT_START, _KEPT_END = 4_000, 1_000


def shortened(text: str) -> str:
    """Return the beginning and the end of a reply that repeats itself or exceeds its limit."""
    left_out = len(text) - _KEPT_START - _KEPT_END
    if left_out <= 0:
        return text
    return f"{text[:_KEPT_START]}\n[... {left_out:,} characters left out ...]\n{text[-_KEPT_END:]}"


def end_of(word: str, whole: Sequence[str]) -> ReplyEnd:
    """Return the end that a server's word means. ``whole`` are the wire's words for a whole reply, compared exactly."""
    if word in whole:
        return WHOLE
    lower = word.lower().replace("-", "_").replace(" ", "_")
    return next((end for end, words in _OTHERS if words.search(lower)), UNKNOWN)


def worse_word(word: str, native: Any, whole: Sequence[str]) -> str:
    """Return ``native``, the word of the server behind a gateway, if it means a known bad end and ``word`` a whole reply."""
    if not isinstance(native, str) or word not in whole:
        return word
    return word if end_of(native, whole).kind in ("whole", "unknown") else native


def end_of_finish(finish: str) -> ReplyEnd:
    """Return the end that the ``finish`` of a plugin's provider means."""
    if finish in ("stop", "tool_calls"):
        return WHOLE
    return next((end for end in (CUT, REPEATED, FILTERED) if end.finish == finish), UNKNOWN)


def fault_of_end(end: ReplyEnd, word: str) -> str | None:
    """Return the fault that a reply's end gives to all its calls, None if they run. ``word`` is the server's word for it."""
    if end.kind == "whole":
        return None
    return end.fault.format(how=f"ended with {word[:_SHOWN]!r}" if word else "gave no reason for its end")
