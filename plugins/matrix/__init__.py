"""Matrix: rooms of any homeserver, through matrix-nio (``pip install 'toolcrib[matrix]'``). README.md has the first steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from toolcrib import hookimpl

if TYPE_CHECKING:
    from .platform import MatrixPlatform


def _made(**given: Any) -> MatrixPlatform:
    from .platform import MatrixPlatform

    return MatrixPlatform(**given)


@hookimpl
def register_platform(add: Callable[[str, Callable[..., Any]], None]) -> None:
    """Add the platform; matrix-nio is imported when it connects."""
    add("matrix", _made)
