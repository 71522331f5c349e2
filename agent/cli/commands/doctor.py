"""``toolcrib doctor``: what is wrong here, what to do about it, and doing it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent.cli.app import FAILED, OK
from agent.policy.self_protection import folders_of, refuse_below
from toolcrib.contract.errors import ToolcribError

if TYPE_CHECKING:
    from agent.cli.finding import CheckFinding
    from agent.cli.mending import Mending

HELP = "Check this installation and its configuration; each fault comes with its fix."
_EPILOG = """\
examples:
  toolcrib doctor                              what is wrong, each with what to do about it
  toolcrib doctor --fix                        the same, then each repair that there is is shown, and done if you say yes
  toolcrib doctor --fix --yes                  unasked, but only what loses nothing (permissions, say)
  toolcrib doctor --offline --json             for programs; no server is asked
  toolcrib doctor --bundle report.tar.gz --log gateway.log
                                               what a bug report needs, without secrets and without what was said
  toolcrib doctor --repair-store

It works with a broken configuration too. The exit code is 1 where something is wrong, else 0; notes don't count. Looked at are
Python, programs on PATH, permissions, the disk, the time zone, the installed files, what killed processes left, the store,
plugins, toolsets, approvals, the gateway, jobs, backends, and the configured model servers with their keys and the clock.

--fix shows what a repair would do, such as `chmod 600 FILE` or `docker rm -f NAME`, and what it costs. One that removes,
overwrites or ends something is asked for at a terminal and never done by --yes. After each the check is made again, and the
outcome told. Packages are installed only where that needs no password; otherwise the command for this system is shown to be
copied. It is for people: below a command of a session it is refused.

--json prints a list of objects: `id` (stays the same, such as store.damaged), `level` (ok, note or wrong), `text`, `fix`
(words, or null), `repair` (null, or an object: `does`, and `loses`, null where nothing is lost). With --fix --yes also
`outcome`, null where no repair was tried. Fields may be added.

--bundle lists what is in the bundle and writes it, for its account alone (0600); an existing file stays. In it are versions,
the platform, these findings, settings that are not at their default, names of plugins, numbers of what the store holds, and the
last lines of what doctor logs and of each --log FILE (toolcrib itself keeps no log: a gateway's is where its output goes).
Secrets are taken out, people and addresses get other names, and texts of sessions are never read. Look through it before you
send it.

--repair-store restores a damaged store from its newest sound backup. If more of a conversation can be read from the damaged file,
it comes from there. It prints when the backup was made, what was restored and what was lost, and keeps the damaged file under a
dated name. Unfinished runs are ended and grants are forgotten, so that nothing runs or counts twice. Large results of tools
(artifacts) are checked by their digests. A damaged search index is removed; the next search makes a new one. It refuses while
another process uses the store.
"""
_SIGNS = {"ok": "✓", "note": "·", "wrong": "✗"}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("--fix", action="store_true", help="show the repair of each fault that has one, and do it if you agree")
    parser.add_argument(
        "--yes", action="store_true", help="with --fix: do unasked what loses nothing; with --repair-store: repair unasked"
    )
    parser.add_argument("--json", action="store_true", help="as JSON: a list of findings")
    parser.add_argument("--offline", action="store_true", help="ask no server, and no other host")
    parser.add_argument("--bundle", metavar="FILE", default="", help="write a support bundle (FILE.tar.gz), without secrets")
    parser.add_argument(
        "--log", metavar="FILE", action="append", default=[], help="with --bundle: the last lines of this log too"
    )
    parser.add_argument("--repair-store", action="store_true", help="repair the store if it is damaged, and check nothing else")


def run(args: argparse.Namespace) -> int:
    if args.repair_store:
        return _repair(args)
    if args.yes and not args.fix:
        raise ToolcribError("--yes goes with --repair-store or --fix")
    if args.json and args.fix and not args.yes:
        raise ToolcribError("--json asks nobody: with --fix it takes --yes, which does only what loses nothing")
    if args.log and not args.bundle:
        raise ToolcribError("--log goes with --bundle")
    if args.bundle and (args.fix or args.json):
        raise ToolcribError("--bundle goes with neither --fix nor --json: the findings are in the bundle")
    if args.bundle:
        refuse_below(_folders(args), "writing a support bundle")
        return _bundle(args)
    if args.fix:
        refuse_below(_folders(args), "repairing")
    from agent.cli.logs import shown_otherwise

    with shown_otherwise():
        findings = _examined(args, is_shown=not args.json)
        mending = _mended(args, findings) if args.fix else None
    if args.json:
        print(json.dumps(_as_json(findings, mending), ensure_ascii=False, indent=2))
    left = findings
    if mending is not None and mending.done:
        with shown_otherwise():
            left = _examined(args, is_shown=False)
    wrong = [finding for finding in left if finding.level == "wrong"]
    if not args.json:
        _conclude(wrong, mending)
    return FAILED if wrong else OK


def _examined(args: argparse.Namespace, *, is_shown: bool) -> list[CheckFinding]:
    from agent.cli.checks import examine
    from agent.cli.escape import tame

    found = []
    for finding in examine(Path(args.config) if args.config else None, Path.cwd(), offline=args.offline):
        found.append(finding)
        if is_shown:
            print(f"{_SIGNS[finding.level]} {tame(finding.text)}")
            if finding.fix:
                print(f"    fix: {finding.fix}")
    return found


def _mended(args: argparse.Namespace, findings: Sequence[CheckFinding]) -> Mending:
    from agent.cli.mending import Mending

    mending = Mending(agreed=args.yes, quiet=args.json)
    mending.mend(findings)
    return mending


def _bundle(args: argparse.Namespace) -> int:
    from agent.cli.bundling import Bundle
    from agent.cli.escape import tame
    from agent.cli.logs import shown_otherwise

    bundle = Bundle(Path(args.bundle).expanduser(), [Path(log).expanduser() for log in args.log])
    with shown_otherwise(), bundle.listening():
        findings = _examined(args, is_shown=False)
        for line in bundle.write(Path(args.config) if args.config else None, Path.cwd(), findings):
            print(tame(line))
    return OK


def _conclude(wrong: Sequence[CheckFinding], mending: Mending | None) -> None:
    from agent.cli.escape import tame
    from agent.cli.terminal import is_interactive

    if mending is not None and not mending.done:
        what = "nothing was repaired" if mending.outcomes else "there is nothing that doctor can repair by itself"
        if mending.outcomes and not is_interactive():
            what += ": nobody can be asked here; start it at a terminal"
            what += "" if mending.agreed else ", or add --yes for what loses nothing"
        print(f"\n{what}")
    elif mending is not None and wrong:
        print("\nwhat is still wrong:")
        for finding in wrong:
            print(f"✗ {tame(finding.text)}")
            print(f"    fix: {finding.fix}")
    print(f"\n{len(wrong)} fault{'' if len(wrong) == 1 else 's'} found" if wrong else "\nnothing is wrong")


def _as_json(findings: Sequence[CheckFinding], mending: Mending | None) -> list[dict[str, object]]:
    told = [finding.to_json() for finding in findings]
    if mending is not None:
        told = [{**one, "outcome": mending.outcomes.get(number)} for number, one in enumerate(told)]
    return told


def _folders(args: argparse.Namespace) -> list[Path]:
    """Return the folders of this configuration and its state, even if the configuration is broken."""
    from agent.config import config_path, state_dir

    path = config_path(args.config)
    return list(dict.fromkeys([path.parent, path.resolve().parent, state_dir()]))


def _repair(args: argparse.Namespace) -> int:
    from agent.cli.storing import repair_store
    from agent.config import load_config

    config = load_config(Path(args.config) if args.config else None, profile=args.profile, project_dir=Path.cwd())
    refuse_below(folders_of(config), "repairing the store")
    return repair_store(config, agreed=args.yes)
