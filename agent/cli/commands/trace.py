"""``toolcrib trace``: the history of a stored session, with approvals."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from agent.cli.app import OK, open_crib
from agent.policy.self_protection import folders_of, refuse_below
from toolcrib.contract.errors import ToolcribError

if TYPE_CHECKING:
    from agent.process import Crib

HELP = "Show what was done in a stored session: turns, calls, their outcomes and approvals."
_EPILOG = """\
examples:
  toolcrib trace            the last session of this folder
  toolcrib trace 4f1c

To see it live: `--trace` with run and chat, or TOOLCRIB_TRACE=1.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument(
        "session",
        metavar="SESSION",
        nargs="?",
        default="",
        help="the beginning of its id (default: the last session of this folder)",
    )


def run(args: argparse.Namespace) -> int:
    from tools.dispatch.bridge import run_async

    with open_crib(args, looks=True, as_confirmed=True) as crib:
        refuse_below(folders_of(crib.config), "reading stored sessions")
        redactor = crib.redactor()
        for line in run_async(_story(crib, args.session)):
            print(redactor.text(line))
    return OK


async def _story(crib: Crib, prefix: str) -> list[str]:
    from agent.cli.history import story

    sessions, here = crib.store.sessions, str(crib.project_dir)
    info = await sessions.get(prefix) if prefix else await sessions.latest(cwd=here)
    if info is None:
        which = f"no session begins with {prefix!r}" if prefix else f"no session of this folder ({here}) is stored yet"
        raise ToolcribError(f"{which}; list sessions: toolcrib sessions")
    return await story(crib.store, info)
