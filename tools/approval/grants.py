"""Standing grants: which findings a grant covers, and which commands can be granted permanently."""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import ConfigError
from toolcrib.contract.store import Grant, GrantScope, GrantStore
from toolcrib.contract.types import Json
from tools.approval.described import PREFIX, described, means, pattern_grant
from tools.approval.leads import everything, is_known, leads_to, places
from tools.judge.findings import DIGEST, SAYS_NOTHING, UNKNOWN_PATH, Finding
from tools.judge.folders import under
from tools.judge.plain import simple_argv

ALLOWLIST_VERSION = 1
ALWAYS_KEY = "command"
"""The key of a permanent grant, which covers one command and not one kind of finding."""

STANDING = frozenset({"task", "session", "uses", "until", "always"})
"""The scopes that outlive one call."""


async def end_session_grants(grants: GrantStore, session_id: str) -> None:
    """Revoke the grants of a session that is no longer used. Raises StoreFailed."""
    for grant in await grants.all(session_id):
        if grant.session_id == session_id:
            await grants.revoke(grant.id)


class MemoryGrants:
    """A GrantStore in the process's memory. Usable from any thread. Never suspends."""

    def __init__(self, grants: Sequence[Grant] = ()) -> None:
        self._lock = threading.Lock()
        self._grants = {grant.id: grant for grant in grants}

    async def add(self, grant: Grant) -> None:
        with self._lock:
            self._grants.setdefault(grant.id, grant)

    async def all(self, session_id: str | None = None, principal: str = "") -> Sequence[Grant]:
        """Return the grants of this session and the permanent ones of this principal; without a session, every grant."""
        with self._lock:
            kept = list(self._grants.values())
        if session_id is None:
            return kept
        return [one for one in kept if (one.principal == principal if one.scope == "always" else one.session_id == session_id)]

    async def spend(self, grant_id: str) -> bool:
        with self._lock:
            grant = self._grants.get(grant_id)
            if grant is None or not grant.uses_left or grant.uses_left < 1:
                return False
            self._grants[grant_id] = replace(grant, uses_left=grant.uses_left - 1)
            return True

    async def revoke(self, grant_id: str) -> bool:
        with self._lock:
            return self._grants.pop(grant_id, None) is not None


def covers(grant: Grant, finding: Finding, *, session_id: str, cwd: str, task_id: str = "", at: float | None = None) -> bool:
    """Return True if ``grant`` covers ``finding`` of a call that runs in ``cwd`` (absolute; "" if the call has none).

    A permanent grant covers exactly one simple command in exactly one folder, anywhere in a command line; without a command, it
    covers the meaning of its pattern below its root. All other grants cover the same key in the same session (and task), if every
    path is at or below the grant's root. For a finding without paths, its folder and every path among its words are compared.
    Links are compared too: the paths that a permanent grant's command touches or names must lead where they led when it was
    granted, and all paths of the other grants must lead below the target of the root. ``at``: now, in Unix seconds. A counted
    grant must also be spent (GrantStore.spend). No grant covers ``ask-once`` and ``block``.
    """
    if finding.level != "ask" or not _says_the_same(grant, finding):
        return False
    if grant.scope == "always":
        if not grant.argv:
            return grant.key.startswith(PREFIX) and means(grant.key, finding.key) and _is_below(grant, finding, cwd)
        return finding.plain and finding.argv == grant.argv and finding.cwd == grant.root and _leads_alike(grant, finding)
    if not session_id or grant.session_id != session_id or grant.key != finding.key or not _still(grant, task_id, at):
        return False
    return _is_below(grant, finding, cwd)


def _is_below(grant: Grant, finding: Finding, cwd: str) -> bool:
    within = _within if finding.paths else under
    if not (finding.paths or finding.argv):
        paths: Sequence[str] = (cwd,) if cwd else ()
    elif not (finding.paths or finding.cwd):
        return False
    else:
        paths = places(finding)
    root = leads_to(grant.links, grant.root) + ("/" if grant.root.endswith("/") else "")
    leads = dict(finding.leads)
    for path in paths:
        there = leads.get(path, path)
        if UNKNOWN_PATH in (path, there) or not (within(path, grant.root) and within(there, root)):
            return False
    return True


def _says_the_same(grant: Grant, finding: Finding) -> bool:
    """Return whether the settings that affect the finding's command are unchanged since the grant was given. A permanent grant
    from plain text in the configuration is not bound to settings.
    """
    if not finding.settings:
        return True
    said = {path: says for path, says in grant.links if says.startswith(DIGEST)}
    return (grant.by == "config.yaml" and not said) or all(
        said.get(path, SAYS_NOTHING) == says for path, says in finding.settings
    )


def _leads_alike(grant: Grant, finding: Finding) -> bool:
    """Return whether all paths that the finding touches or names lead where they led when the grant was given."""
    leads, links = dict(finding.leads), dict(grant.links)
    return is_known(finding) and all(leads.get(path, path) == links.get(path, path) for path in everything(finding))


def _within(path: str, root: str) -> bool:
    """Return whether the path is below ``root``, or is ``root`` itself. If ``root`` ends with a slash, the grant does not cover
    the folder itself.
    """
    return under(path, root) and not (root.endswith("/") and path == root.rstrip("/"))


def _still(grant: Grant, task_id: str, at: float | None) -> bool:
    match grant.scope:
        case "session":
            return True
        case "task":
            return bool(task_id) and grant.task_id == task_id
        case "uses":
            return (grant.uses_left or 0) > 0
        case "until":
            return grant.until is not None and (time.time() if at is None else at) < grant.until
        case _:
            return False


def new_grant(
    scope: GrantScope,
    key: str,
    root: str,
    *,
    session_id: str = "",
    task_id: str = "",
    argv: tuple[str, ...] = (),
    uses: int | None = None,
    until: float | None = None,
    by: str = "",
    at: float = 0.0,
    principal: str = "",
    ticket_id: str = "",
    links: Mapping[str, str] = MappingProxyType({}),
) -> Grant:
    """Return a new grant, or the grant of the answer to this ticket, which is the same each time.

    ``links``: paths that it is bound to, with their targets. Raises ValueError for ``once``, which only covers its own call.
    """
    if scope == "once" or scope not in STANDING:
        raise ValueError(f"no grant is kept for the scope {scope!r}")
    bound = tuple(sorted(links.items()))
    if scope == "always":
        # An id that every process derives, so that any of them can revoke it.
        what = [ALLOWLIST_VERSION, root, argv, *([principal] if principal else ()), *([bound] if bound else ())]
        return Grant(_digest(what), "always", ALWAYS_KEY, root, argv=argv, by=by, at=at, principal=principal, links=bound)
    return Grant(
        _digest([ticket_id, key, root]) if ticket_id else secrets.token_hex(16),
        scope,
        key,
        root,
        session_id=session_id,
        task_id=task_id,
        uses_left=uses,
        until=until,
        by=by,
        at=at,
        principal=principal,
        links=bound,
    )


def _digest(what: Sequence[Json]) -> str:
    return hashlib.sha256(json.dumps(what).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def to_allowlist(grant: Grant) -> dict[str, Json]:
    """Return a permanent grant of the local user as an entry of ``command_allowlist`` in config.yaml.

    Raises ValueError for any other grant.
    """
    if grant.scope != "always" or not grant.argv or grant.principal:
        raise ValueError("only permanent grants of the local user are kept in the configuration")
    entry: dict[str, Json] = {"argv": list(grant.argv), "cwd": grant.root, "version": ALLOWLIST_VERSION}
    return entry | {"links": [word for pair in grant.links for word in pair]} if grant.links else entry


def from_allowlist(entry: Mapping[str, Json] | str, root: str = "") -> Grant:
    """Return the grant that ``to_allowlist`` wrote. Raises ConfigError for an entry that no answer could have made.

    Plain text, as in the specification, is the description of a pattern or one simple command, for the folder ``root``.
    """
    example = "{argv: [rm, -r, build], cwd: /home/me/project, version: 1}"
    if isinstance(entry, str):
        return _from_text(entry, root, example)
    if not isinstance(entry, Mapping) or set(entry) - {"links"} != {"argv", "cwd", "version"}:
        raise ConfigError(f"command_allowlist: an entry has exactly argv, cwd and version, such as {example}; got {entry!r}")
    argv, cwd, version = entry["argv"], entry["cwd"], entry["version"]
    if type(version) is not int or version != ALLOWLIST_VERSION:
        raise ConfigError(
            f"command_allowlist: version must be {ALLOWLIST_VERSION}, not {version!r}; remove the entry and grant it again"
        )
    if not isinstance(cwd, str) or not cwd.startswith("/") or "\x00" in cwd:
        raise ConfigError(f"command_allowlist: cwd must be an absolute path, not {cwd!r}")
    if not isinstance(argv, list) or not argv or not all(isinstance(word, str) for word in argv):
        raise ConfigError(f"command_allowlist: argv must be a list of strings, such as {example}; got {argv!r}")
    if simple_argv(" ".join(argv)) != tuple(argv):
        raise ConfigError(
            f"command_allowlist: {argv!r} is not one plain command (no quotes, patterns, expansions, operators, assignments,"
            " or wrappers such as sudo, env and bash); remove the entry"
        )
    return new_grant("always", ALWAYS_KEY, cwd, argv=tuple(argv), by="config.yaml", links=_linked(entry.get("links", [])))


_LINKS = (
    "command_allowlist: links must be a list of absolute paths, each followed by its target, such as"
    " [/home/me/project/build, /data/build]; got {given!r}"
)


def _linked(given: Json) -> Mapping[str, str]:
    if isinstance(given, list) and len(given) % 2 == 0 and all(isinstance(one, str) for one in given):
        if not all(one.startswith(("/", DIGEST) if at % 2 else "/") for at, one in enumerate(given)):
            raise ConfigError(_LINKS.format(given=given))
        return dict(zip(given[::2], given[1::2], strict=True))
    raise ConfigError(_LINKS.format(given=given))


def _from_text(text: str, root: str, example: str) -> Grant:
    if not root.startswith("/") or "\x00" in root:
        raise ConfigError(f"command_allowlist: {text!r} has no folder, and there is no project here; write it as {example}")
    if (description := described(text.strip())) is not None:
        return pattern_grant(description, root)
    if (argv := simple_argv(text)) is None:
        raise ConfigError(
            f"command_allowlist: {text!r} is neither the description of a dangerous pattern nor one plain command (no quotes,"
            " patterns, expansions, operators, assignments, or wrappers such as sudo, env and bash); remove the entry, or"
            f" write it as {example}"
        )
    grant = new_grant("always", ALWAYS_KEY, root, argv=argv, by="config.yaml")
    return replace(grant, id=hashlib.sha256(f"text {grant.id}".encode()).hexdigest()[:32])  # not the id of a full entry
