"""Themes: the escape sequence of each style. A style is one or more names from a theme's table, joined by "+"."""

from __future__ import annotations

import os
from collections.abc import Mapping

_SHAPES: Mapping[str, str] = {
    "strong": "1",
    "em": "3",
    "strike": "9",
    "heading": "1",
    "dim": "2",
    "link": "4",
    "chosen": "7",
}
"""Styles that every theme has, without a colour. A theme may redefine them."""

_DARK: Mapping[str, str] = {
    "heading": "1;96",
    "code": "96",
    "url": "2;94",
    "link": "4;94",
    "quote": "3;37",
    "mark": "2",
    "bullet": "36",
    "ok": "32",
    "bad": "91",
    "warn": "93",
    "added": "32",
    "removed": "91",
    "hunk": "36",
    "prompt": "1;96",
    "ask": "1;93",
    "said": "1",
    "keyword": "95",
    "string": "32",
    "comment": "2;3",
    "number": "93",
    "name": "94",
}
_LIGHT: Mapping[str, str] = {
    **_DARK,
    "heading": "1;34",
    "code": "34",
    "url": "2;34",
    "link": "4;34",
    "quote": "3;90",
    "bad": "31",
    "warn": "33",
    "removed": "31",
    "prompt": "1;34",
    "ask": "1;33",
    "keyword": "35",
    "number": "33",
    "name": "34",
}
_SAFE: Mapping[str, str] = {
    **_SHAPES,
    "heading": "1;34",
    "code": "34",
    "url": "2;34",
    "link": "4;34",
    "quote": "3",
    "mark": "2",
    "bullet": "34",
    "ok": "34",
    "bad": "1;33",
    "warn": "33",
    "added": "34",
    "removed": "33",
    "hunk": "2",
    "prompt": "1;34",
    "ask": "1;33",
    "said": "1",
    "keyword": "1",
    "string": "34",
    "comment": "2;3",
    "number": "33",
    "name": "4",
}
"""Blue and yellow, which people with red-green colour blindness can distinguish."""
_NONE: Mapping[str, str] = {
    **_SHAPES,
    "prompt": "1",
    "ask": "1",
    "said": "1",
    "comment": "2",
    "mark": "2",
    "url": "2",
    "bad": "1",
}

THEMES: Mapping[str, Mapping[str, str]] = {
    "dark": {**_SHAPES, **_DARK},
    "light": {**_SHAPES, **_LIGHT},
    "colorblind": _SAFE,
    "none": _NONE,
}


NAMES: Mapping[str, str] = {
    "auto": "dark or light, by the terminal's background if the terminal reports it",
    "dark": "for a dark background",
    "light": "for a light background",
    "colorblind": "blue and yellow: nothing depends on red and green",
    "none": "no colours, only bold, dim and underlined",
}
"""Themes that a user may choose, with descriptions."""


class Theme:
    """The escape sequences of one theme. ``name`` is one of THEMES."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._styles = THEMES[name]
        self._known: dict[str, str] = {"": ""}

    def begin(self, style: str) -> str:
        """Return the sequence that begins a style, or "" for a style that looks like plain text."""
        found = self._known.get(style)
        if found is None:
            codes = [code for name in style.split("+") if (code := self._styles.get(name))]
            found = self._known[style] = f"\x1b[{';'.join(codes)}m" if codes else ""
        return found


def theme_for(wanted: str, color: str = "auto") -> Theme:
    """Return the theme ``wanted``. "auto" means light or dark, by the terminal's background; dark if that is unknown.

    If ``color`` is "never", or is "auto" while NO_COLOR is set, return the theme "none": it has no colours, only attributes
    such as bold and underlined.
    """
    if color == "never" or (color == "auto" and os.environ.get("NO_COLOR")):
        return Theme("none")
    if wanted in THEMES:
        return Theme(wanted)
    background = os.environ.get("COLORFGBG", "").rpartition(";")[2]  # set by some terminals: "0;15" is black on white
    return Theme("light" if background in ("7", "15") else "dark")
