"""Limits for checks of `toolcrib doctor`: a check's errors and delays become findings, and the terminal shows progress."""

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
"""Default time limit of a check in seconds."""
_AGAIN = 5.0
"""Seconds after which a check that has not stopped is interrupted again."""
_QUIET = 2.0
"""Seconds before the terminal shows that a check runs."""


class _OverdueError(BaseException):
    """Raised in a check that takes too long. ``except Exception`` does not catch it."""


def guarded(what: str, check: Callable[[], Iterable[CheckFinding]], seconds: float = SECONDS) -> Iterator[CheckFinding]:
    """Yield the findings of a check when it has ended. If it raised or took too long, also yield a finding about that."""
    found: list[CheckFinding] = []
    try:
        with _signs(what), _ending(seconds):
            for one in check():
                found.append(one)  # noqa: PERF402 - findings before an error are kept
    except _OverdueError:
        text = f"{what}: the check was stopped after {seconds:g} s"
        found.append(CheckFinding("check.overdue", "wrong", text, "run doctor with --verbose to see what the check waits for"))
    except Exception as error:  # noqa: BLE001 - doctor must continue whatever is broken
        found.append(_fault(what, error))
    yield from found


def isolated(what: str, findings: Iterable[CheckFinding]) -> Iterator[CheckFinding]:
    """Yield findings as they arrive. If their checks raise an exception, yield a last finding about it."""
    try:
        yield from findings
    except Exception as error:  # noqa: BLE001 - as above
        yield _fault(what, error)


def _fault(what: str, error: Exception) -> CheckFinding:
    match error:
        case ToolcribError():
            return CheckFinding("check.failed", "wrong", str(error), "follow the message")
        case PermissionError():
            fix = "make the file and its folder readable and writable by you"
            return CheckFinding("check.failed", "wrong", f"{what} cannot be checked: {error}", fix)
        case _:
            text = f"{what} cannot be checked: {type(error).__name__}: {error}"
            return CheckFinding("check.failed", "wrong", text, "run doctor with --verbose, and report this")


@contextmanager
def _ending(seconds: float) -> Iterator[None]:
    """Raise _OverdueError in the block after ``seconds``. Only the main thread receives signals; other threads have no limit."""
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
    """Show at a terminal which check runs, and for how long."""
    if not is_terminal(sys.stderr):
        yield
        return
    ended, begun = threading.Event(), time.monotonic()
    rewrites = os.environ.get("TERM", "dumb") not in ("", "dumb")

    def show_seconds() -> None:
        if ended.wait(_QUIET):
            return
        while True:
            line = f"checking {what} ({time.monotonic() - begun:.0f} s)"
            print(f"\r\x1b[K{line}" if rewrites else line, end="" if rewrites else "\n", file=sys.stderr, flush=True)
            if ended.wait(1.0 if rewrites else 10.0):
                break
        print("\r\x1b[K" if rewrites else "", end="", file=sys.stderr, flush=True)

    thread = threading.Thread(target=show_seconds, name="progress of a check", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
