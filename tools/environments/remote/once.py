"""Run a script with streamed input, in a channel that is used once."""

from __future__ import annotations

import secrets
import select
import time
from collections.abc import Callable, Sequence

from tools.environments.remote.channel import Channel, ChannelBroken, ChannelEnded, Link
from tools.environments.remote.shell_channel import ChannelLost, Halted, NeverBegan, ScriptResult
from tools.time_limit import seconds_left

_STALL = 60.0
"""Seconds within which at least one byte must have moved."""
_UNHEARD = 1.5
"""Seconds without a byte after which to check whether anything runs in the backend at all."""
_LOOK = 0.005
# The script reads a line first, so that no output comes before we listen. The first line that it prints ends foreign output, such
# as a greeting of the account's .bashrc; the last line shows that the script ran to its end.
_AROUND = (
    'IFS= read -r _go; for _to in 1 2; do printf "\\n{first}\\n" >&$_to; done; (\n{text}\n); set -- $?; '
    'for _to in 1 2; do printf "\\n{last} %s\\n" $1 >&$_to; done'
)
_PIECE = 1 << 20


def run_once(
    link: Link, text: str, args: Sequence[str], data: bytes, given_up: Callable[[], bool] = lambda: False
) -> ScriptResult:
    """Run a script for sh. ``data`` is its stdin. Blocks. Raises ChannelLost, EnvironmentFailed.

    ``given_up`` returns True when the call was cancelled, so that no more data is sent.
    """
    first, last = secrets.token_hex(16), secrets.token_hex(16)
    channel = link.open(["sh", "-c", _AROUND.format(text=text, first=first, last=last), "sh", *args])
    said: dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
    begin, end = f"\n{first}\n".encode(), f"\n{last} ".encode()
    over: set[str] = set()
    left = [memoryview(b"go\n"), *([memoryview(data)] if data else [])]
    taken = 0
    moved = asked = time.monotonic()
    stall = seconds_left(_STALL)
    poll = select.poll()  # not ``select``, which supports no descriptor above 1023
    poll.register(channel, select.POLLIN)
    try:
        while True:
            if given_up():
                raise ChannelLost("it was abandoned")
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
                taken = _send(channel, left)
                moved = time.monotonic() if taken else moved
            if time.monotonic() - moved > stall:
                kind = ChannelLost if begin in said["stdout"] else NeverBegan
                raise kind(f"nothing arrived for {stall:.2g} seconds")
            if time.monotonic() - max(moved, asked) > _UNHEARD:
                _need_running(link)
                asked = time.monotonic()
            waiting = not left or not taken
            poll.poll(1000 * ((_LOOK if left else 1.0) if waiting else 0))
    except (ChannelEnded, ChannelBroken) as error:
        kind = NeverBegan if isinstance(error, ChannelEnded) and begin not in said["stdout"] else ChannelLost
        raise kind(str(error)) from error
    except (OSError, ValueError) as error:  # the channel was closed meanwhile
        raise ChannelLost(f"the channel was closed ({error})") from error
    finally:
        channel.close()
    out, status = _between(said["stdout"], begin, end)
    return ScriptResult(int(status), out, _between(said["stderr"], begin, end)[0])


def _need_running(link: Link) -> None:
    if why := link.halted():
        raise Halted(why)


def _send(channel: Channel, left: list[memoryview]) -> int:
    """Send some of the remaining data, and close the input after the last of it. Return the number of bytes."""
    taken = channel.write(left[0][:_PIECE])
    left[0] = left[0][taken:]
    if not left[0]:
        del left[0]
        if not left:
            channel.close_input()
    return taken


def _between(said: bytearray, begin: bytes, end: bytes) -> tuple[bytes, bytes]:
    """Return the data between the two marks, and the data after the second."""
    start, stop = said.find(begin) + len(begin), said.rfind(end)
    return bytes(memoryview(said)[start:stop]), bytes(said[stop + len(end) :])
