"""Markdown as Slack's mrkdwn. No text in it mentions a user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolcrib.chat import Outbound, without_controls
from toolcrib.contract.regex import Regex
from toolcrib.platforms import Markup, button_data, shown, without_fences

CHARS = 3_900
"""Limit of characters in a message that Slack can edit; Slack documents 4,000."""
_SECTION = 2_900
"""Limit of characters in a block of text; Slack accepts 3,000."""
_VALUE_BYTES = 2_000
_ESCAPED = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_ESCAPES = Regex("[&<>]")


def mrkdwn_of(out: Outbound) -> str:
    """Return a message's text, converted from Markdown or, if it is plain, in a code block."""
    if out.is_plain:
        return f"```\n{_code(without_controls(out.text))}\n```"
    return shown(out.text, _SLACK)


def blocks_of(text: str, out: Outbound) -> list[dict[str, Any]]:
    """Return a message as blocks if it has buttons or is too long, else no blocks, because its text is enough."""
    if not out.buttons and len(text) <= CHARS:
        return []
    sections = [{"type": "section", "text": {"type": "mrkdwn", "text": part, "verbatim": True}} for part in _parts(text, out)]
    rows = [
        {
            "type": "button",
            "text": {"type": "plain_text", "text": one.label[:75], "emoji": False},
            "action_id": f"choice{number}",
            "value": button_data(one, out.key, _VALUE_BYTES),
        }
        for number, one in enumerate(out.buttons)
    ]
    return [*sections, {"type": "actions", "elements": rows[:25]}] if rows else sections


def _parts(text: str, out: Outbound) -> Sequence[str]:
    """Return a text cut into parts that fit a block; code blocks are closed and opened again."""
    if len(text) <= _SECTION:
        return [text]
    body, fence = (text[4:-4], "```\n{}\n```") if out.is_plain else (text, "{}")
    most, found = _SECTION - 8, list[str]()
    while body:
        end = most if len(body) <= most else body.rfind("\n", most // 2, most) + 1 or most
        while "&" in body[max(0, end - 5) : end] and end < len(body) and ";" not in body[body.rfind("&", 0, end) : end]:
            end -= 1  # never inside an escape sequence
        part, body = body[:end], body[end:]
        if body and not out.is_plain and part.count("```") % 2:
            part, body = f"{part}\n```", f"```\n{body}"
        found.append(fence.format(part))
    return found


def _words(text: str) -> str:
    return _ESCAPES.sub(lambda found: _ESCAPED[found[0]], text)


def _code(text: str) -> str:
    """Return text that stays within its code block: three backticks would end it."""
    return _words(without_fences(text))


_SLACK = Markup(
    words=_words,
    verbatim=_code,
    bold="*{}*",
    italic="_{}_",
    strike="~{}~",
    code="`{}`",
    block="```\n{}\n```",
    quote=lambda text: "\n".join(f"> {line}" for line in text.split("\n")),
    link=lambda words, address: f"<{_words(address).replace('|', '%7C')}|{words.replace('|', chr(0xA6))}>",
)
