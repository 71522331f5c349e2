"""Parse git's configuration files: sections, keys, quoted values, comments and continued lines."""

from __future__ import annotations

from collections.abc import Iterator

from toolcrib.contract.regex import Regex

_SECTION = Regex(r"^\s*\[([\w.-]+)(?:\s+\"((?:[^\"\\]|\\.)*)\")?\]\s*(.*)$")
_PAIR = Regex(r"^\s*([\w-]+)\s*(?:=\s*(.*))?$")
_VALUE = Regex(r'"((?:[^"\\]|\\.)*)"?|\\(.)|([#;].*)|([^"\\#;]+)')
_ESCAPED = Regex(r"\\(.)")
_MOST_LINES = 2_000


def pairs(text: str) -> Iterator[tuple[str, str]]:
    """Yield the key (``core.hooksPath``, ``filter.lfs.clean``) and the value of each setting in the text of a file."""
    section = ""
    for line in text.replace("\\\n", "").splitlines()[:_MOST_LINES]:
        if (head := _SECTION.match(line)) is not None:
            section = ".".join(part for part in head.groups()[:2] if part)
            line = head[3]
        if (pair := _PAIR.match(line)) is not None:
            yield f"{section}.{pair[1]}", _value(pair[2]) if pair[2] is not None else "true"


def _value(written: str) -> str:
    found: list[str] = []
    for match in _VALUE.finditer(written):
        quoted, escaped, comment, plain = match.groups()
        if comment is not None:
            break
        found.append(_ESCAPED.sub(r"\1", quoted) if quoted is not None else escaped or plain or "")
    return "".join(found).strip()
