"""E-mail: the bot's own mailbox, by IMAP and SMTP (``pip install 'toolcrib[email]'``). README.md has the first steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from toolcrib import hookimpl

if TYPE_CHECKING:
    from .platform import EmailPlatform


def _made(**given: Any) -> EmailPlatform:
    from .platform import EmailPlatform

    return EmailPlatform(**given)


@hookimpl
def register_platform(add: Callable[[str, Callable[..., Any]], None]) -> None:
    """Add the platform; its libraries are imported when it connects."""
    add("email", _made)
