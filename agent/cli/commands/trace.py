"""``toolcrib trace``: what was said and done in a stored session, and who agreed to it."""

from __future__ import annotations

import argparse

from agent.cli.app import OK, open_crib
from toolcrib import ToolcribError

HELP = "Tell what was done in a stored session: turns, calls, how they ended, who agreed."
_EPILOG = """\
examples:
  toolcrib trace            the last session of this folder
  toolcrib trace 4f1c

To see it as it happens: `--trace` with run and chat, or TOOLCRIB_TRACE=1.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("session", metavar="SESSION", nargs="?", default="", help="the beginning of its id")


def run(args: argparse.Namespace) -> int:
    from agent.cli.history import story

    with open_crib(args) as crib:
        sessions = crib.store.sessions
        here = str(crib.project_dir)
        info = sessions.get(args.session) if args.session else sessions.latest(cwd=here)
        if info is None:
            which = (
                f"no session begins with {args.session!r}"
                if args.session
                else f"no session of this folder ({here}) is stored yet"
            )
            raise ToolcribError(f"{which}; `toolcrib sessions` lists them all")
        redactor = crib.redactor()
        for line in story(crib.store, info):
            print(redactor.text(line))
    return OK
