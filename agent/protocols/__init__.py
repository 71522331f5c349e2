"""Tool calls in plain text: the protocols, by name and by model name.

A new dialect is a row of ``_fences`` (its tags) and, if the content between them is new, a reader in ``_bodies``, ``_keyed``,
``_colons`` or ``_tokens``; ``_dialects`` gives it a name and its models, ``templates`` has the markers of its chat template. A
protocol with more than tags is a toolcrib.TextProtocol of its own, like ``json_object``, and also has a row in ``_dialects``.

How a reply is read: ``_stream`` splits it into text, thinking (``_thoughts``) and blocks (``_block_steps``), with ``_scan``
for the end of a block and ``_start`` for calls without tags. ``_marks``, ``_code`` and ``_quotes`` decide which marks count: a
call counts where a reply of its dialect may have one; a call shown in a line, an element, a comment or a quotation is text.
``_blocks`` and ``_made`` turn blocks into calls; ``_reply`` assembles the result, and holds a call back while later text may
show that it is an example; ``_sentences`` finds sentences before a call that forbid or introduce it; ``_left`` finds unread
calls, ``_unlisted`` those in forms that no reader knows, ``_ends`` unclear ends of arguments. In doubt nothing runs, and the
model gets the reason. ``_prompt`` formats tools and results, ``repair`` reads JSON as models write it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.protocols._dialects import NAMES, find_protocol, protocol_for_model

__all__ = ["NAMES", "find_protocol", "protocol_for_model"]


def __getattr__(name: str) -> object:
    """Load the table of dialects on first use, because a user of ``command`` alone needs none of its patterns."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from agent.protocols import _dialects

    return getattr(_dialects, name)
