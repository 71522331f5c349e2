"""Names that somebody may have meant by a mistyped one."""

from __future__ import annotations

from collections.abc import Iterable


def near(name: str, known: Iterable[str], *, most: int = 1, cutoff: float = 0.6) -> list[str]:
    """Return up to ``most`` of the ``known`` names that are like ``name``, the most alike first.

    ``cutoff`` is how much alike they must be, from 0 to 1. difflib is loaded for it, which nobody needs who makes no mistakes.
    """
    from difflib import get_close_matches

    return get_close_matches(name, list(known), n=most, cutoff=cutoff)
