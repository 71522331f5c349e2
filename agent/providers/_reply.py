"""Reads a reply of status 200 in any form: a stream, a whole body, or something else."""

from __future__ import annotations

import json
from typing import Any

from agent.providers._events import EventReader, check_values
from agent.providers._repetition import RepetitionWatch
from agent.providers.http import Reply
from agent.providers.sse import SseReader
from toolcrib.contract.errors import StreamBroken


async def read_reply(reply: Reply, reader: EventReader, *, server: str, stream: bool) -> None:
    """Feed a reply to ``reader``. Raises a subclass of ProviderError.

    ``stream``: a stream was requested. A reply in the other form is read too.
    """
    kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind.endswith("json") or (not stream and kind != "text/event-stream"):
        reader.read_body(_parsed(await reply.whole(), server))
        return
    if kind == "text/html":
        raise StreamBroken(f"{server} answered with a web page; check the base URL, which usually ends in /v1")
    sse, start, watch = SseReader(), b"", RepetitionWatch(reader, server)
    try:
        async for chunk in reply.chunks(lambda: reader.size):
            start = start or chunk[:200]
            if start.lstrip()[:1] in (b"{", b"["):
                reader.read_body(_parsed(chunk + await reply.whole(), server))
                return
            reader.read_events(sse.feed(chunk))
            if reader.ended:
                if reader.done:
                    await reply.drain()
                    return
                reply.end_soon()
            else:
                watch.record(len(chunk))
        reader.read_events(sse.close())
    except StreamBroken:
        if not reader.ended:  # otherwise the reply was complete, and only its trailer is missing
            raise
    if not reader.begun:
        shown = start.decode("utf-8", "replace")
        raise StreamBroken(f"{server} answered with something that is not an event stream: {shown!r}; check the base URL")


def _parsed(body: bytes, server: str) -> Any:
    check_values(body, server)
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        shown = body[:200].decode("utf-8", "replace")
        raise StreamBroken(f"{server} answered with something that is not JSON: {shown!r}; check the base URL") from None
