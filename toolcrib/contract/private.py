"""The mark of text that may repeat what somebody wrote."""

from __future__ import annotations


class Private(str):
    """Text for a log, such as a trace or a model's reason. A gateway's log, which may hold nobody's words, leaves it out."""

    __slots__ = ()
