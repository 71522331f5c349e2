"""Describe the use of a model's context: what fills it, and how to continue when it is full."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.cli.escape import one_line
from agent.context.window import BYTES_A_TOKEN, ContextUse, tokens_of, used_now, window_of

if TYPE_CHECKING:
    from agent.cli.itemreader import ItemReader
    from agent.conversation.session import Session

_COMPRESS = "\n  /compress  summarise its middle"
_OFFER = """\
{full}. The session continues if you free space:{compress}
  /fork [N]  a session with its end
  /new       an empty session
  /export    a file with all of it
  /model     a larger model"""
"""The lines have fewer than 40 columns, so that a narrow terminal does not wrap them within a word."""


_NEAR = 0.85
"""A note announces a compression when the context reaches this share of compression.threshold."""


def offer(full: str, *, compress: bool = True) -> str:
    """Return the options of a user whose context is full. ``compress``: the session may be compressed."""
    return _OFFER.format(full=full, compress=_COMPRESS if compress else "")


async def room_left(session: Session, text: str = "") -> str | None:
    """Return a note if the context is full with ``text``, the user's next message; None if it is not, if that is unknown, or if
    the session makes room for the text itself. Asks no server.
    """
    window, more = (await window_of(session)).tokens, tokens_of(text)
    if window is None or (text and session.config.compression.enabled and more < window // 2):
        return None
    used = await used_now(session)
    if used.tokens + more < window:
        return None
    about = "about " if used.counted is None or used.since or more else ""
    return f"the context is full: {about}{used.tokens + more:,} of {window:,} tokens"


async def soon_compressed(session: Session) -> str | None:
    """Return a note if the session will soon be compressed; None if not, or if that is unknown. Asks no server."""
    config, window = session.config.compression, session.link.window
    if window is None or not config.enabled or session.link.is_given:
        return None
    used = (await used_now(session)).tokens
    if used < window * config.threshold * _NEAR:
        return None
    begins = "with your next message" if used >= window * config.threshold else f"from {round(config.threshold * 100)} % on"
    return (
        f"the context is {used * 100 // window} % full; {begins} its middle is summarised. "
        "/compress TEXT does it now, keeping the topics of TEXT"
    )


def context_lines(used: ContextUse, model: str, reader: ItemReader | None) -> list[str]:
    """Return the output of /context, in lines of fewer than 40 columns unless a name or detail is long."""
    width = max((len(part.name) for part in used.parts), default=0)
    digits = len(f"{used.estimated:,}")
    lines = [f"estimated, at {BYTES_A_TOKEN} bytes a token:"]
    for part in used.parts:
        counted = f"  ({part.count:,})" if part.count > 1 or part.detail else ""
        detail = f": {one_line(part.detail, 200)}" if part.detail else ""
        lines.append(f"  {part.name:<{width}}  {part.tokens:>{digits},}{counted}{detail}")
    lines.append(f"  {'total':<{width}}  {used.estimated:>{digits},}")
    lines += _counted(used, model)
    if used.largest:
        lines.append("largest results:")
    for one in used.largest:
        number = None if reader is None else reader.number_of(one.call_id)
        shown = f"  #{number}" if number is not None else ""
        lines.append(f"  {one_line(one.name, 30):<{width}}  {one.tokens:>{digits},}{shown}")
    return lines


def _counted(used: ContextUse, model: str) -> list[str]:
    if not model:
        return ["no model is connected: nothing is sent"]
    lines = [f"the server's last count: {'none yet' if used.counted is None else f'{used.counted:,}'}"]
    lines += [f"estimated since then: {used.since:,}"] if used.since else []
    window = used.window
    if window.tokens is None:
        return [*lines, "window: unknown; to set it:", "  model.context_window"]
    lines += [f"window: {window.tokens:,} ({window.source})", f"used: {used.tokens * 100 // window.tokens} %"]
    return [*lines, *(offer("The context is full").splitlines() if used.is_full else ())]
