"""Colour code line by line. The lexer's state passes from each line to the next, so that no line is read twice."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator
from typing import Any

from agent.cli.screen.cells import Row, Span

_log = logging.getLogger(__name__)
_LONGEST = 2_000
"""Maximum number of characters of a coloured line; a longer line is probably data."""
_STYLES = (
    ("Comment", "comment"),
    ("Keyword", "keyword"),
    ("Operator.Word", "keyword"),
    ("Literal.String", "string"),
    ("Literal.Number", "number"),
    ("Name.Function", "name"),
    ("Name.Class", "name"),
    ("Name.Decorator", "name"),
    ("Name.Tag", "name"),
    ("Generic.Inserted", "added"),
    ("Generic.Deleted", "removed"),
    ("Generic.Subheading", "hunk"),
    ("Generic.Heading", "strong"),
)
"""Styles by prefix of a token's name; the first match counts."""


class Highlighter:
    """Colours the lines of one text: ``row`` takes them in order, and leaves them plain if the language is unknown."""

    def __init__(self, language: str) -> None:
        self._lexer: Any = _lexer(language) if language else None
        self._stack: list[str] = ["root"]

    def row(self, line: str) -> Row:
        """Return the line's spans."""
        if self._lexer is None or len(line) > _LONGEST:
            return ((line, ""),) if line else ()
        try:
            return tuple(_joined(self._spans(f"{line}\n")))
        except Exception as error:  # noqa: BLE001 - the line is shown even if the lexer fails
            _log.debug("shown without colours: %s", error)
            self._lexer = None
            return ((line, ""),) if line else ()

    def copy(self) -> Highlighter:
        """Return an independent copy with the current state."""
        other = object.__new__(Highlighter)
        other._lexer, other._stack = self._lexer, [*self._stack]
        return other

    def _spans(self, text: str) -> Iterator[Span]:
        place, rules, stack = 0, self._lexer._tokens, self._stack
        while place < len(text):
            for match, action, new_state in rules[stack[-1]]:
                found = match(text, place)
                if found is None:
                    continue
                if action is not None:
                    if callable(action) and not isinstance(action, tuple):
                        yield from ((part, _style(str(kind))) for _, kind, part in action(self._lexer, found))
                    else:
                        yield found[0], _style(str(action))
                place = found.end()
                _change(stack, new_state)
                break
            else:
                if text[place] == "\n":
                    del stack[1:]
                yield text[place], ""
                place += 1


def _change(stack: list[str], new_state: Any) -> None:
    """Change a lexer's stack of states as its rule demands: by names, "#pop", "#push", or the number of states to leave."""
    for step in new_state if isinstance(new_state, tuple) else (new_state,):
        if step is None:
            continue
        if isinstance(step, int):
            del stack[max(1, len(stack) + step) :]
        elif step == "#pop":
            del stack[max(1, len(stack) - 1) :]
        elif step == "#push":
            stack.append(stack[-1])
        else:
            stack.append(step)


def _joined(spans: Iterator[Span]) -> Iterator[Span]:
    """Yield the spans without line breaks, and join neighbours with the same style."""
    now, before = "", ""
    for text, style in spans:
        text = text.replace("\n", "")
        if text and style != before and now:
            yield now, before
            now = ""
        if text:
            now, before = now + text, style
    if now:
        yield now, before


@functools.cache
def _style(token: str) -> str:
    """Return the style of a token's kind, such as "Token.Keyword.Constant"."""
    name = token.removeprefix("Token.")
    return next((style for begin, style in _STYLES if name.startswith(begin)), "")


@functools.lru_cache(16)
def _lexer(language: str) -> Any:
    """Return the lexer of a language, or None if there is none that can read line by line."""
    from pygments.lexer import ExtendedRegexLexer, RegexLexer
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        lexer = get_lexer_by_name(language)
    except (ClassNotFound, ValueError):
        return None
    return lexer if isinstance(lexer, RegexLexer) and not isinstance(lexer, ExtendedRegexLexer) else None
