"""Start work that can be interrupted even where its caller can't be."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

_INTERRUPTS = (signal.SIGINT, signal.SIGQUIT)
# The second pair is ignored by Python itself, and given back by subprocess only for the first program that it starts.
_AS_IF_NOTHING = (
    "import os, signal, sys\n"
    f"for number in {[int(each) for each in (*_INTERRUPTS, signal.SIGPIPE, signal.SIGXFSZ)]}:\n"
    "    signal.signal(number, signal.SIG_DFL)\n"
    "os.execv(sys.argv[1], sys.argv[2:])\n"
)


def started(argv: Sequence[str | bytes], executable: str, **options: Any) -> subprocess.Popen[bytes]:
    """Start ``executable`` with ``argv``; options as Popen has them. Raises OSError.

    A script that starts us in the background (``toolcrib run ... &``, nohup) has us ignore SIGINT. So would all that we start,
    and a shell that begins like that can never take it back, nor can its commands be interrupted
    (https://pubs.opengroup.org/onlinepubs/9699919799/utilities/V3_chap02.html, 2.11).
    """
    if sys.executable and any(signal.getsignal(each) is signal.SIG_IGN for each in _INTERRUPTS):
        argv = [sys.executable, "-I", "-S", "-c", _AS_IF_NOTHING, executable, *argv]
        executable = sys.executable
    return subprocess.Popen(argv, executable=executable, **options)
