"""A page, and the conversion of docstrings to Markdown."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.regex import Regex

_SPECIAL = Regex(r"([\\*_\[\]<>#|{}$])")
_LITERAL = Regex(r"``(.+?)``")
_REQUIREMENT = Regex(r" ?\((?:\d{3}-\d+(?:, )?)+\)")
"""Number of a requirement of the specification: readers of a page don't have the specification."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page. ``path`` is below the site's root, without an ending; ``text`` is Markdown and begins with its title."""

    path: str
    text: str

    @property
    def title(self) -> str:
        """The first heading, without ``#``."""
        return self.text.partition("\n")[0].removeprefix("# ").replace("`", "")


def index(path: str, title: str, words: str, below: Iterable[str]) -> Page:
    """Return the page that lists the pages ``below``, by their relative paths."""
    return Page(
        path, f"# {title}\n\n{words}\n\n```{{toctree}}\n:maxdepth: 1\n\n{chr(10).join(f'{one}.md' for one in below)}\n```\n"
    )


def doc_of(thing: Any) -> str:
    """Return a docstring as Markdown: double backquotes become code, and indented text stays indented."""
    return as_markdown(thing.__doc__ or "")


def as_markdown(text: str) -> str:
    """Return the text of a docstring as Markdown."""
    return _REQUIREMENT.sub("", _LITERAL.sub(r"`\1`", inspect.cleandoc(text)))


def plain(text: str) -> str:
    """Return text escaped for Markdown, on one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def code(text: str) -> str:
    """Return text as inline code, even if it contains backquotes."""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    blank = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{blank}{text}{blank}{fence}"


def as_json(value: Any) -> str:
    """Return a value as it is written in the configuration file."""
    return json.dumps(value, ensure_ascii=False, default=list)


def block(text: str, language: str = "text") -> str:
    """Return a block of code, even if it contains fences."""
    fence = "`" * (1 + max((len(run) for run in re.findall("^`{2,}", text, re.MULTILINE)), default=2))
    return f"{fence}{language}\n{text}\n{fence}"


def rows(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table; cells are Markdown."""
    made = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    made += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines]
    return "\n".join(made)
