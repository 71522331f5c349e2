"""Markdown in Discord's form. No text in it mentions a user, hides behind a spoiler, or gains another meaning."""

from __future__ import annotations

import re

from toolcrib.chat import without_controls
from toolcrib.contract.regex import Regex
from toolcrib.platforms import Markup, shown, without_fences

CHARS = 2_000
"""Limit of characters in a message."""
_MARK = Regex(r"https?://[^\s<>()]+|[\\*_~`|<>\[\]@#]|(?m:^[ \t]*(?:[-+]|\d+(?=\.)))")
_PAIR = Regex("`(?=`)")
_BLANK = "\u200b"
_HIDES = Regex(r"\|(?=\|)|@|<(?=[@#:t/])|\](?=\()")


def discord_of(markdown: str) -> str:
    """Return Markdown in Discord's form. If that is too long, return the original, which Discord shows nearly the same way, but
    disable the marks that would hide text or mention users. A text that consists mostly of such marks may be cut.
    """
    text = shown(markdown, _DISCORD)
    if len(text) <= CHARS:
        return text
    text = without_controls(markdown)
    hidden = _HIDES.sub("\\g<0>\u2060", text)
    return hidden if len(hidden) <= CHARS else f"{hidden[: CHARS - 1]}…"


def discord_of_plain(text: str) -> str:
    """Return a text unchanged as a code block: it can be copied, and contains no active marks."""
    text = without_controls(text)
    code = without_fences(text)
    if len(code) > CHARS - 8:
        code = text.replace("`", "\u02cb")  # usually the text is only backticks: the replacement looks the same
    return f"```\n{code}\n```"


def _words(text: str) -> str:
    return _MARK.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    mark = found[0]
    if len(mark) > 1 and mark.startswith("http"):
        return mark
    return f"{mark[:-1]}\\{mark[-1]}" if not mark[-1].isdecimal() else f"{mark}\\"


def _inline(text: str) -> str:
    """Return code within a line. A backtick in the code would end it, so such code is put between double backticks."""
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
