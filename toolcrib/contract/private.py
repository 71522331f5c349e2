"""Marker for text that may repeat what a user wrote."""

from __future__ import annotations


class Private(str):
    """Text for a log, such as a trace or a model's reason. A gateway's log, which may not contain users' text, omits it."""

    __slots__ = ()
