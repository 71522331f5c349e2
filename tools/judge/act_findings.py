"""Findings of an act: text for users, and facts that grants are compared with."""

from __future__ import annotations

import posixpath

from tools.judge.effects import Effect, effect_of
from tools.judge.findings import UNKNOWN_PATH, Finding, Level, visible
from tools.judge.meaning.act import Act
from tools.judge.meaning.value import HOLE
from tools.judge.paths import resolve_value

_ELSEWHERE = frozenset({"GIT_DIR", "GIT_WORK_TREE"})
"""Variables that make git work on another folder than its working folder."""


def finding_of(
    act: Act, key: str, level: Level, why: str, scope: str = "", paths: tuple[str, ...] = (), effect: Effect | None = None
) -> Finding:
    """Return a finding. If the act runs in another place (see ``Act.place``), the scope names that place and the path is unknown,
    so that grants for this machine do not cover the finding.

    ``effect`` is the effect that the rule names; None if it is the key's.
    """
    if not paths and key.startswith("fs."):
        written = [target.path for target in act.redirects if ">" in target.op]
        paths = tuple(dict.fromkeys(path for one in written for path in resolve_value(one, act.cwds))) or (UNKNOWN_PATH,)
    scope = scope or ", ".join(path for path in paths if path != UNKNOWN_PATH)
    if act.place:
        paths = (UNKNOWN_PATH,)
        scope = f"{scope} on {act.place}" if scope else f"on {act.place}"
    argv = tuple(one.text for one in act.argv)
    plain = not (act.redirects or act.wrappers or act.environment or act.place or act.fed or act.code or act.stdin is not None)
    plain = plain and all(one.known and not one.pattern for one in act.argv)
    plain = plain and len(act.cwds) == 1 and HOLE not in act.cwds[0]
    known = bool(act.cwds) and all(
        cwd[0] == "/" and HOLE not in cwd for cwd in act.cwds
    )  # otherwise one of the folders is below an unknown home directory
    cwd = posixpath.commonpath(act.cwds) if known and _ELSEWHERE.isdisjoint(act.environment) else ""
    reaches = effect_of(key, act.place, act.wrappers)
    if effect is not None and reaches == effect_of(key):
        reaches = effect
    return Finding(
        *(key, level, why, visible(resolved(act)), visible(scope), paths, argv, plain, cwd),
        effect=reaches,
    )


def resolved(act: Act) -> str:
    """Return the command as users see it: words as the program gets them, words with unknown parts as they were written."""
    words = [one.shown if not one.known and one.shown else one.text.replace(HOLE, "…") for one in act.argv]
    words += [f"{target.op} {target.path.for_people().replace(HOLE, '…')}" for target in act.redirects]
    return " ".join(words) or " ".join(f"{name}={given.for_people()}" for name, given in act.environment.items())
