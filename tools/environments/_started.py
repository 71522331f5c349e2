"""Start work that can be interrupted even where its caller can't be."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from tools.environments.session_mark import mark

_ENDING = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM)
# The second pair is ignored by Python itself, and given back by subprocess only for the first program that it starts.
_AS_IF_NOTHING = (
    "import os, signal, sys\n"
    f"for number in {[int(each) for each in (*_ENDING, signal.SIGPIPE, signal.SIGXFSZ)]}:\n"
    "    signal.signal(number, signal.SIG_DFL)\n"
    "os.environ.pop('LC_CTYPE', None)\n"
    "if sys.argv[1]:\n"
    "    os.environ['LC_CTYPE'] = sys.argv[1]\n"
    "os.execv(sys.argv[2], sys.argv[3:])\n"
)
"""Program that execs another one. LC_CTYPE is given to it apart: Python sets one itself where the locale is C (PEP 538)."""


def started(argv: Sequence[str | bytes], executable: str, **options: Any) -> subprocess.Popen[bytes]:
    """Start ``executable`` with ``argv``, marked as a session's (see session_mark); options as Popen has them. Raises OSError.

    A script that starts us in the background (``toolcrib run ... &``) has us ignore SIGINT, nohup has us ignore SIGHUP. So would
    all that we start, and a shell that begins like that can never take it back, nor can its commands be interrupted
    (https://pubs.opengroup.org/onlinepubs/9699919799/utilities/V3_chap02.html, 2.11). It would list them as its traps, too.
    """
    if sys.executable and any(signal.getsignal(each) is signal.SIG_IGN for each in _ENDING):
        given = options.get("env")
        kind = (os.environ if given is None else given).get("LC_CTYPE", "")
        argv = [sys.executable, "-I", "-S", "-c", _AS_IF_NOTHING, kind, executable, *argv]
        executable = sys.executable
    process = subprocess.Popen(argv, executable=executable, **options)
    mark(process.pid)
    return process
