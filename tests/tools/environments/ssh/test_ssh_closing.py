"""Channels and connections that close at the moment of a write."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest
from paramiko import common

from tools.environments.remote.channel import Channel, ChannelBroken
from tools.environments.ssh.transport import Transport


def _echoes(channel: Channel, eventually: Callable[[Callable[[], object]], None]) -> None:
    """Send a byte to a ``cat`` and wait until it comes back."""
    thread = threading.Thread(target=lambda: eventually(lambda: channel.write(b"x")))
    thread.start()
    thread.join()
    eventually(channel.read)


def test_data_that_meets_the_end_of_its_channel_does_not_end_the_connection(
    sshd, open_link, finish, eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """sshd ends the whole connection for data on a channel that both sides have closed.

    paramiko may send such data, if a guard or a shell ends during the write.
    """
    link = open_link()
    kept, ending = link.open(["cat"]), link.open(["sleep", "5006"])
    eventually(lambda: sshd.pids("sleep 5006"))
    send, ours = Transport._send_user_message, threading.current_thread()
    met: list[bool] = []

    def late(transport: Transport, data: Any) -> None:
        if threading.current_thread() is ours and data.asbytes()[:1] == bytes([common.MSG_CHANNEL_DATA]):
            os.kill(sshd.pids("sleep 5006")[0], signal.SIGKILL)
            eventually(lambda: ending._channel.closed)
            _echoes(kept, eventually)  # by then the end was confirmed
            met.append(True)
        send(transport, data)

    monkeypatch.setattr(Transport, "_send_user_message", late)
    eventually(lambda: ending.write(b"late"))
    monkeypatch.undo()
    assert met == [True]
    _echoes(kept, eventually)
    assert finish(link.open(["echo", "here"])) == (b"here\n", b"", 0)
    ending.close()


def test_a_connection_that_is_closed_while_it_is_written_to_is_a_broken_one(open_link, eventually) -> None:
    """The error is never about the closed descriptor, although the connection's thread closes the socket before it reports."""
    channel = open_link().open(["sleep", "5007"])
    eventually(lambda: channel.write(b"x"))
    channel._channel.get_transport().sock.close()
    with pytest.raises(ChannelBroken):
        eventually(lambda: channel.write(b"") and channel.write(b"x") and False)
    channel.close()
