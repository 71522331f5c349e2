"""Standing grants by description: the meaning of an entry of ``command_allowlist`` that names a dangerous pattern.

The specification's allowlist holds descriptions of ``DANGEROUS_PATTERNS`` ("recursive delete"). The judge does not use these
patterns, so each description stands for the kinds of findings that it means; an appended pattern stands for its own finding.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from types import MappingProxyType

from toolcrib.contract.errors import ConfigError
from toolcrib.contract.store import Grant
from tools.judge.patterns import DANGEROUS_PATTERNS

PREFIX = "pattern@"
"""Prefix of the key of a grant by description. The description follows it. A finding by an appended pattern has such a key."""

_KINDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "recursive delete": ("fs.recursive-delete",),
        "deletes whatever find matches": ("fs.find-delete",),
        "drops a table or database": ("sql.drop",),
        "deletes every row of a table": ("sql.delete-all",),
        "empties a table": ("sql.truncate",),
        "stops a service": ("service.stop",),
        "ends processes by name, or all": ("process.kill-by-name",),
        "rewrites shared history": ("git.push-force",),
    }
)
"""Kinds of findings by description. Commands of other descriptions are denied, always asked about, or concern paths outside
of projects.
"""
_FIRST = frozenset(description for _, description in DANGEROUS_PATTERNS)


def described(text: str) -> str | None:
    """Return the description of the pattern that ``text`` names, by description or expression; None if it names none."""
    return next((description for pattern, description in DANGEROUS_PATTERNS if text in (description, pattern)), None)


def pattern_grant(description: str, root: str) -> Grant:
    """Return the permanent grant for a pattern, for everything below the folder ``root``.

    Raises ConfigError for a pattern that no standing grant can cover.
    """
    if description in _FIRST and description not in _KINDS:
        raise ConfigError(
            f"command_allowlist: no entry can allow {description!r}: such commands are denied, always asked about, or concern"
            " paths outside of projects; remove the entry"
        )
    key, below = f"{PREFIX}{description}", f"{root.rstrip('/')}/"
    name = hashlib.sha256(json.dumps([key, below]).encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return Grant(name, "always", key, below, by="config.yaml")


def means(grant_key: str, finding_key: str) -> bool:
    """Return whether a grant by description covers findings with this key."""
    kinds = _KINDS.get(grant_key.removeprefix(PREFIX), ())
    return grant_key == finding_key or finding_key.partition("@")[0] in kinds
