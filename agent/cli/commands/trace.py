"""``toolcrib trace``: what was said and done in a stored session, and who agreed to it."""

from __future__ import annotations

import argparse
import os

from agent.cli.app import OK, open_crib
from toolcrib import ToolcribError

NAME = "trace"
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
    from agent.config import read_secrets
    from tools.redact import Redactor

    with open_crib(args) as crib:
        sessions = crib.store.sessions
        here = str(crib.project_dir)
        info = sessions.get(args.session) if args.session else sessions.latest(cwd=here) or sessions.latest()
        if info is None:
            which = f"no session begins with {args.session!r}" if args.session else "no session is stored yet"
            raise ToolcribError(f"{which}; `toolcrib sessions` lists them")
        redactor = Redactor.of(os.environ, read_secrets(crib.config.path.parent))
        for line in story(crib.store, info):
            print(redactor.text(line))
    return OK
