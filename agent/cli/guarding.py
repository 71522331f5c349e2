"""Bounds of a check of `toolcrib doctor`: faults and delays of its own become findings, and a person sees that it works."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

from agent.cli.finding import CheckFinding
from agent.cli.terminal import is_terminal
from toolcrib.contract.errors import ToolcribError

SECONDS = 30.0
"""Seconds that a check may take where nothing else is said."""
_AGAIN = 5.0
"""Seconds after which a check that went on all the same is told again to end."""
_QUIET = 2.0
"""Seconds that a check takes before a person is told of it."""


class _OverdueError(BaseException):
    """Raised in a check that takes too long: ``except Exception`` does not stop it."""


def guarded(what: str, check: Callable[[], Iterable[CheckFinding]], seconds: float = SECONDS) -> Iterator[CheckFinding]:
    """Yield what the check finds, once it has ended, and what became of it where it broke or took too long."""
    found: list[CheckFinding] = []
    try:
        with _signs(what), _ending(seconds):
            for one in check():
                found.append(one)  # noqa: PERF402 - what was found before it broke stays
    except _OverdueError:
        text = f"{what}: not all is checked, as it took more than {seconds:g} s"
        found.append(CheckFinding("check.overdue", "wrong", text, "run it with --verbose, which shows what it waits for"))
    except Exception as error:  # noqa: BLE001 - doctor must go on whatever is broken
        found.append(_fault(what, error))
    yield from found


def isolated(what: str, findings: Iterable[CheckFinding]) -> Iterator[CheckFinding]:
    """Yield findings as they come, and last what their checks raised between them."""
    try:
        yield from findings
    except Exception as error:  # noqa: BLE001 - as above
        yield _fault(what, error)


def _fault(what: str, error: Exception) -> CheckFinding:
    match error:
        case ToolcribError():
            return CheckFinding("check.failed", "wrong", str(error), "do what the message says")
        case PermissionError():
            fix = "make the file and its folder readable and writable for you"
            return CheckFinding("check.failed", "wrong", f"{what} cannot be checked: {error}", fix)
        case _:
            text = f"{what} cannot be checked: {type(error).__name__}: {error}"
            return CheckFinding("check.failed", "wrong", text, "run it with --verbose, and report it")


@contextmanager
def _ending(seconds: float) -> Iterator[None]:
    """Raise _OverdueError in what takes longer. Without bounds in other threads than the main one, which has the signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        raise _OverdueError

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _signs(what: str) -> Iterator[None]:
    """Tell a person at a terminal what is looked at, and for how long by now."""
    if not is_terminal(sys.stderr):
        yield
        return
    ended, begun = threading.Event(), time.monotonic()
    rewrites = os.environ.get("TERM", "dumb") not in ("", "dumb")

    def show_seconds() -> None:
        if ended.wait(_QUIET):
            return
        while True:
            line = f"looking at {what} ({time.monotonic() - begun:.0f} s)"
            print(f"\r\x1b[K{line}" if rewrites else line, end="" if rewrites else "\n", file=sys.stderr, flush=True)
            if ended.wait(1.0 if rewrites else 10.0):
                break
        print("\r\x1b[K" if rewrites else "", end="", file=sys.stderr, flush=True)

    thread = threading.Thread(target=show_seconds, name="tells of a check", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
