"""Parts of our messages: text in Message Styling (XEP-0393), ids, and reactions."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection

from plugins.xmpp.incoming import bare_emoji
from toolcrib.chat import Button, Outbound, without_controls
from toolcrib.platforms import Markup, shown

_NO_XML = {0xFFFE: "\ufffd", 0xFFFF: "\ufffd"}
"""Characters, besides control characters, that would end the connection because XML does not allow them; with replacements."""
_STYLES = Markup(
    bold="*{}*",
    italic="_{}_",
    strike="~{}~",
    code="`{}`",
    block="```\n{}\n```",
    quote=lambda text: "\n".join(f"> {line}" for line in text.split("\n")),
)


def stanza_id(*parts: str) -> str:
    """Return the id of a stanza: the same for the same parts, in every process."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def body_of(out: Outbound, nicks: Collection[str]) -> str:
    """Return a message's text. Unless it is plain, an invisible joiner inside each nick of the room keeps clients from notifying
    users who are named.
    """
    return sendable(out.text) if out.is_plain else quiet(sendable(shown(out.text, _STYLES)), nicks)


def sendable(text: str) -> str:
    """Return a text without characters that no stanza may contain."""
    return without_controls(text).translate(_NO_XML)


def quiet(text: str, nicks: Collection[str]) -> str:
    """Return a text with an invisible joiner inside each nick, so that clients do not notify its user."""
    names = sorted((re.escape(one) for one in nicks if len(one) > 1), key=len, reverse=True)
    if not names:
        return text
    return re.sub(
        rf"(?<!\w)(?:{'|'.join(names)})(?!\w)", lambda found: f"{found[0][0]}\u2060{found[0][1:]}", text, flags=re.IGNORECASE
    )


def emoji_of(button: Button, number: int) -> str:
    """Return the reaction that stands for a button."""
    return button.emoji or f"{number + 1}\ufe0f\u20e3"


def choices_of(out: Outbound) -> dict[str, str]:
    """Return the choices that reactions to a message stand for."""
    return {bare_emoji(emoji_of(one, number)): one.choice for number, one in enumerate(out.buttons)}
