"""Notify a user who is away that a question waits: through the terminal, or by running the user's command."""

from __future__ import annotations

import logging
import os
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence

TEXT = "toolcrib: a question waits for your answer"
"""Text of the notification. It contains nothing that a model wrote."""
_OSC9, _OSC777 = f"\x1b]9;{TEXT}\a", f"\x1b]777;notify;toolcrib;{TEXT.removeprefix('toolcrib: ')}\a"
_PROGRAMS = ("iTerm.app", "WezTerm", "ghostty")
_log = logging.getLogger(__name__)


def sequence_for(setting: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return the control sequence for a notification, or "". ``auto``: only for terminals that are known to support one."""
    if setting in ("osc9", "osc777"):
        return _OSC9 if setting == "osc9" else _OSC777
    term = environ.get("TERM", "")
    if setting != "auto" or "TMUX" in environ or term.startswith(("tmux", "screen")):
        return ""
    if environ.get("TERM_PROGRAM") in _PROGRAMS or term in ("xterm-kitty", "xterm-ghostty", "wezterm"):
        return _OSC9
    return _OSC777 if term.startswith(("foot", "rxvt")) else ""


def notifier(setting: str, command: Sequence[str], write: Callable[[str], None]) -> Callable[[], None]:
    """Return a function that notifies the user. ``command`` runs in a thread, with the text as its last argument."""
    sequence = sequence_for(setting)

    def notify() -> None:
        if sequence:
            write(sequence)
        if command:
            threading.Thread(target=_run, args=([*command, TEXT],), daemon=True).start()

    return notify


def _run(words: Sequence[str]) -> None:
    nowhere = subprocess.DEVNULL
    try:
        subprocess.run(words, stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True, check=False)
    except OSError as error:
        _log.warning("approval.notify_command: %s cannot be started: %s", words[0], error.strerror or error)
