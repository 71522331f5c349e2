"""The chat's own commands, by name: what each is for. What each does: slash.py."""

from __future__ import annotations

SLASH = {
    "/help": "this",
    "/tools": "the tools of this session",
    "/model": "which model answers; /model NAME, or /model PROVIDER NAME, takes another one",
    "/image": "/image FILE shows a picture with the next message; /image alone takes it back",
    "/undo": "take back the last turn's file changes; /undo call, the last call's; /undo redo brings them back",
    "/new": "begin a new session",
    "/sessions": "the last sessions",
    "/resume": "/resume ID goes on with one",
    "/quit": "leave (Ctrl-D does too)",
}
