"""Close environments that nobody closed and nobody references any more."""

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
    """Run ``close`` once ``owner`` is gone, unless the answer is detached before. ``close`` must not lead to ``owner``.

    Not at the end of the process: what a process leaves behind is ended by its watchdog.
    """
    end = weakref.finalize(owner, _begin, close, os.getpid())
    end.atexit = False
    return end


def _begin(close: Callable[[], Coroutine[Any, Any, None]], pid: int) -> None:
    """Close the environment in a thread of its own.

    The garbage collector calls this anywhere: under any lock and in any event loop, also under the locks that starting a Thread
    takes. So a bare thread, which takes none, starts the Thread.
    """
    if os.getpid() != pid:  # a fork: it is our parent's, who may need it
        return
    with contextlib.suppress(RuntimeError):  # no thread can be started any more: the process ends
        _thread.start_new_thread(threading.Thread(target=_end, args=(close,), name="toolcrib-dropped", daemon=True).start, ())


def _end(close: Callable[[], Coroutine[Any, Any, None]]) -> None:
    try:
        asyncio.run(close())
    except Exception:  # noqa: BLE001 - a plugin's environment may raise anything, and there is nobody to tell
        _log.exception("an environment that was dropped without close() could not be ended")
