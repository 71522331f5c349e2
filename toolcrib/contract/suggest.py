"""Names similar to a mistyped one."""

from __future__ import annotations

from collections.abc import Iterable


def near(name: str, known: Iterable[str], *, most: int = 1, cutoff: float = 0.6) -> list[str]:
    """Return up to ``most`` of the ``known`` names that are similar to ``name``, the most similar first.

    ``cutoff`` is the minimum similarity, from 0 to 1. difflib is imported only here, because it is needed only after a typo.
    """
    from difflib import get_close_matches

    return get_close_matches(name, list(known), n=most, cutoff=cutoff)
