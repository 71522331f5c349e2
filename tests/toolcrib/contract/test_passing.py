"""Transient errors are not treated as facts. They are found by number, through causes, and if a library hides the number."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from agent.config import state_dir
from agent.config._secrets import values_in
from agent.policy import passphrase
from agent.policy.self_protection import is_below
from agent.providers.endpoint import Endpoint
from agent.providers.http import HttpClient
from agent.store._owner import is_dead, new_owner
from toolcrib import ConnectionFailed
from toolcrib.contract.passing import is_passing, raise_passing, shortage
from tools import alive

NoFiles = Callable[[], AbstractContextManager[None]]


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOBUFS])
def test_numbers_that_pass(number: int) -> None:
    error = OSError(number, os.strerror(number))
    assert is_passing(error)
    with pytest.raises(OSError, match=os.strerror(number)):
        raise_passing(error)


@pytest.mark.parametrize("error", [FileNotFoundError(errno.ENOENT, "gone"), OSError("no number"), RuntimeError("no"), None])
def test_facts_do_not_pass(error: BaseException | None) -> None:
    assert not is_passing(error)
    raise_passing(error or ValueError())


def test_threads_memory_and_causes() -> None:
    assert is_passing(RuntimeError("can't start new thread"))
    assert is_passing(MemoryError())
    error = ValueError("unreadable")
    error.__cause__ = OSError(errno.EMFILE, "full")
    assert is_passing(error)


def test_nothing_is_short_here() -> None:
    assert shortage() == ""


def test_without_files_nothing_is_known(no_files: NoFiles) -> None:
    us = new_owner()
    passphrase.set_passphrase("a long passphrase")
    with no_files():
        assert shortage() == os.strerror(errno.EMFILE)
        for ask in (
            lambda: alive.started(os.getpid()),
            lambda: is_dead(us),
            lambda: is_below([state_dir()]),
            lambda: values_in(state_dir()),
            lambda: passphrase.is_right("a long passphrase"),
        ):
            with pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
                ask()
    assert not is_dead(us)
    assert passphrase.is_right("a long passphrase")


async def test_a_connection_that_needs_a_file_is_retried_and_says_so(no_files: NoFiles) -> None:
    client = HttpClient(Endpoint("http://127.0.0.1:9/v1", "m"), {})
    with pytest.raises(ConnectionFailed, match="refused"):  # loads what a request needs
        async with client.post("chat/completions", b"{}"):
            pass
    with no_files(), pytest.raises(ConnectionFailed, match="short of file descriptors, memory or threads") as failed:
        async with client.post("chat/completions", b"{}"):
            pass
    assert failed.value.retryable
    await client.aclose()
