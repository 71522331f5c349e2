"""A script that gets its input as a stream: a channel of its own, used once."""

from __future__ import annotations

import secrets
import select
import time
from collections.abc import Callable, Sequence

from tools.environments.remote.channel import ChannelBroken, ChannelEnded, Link
from tools.environments.remote.keeper import Answer, Lost, NeverBegan

_STALL = 60.0
"""Seconds within which at least some byte must have moved."""
_LOOK = 0.005
# It reads a line first, so that nothing comes before we listen. Its first line says that what came before is another's, such as
# a greeting of the account's .bashrc; its last one that it came to its end.
_AROUND = (
    'IFS= read -r _go; for _to in 1 2; do printf "\\n{first}\\n" >&$_to; done; (\n{text}\n); set -- $?; '
    'for _to in 1 2; do printf "\\n{last} %s\\n" $1 >&$_to; done'
)
_PIECE = 1 << 20


def run_once(link: Link, text: str, args: Sequence[str], data: bytes, given_up: Callable[[], bool] = lambda: False) -> Answer:
    """Run a script. ``text`` is for sh; ``data`` its stdin. ``given_up``: whether nobody waits for it any more, so that no more
    is sent. Blocks. Raises Lost, EnvironmentFailed.
    """
    first, last = secrets.token_hex(16), secrets.token_hex(16)
    channel = link.open(["sh", "-c", _AROUND.format(text=text, first=first, last=last), "sh", *args])
    said: dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
    begin, end = f"\n{first}\n".encode(), f"\n{last} ".encode()
    over: set[str] = set()
    left = [memoryview(b"go\n"), *([memoryview(data)] if data else [])]
    taken = 0
    moved = time.monotonic()
    poll = select.poll()  # not `select`, which knows no descriptor above 1023
    poll.register(channel, select.POLLIN)
    try:
        while True:
            if given_up():
                raise Lost("it was given up")
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
                kind = Lost if begin in said["stdout"] else NeverBegan
                raise kind(f"nothing came for {_STALL:g} seconds")
            waiting = not left or not taken
            poll.poll(1000 * ((_LOOK if left else 1.0) if waiting else 0))
    except (ChannelEnded, ChannelBroken) as error:
        kind = NeverBegan if isinstance(error, ChannelEnded) and begin not in said["stdout"] else Lost
        raise kind(str(error)) from error
    finally:
        channel.close()
    out, status = _between(said["stdout"], begin, end)
    return Answer(int(status), out, _between(said["stderr"], begin, end)[0])


def _between(said: bytearray, begin: bytes, end: bytes) -> tuple[bytes, bytes]:
    """Return the data between the marks, and the data after the last."""
    start, stop = said.find(begin) + len(begin), said.rfind(end)
    return bytes(memoryview(said)[start:stop]), bytes(said[stop + len(end) :])
