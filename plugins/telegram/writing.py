"""Markdown as the HTML that Telegram reads. No text in it mentions a user."""

from __future__ import annotations

import html

from toolcrib.chat import without_controls
from toolcrib.contract.regex import Regex
from toolcrib.platforms import Markup, shown

_MENTION = Regex(r"(?<!\w)@")
_TAG = Regex(r"<[^>]*>")


def html_of(markdown: str) -> str:
    """Return Markdown as HTML."""
    return shown(markdown, _HTML)


def html_of_plain(text: str, *, is_code: bool = False) -> str:
    """Return HTML that shows a text as it is, without mentions. ``is_code``: in a code block, unchanged for copying."""
    text = without_controls(text)
    return f"<pre>{_code(text)}</pre>" if is_code else _text(text)


def units(shown: str) -> int:
    """Return the length of the visible text as Telegram counts it for its limit: in UTF-16 units."""
    return len(html.unescape(_TAG.sub("", shown)).encode("utf-16-le")) // 2


def _text(text: str) -> str:
    """Return escaped text; a joiner after each ``@`` prevents mentions."""
    return html.escape(_MENTION.sub("@\u2060", text), quote=False)


def _code(text: str) -> str:
    return html.escape(text, quote=False)


_HTML = Markup(
    words=_text,
    verbatim=_code,
    bold="<b>{}</b>",
    italic="<i>{}</i>",
    strike="<s>{}</s>",
    code="<code>{}</code>",
    block="<pre>{}</pre>",
    block_in='<pre><code class="language-{1}">{0}</code></pre>',
    quote="<blockquote>{}</blockquote>".format,
    link=lambda words, address: f'<a href="{html.escape(address)}">{words}</a>',
)
