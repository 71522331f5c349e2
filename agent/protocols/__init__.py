"""Tool calls in plain text: the protocols, by name and by model name.

A new dialect is a row of ``_fences`` (its tags) and, where what stands between them is new, a reader in ``_bodies`` or
``_tokens``; ``_dialects`` gives it a name and its models, ``templates`` has the marks of its chat template. A protocol that is
more than tags is a toolcrib.TextProtocol of its own, as ``json_object`` is, and has its row in ``_dialects`` too.

A reply's way: ``_stream`` (with ``_scan`` for where a block ends) cuts it into text, thinking and blocks; ``_made`` makes calls
of what the readers found. ``_prompt`` words the tools and results, ``repair`` reads JSON as models write it.
"""

from __future__ import annotations

from agent.protocols._dialects import NAMES, find_protocol, protocol_for_model

__all__ = ["NAMES", "find_protocol", "protocol_for_model"]
