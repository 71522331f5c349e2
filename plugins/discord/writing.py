"""Markdown as Discord reads it. Nothing in it mentions anybody, hides behind a spoiler, or is anything else than it was meant."""

from __future__ import annotations

import re

from toolcrib.chat import without_controls
from toolcrib.contract.regex import Regex
from toolcrib.platforms import Markup, shown, without_fences

CHARS = 2_000
"""Characters that a message may have."""
_MARK = Regex(r"https?://[^\s<>()]+|[\\*_~`|<>\[\]@#]|(?m:^[ \t]*(?:[-+]|\d+(?=\.)))")
_PAIR = Regex("`(?=`)")
_BLANK = "\u200b"
_HIDES = Regex(r"\|(?=\|)|@|<(?=[@#:t/])|\](?=\()")


def discord_of(markdown: str) -> str:
    """Return Markdown in Discord's own; where that is too long, as it stands, which means nearly the same there, but for what
    would hide something or mention somebody. What is of such marks for the most part may lose its end.
    """
    text = shown(markdown, _DISCORD)
    if len(text) <= CHARS:
        return text
    text = without_controls(markdown)
    hidden = _HIDES.sub("\\g<0>\u2060", text)
    return hidden if len(hidden) <= CHARS else f"{hidden[: CHARS - 1]}…"


def discord_of_plain(text: str) -> str:
    """Return a text as it stands, as code: it can be copied, and nothing in it is a mark."""
    text = without_controls(text)
    code = without_fences(text)
    if len(code) > CHARS - 8:
        code = text.replace("`", "\u02cb")  # of nothing but backticks, mostly: they look the same
    return f"```\n{code}\n```"


def _words(text: str) -> str:
    return _MARK.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    mark = found[0]
    if len(mark) > 1 and mark.startswith("http"):
        return mark
    return f"{mark[:-1]}\\{mark[-1]}" if not mark[-1].isdecimal() else f"{mark}\\"


def _inline(text: str) -> str:
    """Return code within a line: one backtick within it would end it, unless it has two around it."""
    if "`" not in text:
        return f"`{text}`"
    code = _PAIR.sub("`\u200b", text)
    return f"``{_BLANK * code.startswith('`')}{code}{_BLANK * code.endswith('`')}``"


_DISCORD = Markup(
    words=_words,
    verbatim=without_fences,
    bold="**{}**",
    italic="*{}*",
    strike="~~{}~~",
    inline=_inline,
    block="```\n{}\n```",
    block_in="```{1}\n{0}\n```",
    quote=lambda text: "\n".join(f"> {line}" for line in text.split("\n")),
    link=lambda words, address: address if words == address else f"[{words}](<{address}>)",
)
