"""``toolcrib doctor``: what is wrong here, and what to do about it."""

from __future__ import annotations

import argparse
from pathlib import Path

from agent.cli.app import FAILED, OK

HELP = "Check this installation and its configuration; each fault comes with its fix."
_EPILOG = """\
It works with a broken configuration too. The exit code is 1 where something is wrong, else 0; notes don't count.
"""
_SIGNS = {"ok": "✓", "note": "·", "wrong": "✗"}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG


def run(args: argparse.Namespace) -> int:
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
