"""HTML as text, and Markdown as HTML that every mail program shows and that loads nothing."""

from __future__ import annotations

import html
from collections.abc import Iterator

from toolcrib.chat import without_controls
from toolcrib.contract.regex import Regex
from toolcrib.platforms import Markup, shown

_UNSEEN = ("script", "style", "head", "title", "template", "noscript", "svg", "object", "select", "textarea")
_BLOCKS = (
    "p",
    "div",
    "tr",
    "table",
    "ul",
    "ol",
    "pre",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "section",
    "article",
    "blockquote",
    "hr",
)
_SPACE, _EMPTY = Regex(r"[ \t\r\n\f]+"), Regex(r"\n{3,}")
_NAME = Regex(r"/?[a-z][a-z0-9]{0,20}", 2)
_HREF = Regex(r"""\shref\s{0,5}=\s{0,5}(?:"(https?://[^"\s]{1,500})"|'(https?://[^'\s]{1,500})')""", 2)
_HIDDEN = Regex(
    r"\shidden(?=[\s=/>]|\Z)|[\"';\s](?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|mso-hide\s*:\s*all"
    r"|(?:opacity|max-height)\s*:\s*0(?:\.0*)?(?![.\d]))",
    2,
)
_TINY = Regex(r"[\"';\s]font-size\s*:\s*0(?:\.0*)?(?![.\d])", 2)
_INLINE = ("span", "font", "p", "a", "b", "i", "u", "em", "strong", "small")
"""Elements that contain text directly: a font size of 0 hides them.

Other elements are containers. Templates set a font size of 0 on these, and their children set their own size.
"""
_ALONE = ("br", "hr", "img", "input", "meta", "link", "wbr", "col")
_ENDED_BY_THEMSELVES = ("p", "li", "td", "th", "tr", "option")
_CSS_COMMENT = Regex(r"/\*[^*]{0,200}\*/")
_TAG = 3_000
"""Number of characters of a tag that are searched for an address."""


def text_of_html(source: str) -> str:
    """Return the text that a reader of the HTML sees. Quotations become lines that begin with ``>``, and a link's address follows
    its text.

    The time is linear in the length, whatever the source: the standard library's parser takes quadratic time for unclosed tags.
    """
    reader = _Reader()
    for kind, piece in _pieces(source):
        if kind == "words":
            reader.words(html.unescape(piece))
        elif kind.startswith("/"):
            reader.end(kind[1:])
        else:
            reader.begin(kind, piece)
    return reader.text()


def _pieces(source: str) -> Iterator[tuple[str, str]]:
    """Yield ("words", text) and (name of a tag, the tag); the name of an end tag begins with ``/``. Invisible content is left
    out.
    """
    at = 0
    while (opens := source.find("<", at)) >= 0:
        yield "words", source[at:opens]
        name = _NAME.match(source, opens + 1)
        if name is None and source[opens + 1 : opens + 2] not in ("!", "?"):
            yield "words", "<"
            at = opens + 1
            continue
        is_comment = source.startswith("<!--", opens)
        closes = source.find("-->" if is_comment else ">", opens + 1)
        if closes < 0:
            return
        at = closes + (3 if is_comment else 1)
        if name is None:
            continue
        kind = name[0].lower()
        yield kind, source[opens : min(closes, opens + _TAG)]
        if kind in _UNSEEN:
            ends = _ends(kind).search(source, at)
            if ends is None:
                return
            at = ends.start()
    yield "words", source[at:]


def _ends(kind: str) -> Regex[str]:
    return Regex(f"</{kind}", 2)


def _is_hidden(kind: str, tag: str) -> bool:
    """Return whether an element's own tag makes it invisible."""
    if len(tag) < 10:  # too short to hide anything
        return False
    said = _CSS_COMMENT.sub("", html.unescape(tag))
    return _HIDDEN.search(said) is not None or (kind in _INLINE and _TINY.search(said) is not None)


class _Reader:
    def __init__(self) -> None:
        self._lines: list[tuple[int, list[str]]] = [(0, [])]
        self._quotes = 0
        self._link = ""
        self._hidden, self._depth = "", 0
        """Name of the element that is not shown, "" for none, and the number of open elements of that name within it."""

    def begin(self, kind: str, tag: str) -> None:
        if self._hidden and (kind != self._hidden or kind not in _ENDED_BY_THEMSELVES):
            self._depth += kind == self._hidden
            return
        self._hidden, self._depth = (kind, 1) if kind not in _ALONE and _is_hidden(kind, tag) else ("", 0)
        if self._hidden:
            self._break()
            return
        if kind == "br" or kind in _BLOCKS:
            self._quotes += kind == "blockquote"
            self._break()
        elif kind == "li":
            self._break()
            self.words("• ")
        elif kind in ("td", "th"):
            self.words(" ")
        elif kind == "a":
            found = _HREF.search(tag)
            self._link = html.unescape(found[1] or found[2]) if found is not None else ""

    def end(self, kind: str) -> None:
        if self._hidden:
            self._depth -= kind == self._hidden
            self._hidden = self._hidden if self._depth else ""
            return
        if kind in _BLOCKS:
            self._quotes -= kind == "blockquote" and self._quotes > 0
            self._break()
        elif kind == "a" and self._link:
            if self._lines[-1][1][-1:] != [self._link]:
                self.words(f" ({self._link})")
            self._link = ""

    def words(self, text: str) -> None:
        if not self._hidden:
            self._lines[-1][1].append(_SPACE.sub(" ", text))

    def _break(self) -> None:
        self._lines.append((self._quotes, []))

    def text(self) -> str:
        lines = (f"{'> ' * min(quotes, 9)}{''.join(words).strip()}" for quotes, words in self._lines)
        return _EMPTY.sub("\n\n", "\n".join(lines)).strip()


def html_of(text: str, *, is_plain: bool) -> str:
    """Return Markdown, or plain text, as HTML with a few tags. Nothing in it loads a resource or runs a script."""
    body = f"<pre>{_words(without_controls(text))}</pre>" if is_plain else shown(text, _HTML)
    return f'<html><body><div style="white-space:pre-wrap;font-family:sans-serif">{body}</div></body></html>\n'


def _words(text: str) -> str:
    return html.escape(text, quote=False)


_HTML = Markup(
    words=_words,
    verbatim=_words,
    bold="<b>{}</b>",
    italic="<i>{}</i>",
    strike="<s>{}</s>",
    code="<code>{}</code>",
    block="<pre>{}</pre>",
    quote="<blockquote>{}</blockquote>".format,
    link=lambda words, address: f'<a href="{html.escape(address)}" rel="noreferrer">{words}</a>',
)
