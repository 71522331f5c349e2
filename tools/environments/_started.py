"""Start processes that can be interrupted even if this process ignores the signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from tools.environments.session_mark import mark

_ENDING = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM)
# Python ignores SIGPIPE and SIGXFSZ. subprocess restores them for its child, which is another Python here and ignores them again.
_AS_IF_NOTHING = (
    "import os, signal, sys\n"
    f"for number in {[int(each) for each in (*_ENDING, signal.SIGPIPE, signal.SIGXFSZ)]}:\n"
    "    signal.signal(number, signal.SIG_DFL)\n"
    "os.environ.pop('LC_CTYPE', None)\n"
    "if sys.argv[1]:\n"
    "    os.environ['LC_CTYPE'] = sys.argv[1]\n"
    "os.execv(sys.argv[2], sys.argv[3:])\n"
)
"""Program that executes another one. LC_CTYPE is passed separately, because Python sets it in the C locale (PEP 538)."""


def started(argv: Sequence[str | bytes], executable: str, **options: Any) -> subprocess.Popen[bytes]:
    """Start ``executable`` with ``argv`` and mark the process as a session's (see session_mark). ``options`` go to Popen.

    Raises OSError. A script that starts toolcrib in the background (``toolcrib run ... &``) makes it ignore SIGINT, and nohup
    makes it ignore SIGHUP. Child processes would inherit that. A shell then could never undo it, could not interrupt its commands
    (https://pubs.opengroup.org/onlinepubs/9699919799/utilities/V3_chap02.html, 2.11) and would list these signals as its traps.
    """
    if sys.executable and any(signal.getsignal(each) is signal.SIG_IGN for each in _ENDING):
        given = options.get("env")
        kind = (os.environ if given is None else given).get("LC_CTYPE", "")
        argv = [sys.executable, "-I", "-S", "-c", _AS_IF_NOTHING, kind, executable, *argv]
        executable = sys.executable
    process = subprocess.Popen(argv, executable=executable, **options)
    mark(process.pid)
    return process
