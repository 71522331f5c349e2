"""Close environments that were dropped without ``close``."""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import logging
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any

_log = logging.getLogger(__name__)


def when_dropped(owner: object, close: Callable[[], Coroutine[Any, Any, None]]) -> weakref.finalize[Any, Any]:
    """Run ``close`` when ``owner`` is garbage-collected, unless the returned finalizer is detached. ``close`` must not refer to
    ``owner``.

    Nothing runs when the process exits: the watchdog then ends what is left.
    """
    end = weakref.finalize(owner, _begin, close, os.getpid())
    end.atexit = False
    return end


def _begin(close: Callable[[], Coroutine[Any, Any, None]], pid: int) -> None:
    """Close the environment in its own thread.

    The garbage collector may call this under any lock and in any event loop, even under the locks that starting a Thread takes.
    So a bare thread, which takes none of these locks, starts the Thread.
    """
    if os.getpid() != pid:  # after a fork the environment belongs to the parent, which may still use it
        return
    with contextlib.suppress(RuntimeError):  # the process is exiting and cannot start threads
        _thread.start_new_thread(threading.Thread(target=_end, args=(close,), name="toolcrib-dropped", daemon=True).start, ())


def _end(close: Callable[[], Coroutine[Any, Any, None]]) -> None:
    try:
        asyncio.run(close())
    except Exception:  # noqa: BLE001 - a plugin's environment may raise anything, and there is no caller to report to
        _log.exception("an environment that was dropped without close() could not be ended")
