"""Findings of the judge about one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from toolcrib._dataclass import dataclass
from toolcrib._types import Json

Level: TypeAlias = Literal["allow", "ask", "ask-once", "block"]
"""``ask-once`` is asked every time and never remembered; ``block`` is refused whatever anyone granted."""

UNKNOWN_PATH = "?"
"""Placeholder for a path that cannot be known before the command runs; no grant covers it."""

TOOL_RULE = "tool.rule@"
"""Keys of what an operator's rule for a tool asks about: this and the rule's pattern. Such a question is for a person."""

MAX_COMMAND_CHARS = 100_000
"""A longer command is asked about unread."""

_SHOWN_CHARS = 300


@dataclass(frozen=True, slots=True)
class Finding:
    """A reason to ask a person, to allow or to refuse.

    ``key`` is what a grant remembers (``service.stop@nginx``). ``text`` is the resolved command or path that caused it.
    ``scope`` says where it applies, for people. ``paths`` are the absolute paths it touches, UNKNOWN_PATH among them where
    one is unknown; empty where the finding is not about paths. ``argv`` is the simple command as it would be executed, where
    there is one; ``plain``: nothing but its words belongs to it (no redirect, wrapper, variable, other place or unknown part), so
    that a permanent grant may name it. ``cwd`` is the folder it would be executed in, or one above all those that it may be; ""
    where it is unknown.
    """

    key: str
    level: Level
    why: str
    text: str
    scope: str = ""
    paths: tuple[str, ...] = ()
    argv: tuple[str, ...] = ()
    plain: bool = False
    cwd: str = ""

    def to_json(self) -> dict[str, Json]:
        shown: dict[str, Json] = {"key": self.key, "level": self.level, "why": self.why, "text": self.text}
        if self.argv:
            shown["argv"] = list(self.argv)
        if self.scope:
            shown["scope"] = self.scope
        return shown


def visible(text: str, limit: int = _SHOWN_CHARS) -> str:
    """``text`` for people: at most ``limit`` characters, and nothing that a terminal would act on or draw out of order."""
    clipped = text if len(text) <= limit else f"{text[: limit // 2]} ... {text[-(limit // 2) :]}"
    return "".join(char if char.isprintable() or char == "\n" else _escaped(char) for char in clipped)


def _escaped(char: str) -> str:
    return " " if char in "\t\x1f" else char.encode("unicode_escape", "surrogatepass").decode("ascii")


def without_allowed(findings: Sequence[Finding]) -> list[Finding]:
    """The findings of one act, without those of the level allow, and then without those of the level ask."""
    allowed = any(one.level == "allow" for one in findings)
    return [one for one in findings if one.level not in ("allow", "ask")] if allowed else list(findings)


def digestible(finding: Finding) -> dict[str, Json]:
    """All of a finding as JSON: what an answer binds, and what ``from_json`` reads."""
    return {
        **finding.to_json(),
        "argv": list(finding.argv),
        "paths": list(finding.paths),
        "plain": finding.plain,
        "cwd": finding.cwd,
    }


def from_json(data: Mapping[str, Json]) -> Finding:
    """The finding that ``digestible`` wrote. Raises KeyError where a field is missing."""
    return Finding(
        data["key"],
        data["level"],
        data["why"],
        data["text"],
        scope=data.get("scope", ""),
        paths=tuple(data["paths"]),
        argv=tuple(data["argv"]),
        plain=bool(data["plain"]),
        cwd=data["cwd"],
    )
