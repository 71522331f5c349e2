"""Tool calls in plain text: the protocols, by name and by model name.

A new dialect is a row of ``_fences`` (its tags) and, where what stands between them is new, a reader in ``_bodies`` or
``_tokens``; ``_dialects`` gives it a name and its models, ``templates`` has the marks of its chat template. A protocol that is
more than tags is a toolcrib.TextProtocol of its own, as ``json_object`` is, and has its row in ``_dialects`` too.

A reply's way: ``_stream`` cuts it into text, thinking (``_thoughts``) and blocks, with ``_scan`` for where a block ends and
``_start`` for calls without tags. ``_marks``, ``_code`` and ``_quotes`` say which marks count: a call stands where a reply of its
dialect has one, and what a line, an element, a comment or a quotation shows is text. ``_blocks`` and ``_made`` make calls of what
the readers found; ``_reply`` puts all together, and holds a call back while what follows may show it as an example;
``_sentences`` finds the sentences before a call that forbid it or show it; ``_left`` looks for what nobody read, ``_ends`` for
ends that leave open where an argument ends. In doubt nothing runs, and the model is told. ``_prompt`` words tools and results,
``repair`` reads JSON as models write it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.protocols._dialects import NAMES, find_protocol, protocol_for_model

__all__ = ["NAMES", "find_protocol", "protocol_for_model"]


def __getattr__(name: str) -> object:
    """Load the table of dialects once it is asked for: ``command`` alone needs none of its patterns."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from agent.protocols import _dialects

    return getattr(_dialects, name)
