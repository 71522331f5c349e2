"""A script that gets its input as a stream: a channel of its own, used once."""

from __future__ import annotations

import secrets
import select
import time
from collections.abc import Sequence

from tools.environments.remote.channel import ChannelBroken, ChannelEnded, Link
from tools.environments.remote.keeper import Answer, Lost

_STALL = 60.0
"""Seconds in which at least some byte must have moved."""
_LOOK = 0.005
# It reads a line first, so that nothing comes before we listen; its own last line says that it came to its end.
_AROUND = 'IFS= read -r _go; (\n{text}\n); set -- $?; for _to in 1 2; do printf "\\n%s %s\\n" {nonce} $1 >&$_to; done'
_PIECE = 1 << 20


def run_once(link: Link, text: str, args: Sequence[str], data: bytes) -> Answer:
    """``text`` is for sh; ``data`` its stdin. Blocks. Raises Lost, EnvironmentFailed."""
    nonce = secrets.token_hex(16)
    channel = link.open(["sh", "-c", _AROUND.format(text=text, nonce=nonce), "sh", *args])
    said: dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
    end = f"\n{nonce} ".encode()
    over: set[str] = set()
    left = [memoryview(b"go\n"), *([memoryview(data)] if data else [])]
    taken = 0
    moved = time.monotonic()
    try:
        while True:
            chunk = channel.read()
            if chunk is not None:
                said[chunk[0]] += chunk[1]
                moved = time.monotonic()
                if said[chunk[0]].endswith(b"\n") and end in said[chunk[0]][-64:]:
                    over.add(chunk[0])
                if len(over) == len(said):
                    break
                continue
            if left:
                taken = channel.write(left[0][:_PIECE])
                left[0] = left[0][taken:]
                moved = time.monotonic() if taken else moved
                if not left[0]:
                    del left[0]
                    if not left:
                        channel.close_input()
            if time.monotonic() - moved > _STALL:
                raise Lost(f"nothing came for {_STALL:g} seconds")
            waiting = not left or not taken
            select.select([channel], [], [], (_LOOK if left else 1.0) if waiting else 0)
    except (ChannelEnded, ChannelBroken) as error:
        raise Lost(str(error)) from error
    finally:
        channel.close()
    out, _, status = bytes(said["stdout"]).rpartition(end)
    return Answer(int(status), out, bytes(said["stderr"]).rpartition(end)[0])
