"""Findings of the judge about one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.types import Json
from tools.judge.characters import spelled
from tools.judge.effects import Effect

Level: TypeAlias = Literal["allow", "ask", "ask-once", "block"]
"""``ask-once`` is asked every time and never remembered; ``block`` is refused despite any grant."""

UNKNOWN_PATH = "?"
"""Placeholder for a path that is unknown before the command runs. No grant covers it."""

DIGEST = "sha256:"
"""Prefix of a digest of a file's content (see Finding.settings). No path begins with it."""

SAYS_NOTHING = f"{DIGEST}none"
"""Used in place of a digest if there is no such file."""


def digest_of(text: str) -> str:
    """Return the digest of a text, with its prefix."""
    import hashlib

    return DIGEST + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


TOOL_RULE = "tool.rule@"
"""Prefix of the key of a finding that an operator's rule for a tool makes. The rule's pattern follows the prefix."""

MAX_COMMAND_CHARS = 100_000
"""Maximum length of a command that is read. The user is asked about a longer one."""

_SHOWN_CHARS = 300


@dataclass(frozen=True, slots=True)
class Finding:
    """A reason to ask a user, to allow or to refuse.

    ``key`` is the part that a grant remembers (``service.stop@nginx``). ``text`` is the resolved command or path that caused it.
    ``scope`` is the text that shows users what a grant would cover.

    ``paths`` are the absolute paths that the call touches, including UNKNOWN_PATH if one is unknown; empty if the finding is not
    about paths. ``patterns`` are absolute shell patterns with more after the matched part (``/p/*/x``): their matches may lead
    elsewhere. ``leads`` are pairs of a path and the target of its links, UNKNOWN_PATH if that is unknown; any other path leads to
    itself, as far as links were read.

    ``argv`` is the simple command as it would be executed, if there is one. ``plain``: the command consists of its words only (no
    redirect, wrapper, variable, other host or unknown part), so a permanent grant may name it. ``cwd`` is the folder that the
    command runs in, or a parent of all possible ones; "" if unknown. ``settings`` are files that define what the command works
    on, or ``tool:NAME``, with digests of their content or of the tool's claims about itself: a grant holds only while the digests
    are the same. ``effect`` says whether a sandbox or a
    snapshot can contain the finding.
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
    """Return ``text`` for users: one line of at most ``limit`` characters, without anything that a terminal would act on, draw
    out of order or hide.
    """
    if len(text) > limit:
        half = limit // 2
        text = f"{text[:half]} [... {len(text) - 2 * half:,} characters not shown ...] {text[-half:]}"
    return spelled(text.replace("\t", " ").replace("\x1f", " "))


def without_allowed(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings of one act without those of the level ask, if one of the level allow is among them; that one stays."""
    allowed = any(one.level == "allow" for one in findings)
    return [one for one in findings if one.level != "ask"] if allowed else list(findings)


def digestible(finding: Finding) -> dict[str, Json]:
    """Return all of a finding that an answer is bound to, as JSON that ``from_json`` reads."""
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
    """Return the finding that ``digestible`` wrote. Raises KeyError for a missing field."""
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
