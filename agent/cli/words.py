"""The chat's own commands, by name: what each is for. slash.py runs them."""

from __future__ import annotations

SLASH = {
    "/help": "this",
    "/tools": "the tools of this session",
    "/model": "which model answers; /model NAME, or /model PROVIDER NAME, takes another one",
    "/image": "/image FILE shows a picture with the next message; /image alone removes it",
    "/explain": "/explain COMMAND tells what would be said of a command here and now; nothing is run",
    "/undo": "undo the last turn's file changes; /undo call, the last call's; /undo redo makes them again",
    "/show": "/show N prints whole what was shown in short, with #N behind it; /show alone, the last one",
    "/new": "begin a new session",
    "/sessions": "the last sessions",
    "/resume": "/resume ID continues one",
    "/quit": "leave (Ctrl-D does too)",
}
