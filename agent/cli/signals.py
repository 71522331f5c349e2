"""Ctrl-C, kill and a closed terminal: running work ends before the process does, whatever code the signal interrupts."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

_ENDING = (signal.SIGTERM, signal.SIGHUP)


class Ended(KeyboardInterrupt):  # a subclass, because asyncio and the dispatcher swallow other exceptions in some places
    """Raised after SIGTERM or SIGHUP: the command unwinds, and its exit code is 128 + ``number``."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Raise Ended once after SIGTERM or SIGHUP, so that the block closes everything on the way out."""

    def end(number: int, frame: FrameType | None) -> None:
        for ending in _ENDING:
            signal.signal(ending, signal.SIG_IGN)  # a second one must not interrupt the clean-up
        raise Ended(number)

    with _handling(end, _ENDING):
        yield


@contextmanager
def interrupting(interrupt: Callable[[], None]) -> Iterator[list[int]]:
    """Within the block, the first signal calls ``interrupt``, and the second raises KeyboardInterrupt or Ended. If an event loop
    runs, the loop raises the exception, not the interrupted task: a task would raise it again when the loop closes. The third
    signal raises it immediately.

    Yields the list of received signals. Raises Ended at the end if SIGTERM or SIGHUP was received.
    """
    came: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        came.append(number)
        if len(came) == 1:
            interrupt()
            return
        error = KeyboardInterrupt() if number == signal.SIGINT else Ended(number)
        loop = _running_loop() if len(came) == 2 else None
        if loop is None:
            raise error
        loop.call_soon_threadsafe(throw, error)

    def throw(error: BaseException) -> None:
        if len(came) == 2:  # else a third signal has raised its own exception
            raise error

    with _handling(handle, (signal.SIGINT, *_ENDING)):
        yield came
    for number in came:
        if number in _ENDING:
            raise Ended(number)


@contextmanager
def serving(end: Callable[[bool], None], reload: Callable[[], None]) -> Iterator[None]:
    """While a service runs, the first Ctrl-C or SIGTERM calls ``end(False)``, the second calls ``end(True)``, and the third
    raises KeyboardInterrupt or Ended immediately. SIGHUP calls ``reload``; if the terminal was closed, it counts as a SIGTERM
    instead. Both functions may be called between any two instructions of the main thread.
    """
    came, at_terminal = 0, os.isatty(2)

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal came
        if number == signal.SIGHUP and (os.isatty(2) or not at_terminal):
            reload()
            return
        came += 1
        if came > 2:
            raise KeyboardInterrupt if number == signal.SIGINT else Ended(number)
        end(came == 2)

    with _handling(handle, (signal.SIGINT, *_ENDING)):
        yield


def _running_loop() -> asyncio.AbstractEventLoop | None:
    import asyncio

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


@contextmanager
def _handling(handler: Callable[[int, FrameType | None], None], numbers: tuple[signal.Signals, ...]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # Python leaves signals to the main thread
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, handler_before in before.items():
            signal.signal(number, handler_before)
