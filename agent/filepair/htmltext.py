"""Finds the page in a model's plain text: between prose, fences and wrappers."""

from __future__ import annotations

import re

from toolcrib.contract.regex import Regex

_WRAPPER = Regex(r"<file\s+path\s*=\s*(?:\"[^\"<>]*\"|'[^'<>]*')\s*>", re.IGNORECASE)
_FENCE = Regex(r"^[ \t]*(```+|~~~+)[ \t]*([\w+-]*+)[^\n`]*+$", re.MULTILINE)
_FILE_END = Regex(r"</file\s*>", re.IGNORECASE)
_DOCTYPE = Regex(r"<!doctype\s+html\b", re.IGNORECASE)
_HTML = Regex(r"<html[\s>]", re.IGNORECASE)
_HTML_END = Regex(r"</html\s*>", re.IGNORECASE)
_TAG = Regex(r"<[a-zA-Z][\w-]*[\s/>]")
_LANGUAGES = ("", "html", "xhtml", "htm", "svg", "xml", "vue")


def find_html(text: str) -> str:
    """Return the page in ``text``, "" if there is none.

    The search order is: the content of ``<file path="...">``, a page from its doctype or ``<html>`` on, a fenced block with
    tags in it. An unclosed part extends to the end. Within a wrapper the same search applies; if it finds no page, the wrapper's
    whole content is returned.
    """
    wrapped = _wrapped(text)
    if wrapped is not None:
        return _page(wrapped) or _fenced(wrapped) or wrapped.strip()
    return _page(text) or _fenced(text)


def _wrapped(text: str) -> str | None:
    """Return the content of the first wrapper, up to the last closing tag before the next wrapper."""
    begin = _WRAPPER.search(text)
    if begin is None:
        return None
    following = _WRAPPER.search(text, begin.end())
    limit = len(text) if following is None else following.start()
    end = limit
    for found in _FILE_END.finditer(text, begin.end(), limit):
        end = found.start()
    return text[begin.end() : end]


def _page(text: str) -> str:
    begin = _DOCTYPE.search(text) or _HTML.search(text)
    if begin is None:
        return ""
    end = _HTML_END.search(text, begin.end())
    if end is not None:
        return text[begin.start() : end.end()]
    return _until_fence(text[begin.start() :]) if _TAG.search(text, begin.end()) else ""


def _until_fence(page: str) -> str:
    """Return an unclosed page without a fence line at its end."""
    return re.sub(r"\n[ \t]*(?:```+|~~~+)[ \t]*\Z", "", page.rstrip()).strip()


def _fenced(text: str) -> str:
    fence = inside = None
    for found in _FENCE.finditer(text):
        if fence is None:
            fence, language, inside = found[1], found[2].lower(), found.end()
        elif not found[2] and found[1].startswith(fence):
            if page := _fragment(text[inside : found.start()], language):
                return page
            fence = None
    return _fragment(text[inside:], language) if fence is not None else ""


def _fragment(block: str, language: str) -> str:
    return block.strip() if language in _LANGUAGES and _TAG.search(block) else ""
