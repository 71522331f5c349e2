"""Findings of the judge about one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.types import Json
from tools.judge.characters import spelled
from tools.judge.effects import Effect

Level: TypeAlias = Literal["allow", "ask", "ask-once", "block"]
"""``ask-once`` is asked every time and never remembered; ``block`` is refused whatever anyone granted."""

UNKNOWN_PATH = "?"
"""Placeholder for a path that cannot be known before the command runs; no grant covers it."""

DIGEST = "sha256:"
"""Beginning of a digest of what a file says (see Finding.settings); no path begins so."""

SAYS_NOTHING = f"{DIGEST}none"
"""In the place of a digest: there is no such file."""

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
    where it is unknown. ``patterns`` are absolute shell patterns with more behind the part that is matched (``/p/*/x``): what
    they match may lead elsewhere. ``leads`` are pairs of a path and where it leads by links, UNKNOWN_PATH where that can't be
    known; a path that is not among them leads to itself, as far as links were looked at. ``settings`` are files that say what the
    command works on, and digests of what they say: a grant holds only while that is the same. ``effect`` says whether a sandbox
    or a snapshot can hold it.
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
    patterns: tuple[str, ...] = ()
    leads: tuple[tuple[str, str], ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    effect: Effect = "outside"

    def to_json(self) -> dict[str, Json]:
        shown: dict[str, Json] = {"key": self.key, "level": self.level, "why": self.why, "text": self.text, "effect": self.effect}
        if self.argv:
            shown["argv"] = list(self.argv)
        if self.scope:
            shown["scope"] = self.scope
        return shown


def visible(text: str, limit: int = _SHOWN_CHARS) -> str:
    """Return ``text`` for people: one line of at most ``limit`` of its characters, and nothing that a terminal would act on, draw
    out of order or not show at all.
    """
    if len(text) > limit:
        half = limit // 2
        text = f"{text[:half]} [... {len(text) - 2 * half:,} characters not shown ...] {text[-half:]}"
    return spelled(text.replace("\t", " ").replace("\x1f", " "))


def without_allowed(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings of one act without those of the level ask, where one of the level allow is among them: it stays."""
    allowed = any(one.level == "allow" for one in findings)
    return [one for one in findings if one.level != "ask"] if allowed else list(findings)


def digestible(finding: Finding) -> dict[str, Json]:
    """All of a finding as JSON: what an answer binds, and what ``from_json`` reads."""
    data: dict[str, Json] = {
        **finding.to_json(),
        "argv": list(finding.argv),
        "paths": list(finding.paths),
        "plain": finding.plain,
        "cwd": finding.cwd,
    }
    if finding.leads:
        data["leads"] = [list(pair) for pair in finding.leads]
    if finding.settings:
        data["settings"] = [list(pair) for pair in finding.settings]
    return data


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
        leads=tuple((path, there) for path, there in data.get("leads", ())),
        settings=tuple((path, says) for path, says in data.get("settings", ())),
        effect=data.get("effect", "outside"),
    )
