"""Ctrl-C, a kill and a closed terminal: what runs is ended first, wherever the signal falls."""

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


class Ended(KeyboardInterrupt):  # asyncio and the dispatcher let no other kind pass from wherever it is raised
    """SIGTERM or SIGHUP came: the command unwinds, and its exit code is 128 + ``number``."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def ending_in_order() -> Iterator[None]:
    """SIGTERM and SIGHUP raise Ended, once, so that everything is closed on the way out."""

    def end(number: int, frame: FrameType | None) -> None:
        for ending in _ENDING:
            signal.signal(ending, signal.SIG_IGN)  # a second one must not break the clean-up off
        raise Ended(number)

    with _handling(end, _ENDING):
        yield


@contextmanager
def interrupting(interrupt: Callable[[], None]) -> Iterator[list[int]]:
    """While calls run, the first signal calls ``interrupt`` and a second one is raised at once: from the event loop, where one
    runs, since a task that it is raised in would raise it once more when the loop is closed. A third does not wait for the loop.

    Gives the list of the signals that came. Raises Ended at the end where SIGTERM or SIGHUP came.
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
        if len(came) == 2:  # else a third one has done it
            raise error

    with _handling(handle, (signal.SIGINT, *_ENDING)):
        yield came
    for number in came:
        if number in _ENDING:
            raise Ended(number)


@contextmanager
def serving(end: Callable[[bool], None], reload: Callable[[], None]) -> Iterator[None]:
    """While a service runs, the first Ctrl-C or SIGTERM calls ``end(False)``, the second ``end(True)``, and a third is raised at
    once. SIGHUP calls ``reload``, unless it says that the terminal is gone: that ends it too. Both are called between any two
    instructions of the main thread.
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
