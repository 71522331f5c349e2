"""``toolcrib doctor``: what is wrong here, and what to do about it."""

from __future__ import annotations

import argparse
from pathlib import Path

from agent.below import folders_of, refuse_below
from agent.cli.app import FAILED, OK
from toolcrib import ToolcribError

HELP = "Check this installation and its configuration; each fault comes with its fix."
_EPILOG = """\
examples:
  toolcrib doctor
  toolcrib doctor --repair-store

It works with a broken configuration too. The exit code is 1 where something is wrong, else 0; notes don't count.

--repair-store saves all that can still be read of a damaged store, and takes from its backup what that has more, conversation by
conversation. The damaged file is kept under a dated name. What was under way is ended and grants are forgotten, so that nothing
runs or counts twice. Large results of tools (artifacts) are saved by their digests; a damaged search index is removed, and made
anew by the next search. It refuses while another process uses the store.
"""
_SIGNS = {"ok": "✓", "note": "·", "wrong": "✗"}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("--repair-store", action="store_true", help="repair the store if it is damaged, and check nothing else")
    parser.add_argument("--yes", action="store_true", help="with --repair-store: without asking")


def run(args: argparse.Namespace) -> int:
    if args.repair_store:
        return _repair(args)
    if args.yes:
        raise ToolcribError("--yes goes with --repair-store")
    from agent.cli.checks import examine
    from agent.cli.escape import tame
    from agent.cli.logs import shown_otherwise

    wrong = 0
    with shown_otherwise():
        for finding in examine(Path(args.config) if args.config else None, Path.cwd()):
            wrong += finding.level == "wrong"
            print(f"{_SIGNS[finding.level]} {tame(finding.text)}")
            if finding.fix:
                print(f"    fix: {finding.fix}")
    print(f"\n{wrong} fault{'' if wrong == 1 else 's'} found" if wrong else "\nnothing is wrong")
    return FAILED if wrong else OK


def _repair(args: argparse.Namespace) -> int:
    from agent.cli.storing import repair_store
    from agent.config import load_config

    config = load_config(Path(args.config) if args.config else None, profile=args.profile, project_dir=Path.cwd())
    refuse_below(folders_of(config), "repairing the store")
    return repair_store(config, agreed=args.yes)
