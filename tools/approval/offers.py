"""Scopes that an answer may have: each offer with its grants, and its text for users."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence

from toolcrib.contract.dataclass import dataclass, replace
from toolcrib.contract.store import Grant, GrantScope
from toolcrib.contract.types import Json
from tools.approval.grants import covers, new_grant
from tools.approval.leads import bound, everything
from tools.approval.modes import ALL_EDITS, CONFIRM_KEY
from tools.judge.findings import UNKNOWN_PATH, Finding, visible
from tools.judge.plain import simple_argv

MAX_USES = 1_000
MAX_MINUTES = 24 * 60
DEFAULT_USES = 5
DEFAULT_MINUTES = 30
IN_SESSION = "in this session, also when it is resumed, until you revoke it"
"""The end of an offer for the whole session; the chat replaces it in offers about a delegate's calls."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The call that an offer is about. ``root``: the project's folder, which bounds session grants."""

    session_id: str
    task_id: str
    cwd: str
    root: str
    command: str | None
    findings: Sequence[Finding]
    principal: str = ""


def offers(asked: Asked) -> dict[str, str]:
    """Return the offered scopes, each with a text for users about its coverage. A scope that would not cover the same call again
    is not offered.
    """
    found = {"once": "this call only, exactly as shown"}
    if any(finding.level == "ask-once" for finding in asked.findings):
        return found
    if _holds(asked, "session", {}):
        kinds = ", ".join(dict.fromkeys(_kind(finding) for finding in asked.findings))
        below = f"{kinds}, anywhere below {visible(asked.root)}"
        found["session"] = f"{below}, {IN_SESSION}"
        if any(_narrow(finding) for finding in asked.findings) and _holds(asked, "session", {"only": "path"}):
            paths = ", ".join(dict.fromkeys(visible(root) for finding in asked.findings if (root := _narrow(finding))))
            found["path"] = f"{kinds}, of {paths} only, {IN_SESSION}"
        if asked.task_id:
            found["task"] = f"{below}, until this task ends"
        found["uses"] = f"{below}, for {DEFAULT_USES} calls (or another number)"
        found["until"] = f"{below}, for {DEFAULT_MINUTES} minutes (or another number)"
    if asked.command is not None and asked.cwd and (argv := simple_argv(asked.command)) is not None and _lasts(asked, argv):
        found["always"] = f"`{visible(asked.command.strip())}` in {visible(asked.cwd)}, permanently, in every session"
    return found


def _kind(finding: Finding) -> str:
    return ALL_EDITS if finding.key == CONFIRM_KEY else visible(finding.key)


def grants_of(asked: Asked, scope: str, payload: Mapping[str, Json], *, by: str, at: float, ticket_id: str) -> list[Grant]:
    """Return the standing grants of an answer with this scope; [] for ``once``. Raises ValueError for an invalid payload.

    An answer to a ticket gives the same ids each time, because a call that is resumed after a restart may receive it again.
    """
    if scope == "once":
        return []
    if scope == "always":
        argv = simple_argv(asked.command or "")
        if argv is None:
            return []
        links = bound(asked.findings, [path for one in asked.findings for path in everything(one)])
        return [new_grant("always", "", asked.cwd, argv=argv, by=by, at=at, principal=asked.principal, links=links)]
    kept: dict[tuple[str, str], Grant] = {}
    for finding in asked.findings:
        for root in _roots(asked, finding, scope, payload):
            grant = _standing(asked, finding.key, root, scope, payload, by=by, at=at, ticket_id=ticket_id)
            kept.setdefault((finding.key, root), grant)
    return list(kept.values())


def _standing(
    asked: Asked, key: str, root: str, scope: str, payload: Mapping[str, Json], *, by: str, at: float, ticket_id: str
) -> Grant:
    kind: GrantScope = "session"
    uses: int | None = None
    until: float | None = None
    if scope == "uses":
        kind, uses = "uses", _number(payload, "uses", DEFAULT_USES, MAX_USES)
    elif scope == "until":
        kind, until = "until", at + 60 * _number(payload, "minutes", DEFAULT_MINUTES, MAX_MINUTES)
    elif scope == "task":
        kind = "task"
    elif scope not in ("session", "path"):
        raise ValueError(f"unknown scope {scope!r}")
    return new_grant(
        kind,
        key,
        root,
        session_id=asked.session_id,
        task_id=asked.task_id,
        uses=uses,
        until=until,
        by=by,
        at=at,
        principal=asked.principal,
        ticket_id=ticket_id,
        links=bound(asked.findings, [root.rstrip("/") or "/"]),
    )


def _number(payload: Mapping[str, Json], name: str, usual: int, most: int) -> int:
    given = payload.get(name, usual)
    if type(given) is not int or not 1 <= given <= most:
        raise ValueError(f"{name} must be a whole number from 1 to {most}, not {given!r}")
    return given


def _roots(asked: Asked, finding: Finding, scope: str, payload: Mapping[str, Json]) -> list[str]:
    """Return the folders that a grant for this finding is bound to: its own paths for a narrow answer, else the project."""
    if (scope == "path" or payload.get("only") == "path") and _narrow(finding):
        return list(finding.paths)
    return [f"{asked.root.rstrip('/')}/"]


def _narrow(finding: Finding) -> str:
    """Return the text that names the finding's paths, "" if not all are known."""
    known = [path for path in finding.paths if path != UNKNOWN_PATH and posixpath.isabs(path)]
    if not known or len(known) != len(finding.paths):
        return ""
    leads = dict(finding.leads)
    return ", ".join(f"{path} (which leads to {leads[path]})" if path in leads else path for path in known)


def _holds(asked: Asked, scope: str, payload: Mapping[str, Json]) -> bool:
    """Return whether the grants would cover a repetition of the call."""
    if not asked.root or not asked.session_id:
        return False
    trial = grants_of(asked, scope, payload, by="", at=0.0, ticket_id="")
    return all(
        any(covers(grant, part, session_id=asked.session_id, cwd=asked.cwd, task_id=asked.task_id) for grant in trial)
        for finding in asked.findings
        for part in split(finding)
    )


def _lasts(asked: Asked, argv: tuple[str, ...]) -> bool:
    """Return whether a permanent grant for ``argv`` would cover a repetition of the call."""
    grants = grants_of(asked, "always", {}, by="", at=0.0, ticket_id="")
    return all(one.argv == argv and covers(grants[0], one, session_id="", cwd=asked.cwd) for one in asked.findings)


def split(finding: Finding) -> list[Finding]:
    """Return a finding for each path of the finding, because different grants may cover them."""
    if len(finding.paths) < 2:
        return [finding]
    return [replace(finding, paths=(path,)) for path in finding.paths]
