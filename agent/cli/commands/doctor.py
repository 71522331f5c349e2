"""``toolcrib doctor``: find problems, report each with its fix, and run repairs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent.cli.app import FAILED, OK
from agent.policy.self_protection import folders_of, refuse_below
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.paths import real_path, with_home

if TYPE_CHECKING:
    from agent.cli.finding import CheckFinding
    from agent.cli.mending import Mending

HELP = "Check this installation and its configuration; report each problem with its fix."
_EPILOG = """\
examples:
  toolcrib doctor                              list problems, each with its fix
  toolcrib doctor --fix                        also show each available repair, and run it if you agree
  toolcrib doctor --fix --yes                  run repairs that lose nothing (permissions, ...) without asking
  toolcrib doctor --offline --json             for programs; contacts no server
  toolcrib doctor --bundle report.tar.gz --log gateway.log
                                               what a bug report needs, without secrets and without conversations
  toolcrib doctor --repair-store

doctor works with a broken configuration too. The exit code is 1 if there is a problem, else 0; notes do not count. It checks
Python, programs on PATH, permissions, the disk, the time zone, installed files, remains of killed processes, the store, plugins,
toolsets, approvals, the gateway, jobs, backends, and the configured model servers with their keys and the clock.

--fix shows what a repair would run, such as `chmod 600 FILE` or `docker rm -f NAME`, and what would be lost. A repair that
removes, overwrites or ends something is confirmed at a terminal; --yes never runs it. After each repair the check runs again and
its outcome is printed. Packages are installed only if that needs no password; otherwise the command for this system is shown to
copy. --fix is only for people: inside a session it is refused.

--json prints a list of objects: `id` (stable, such as store.damaged), `level` (ok, note or wrong), `text`, `fix` (text, or null),
`repair` (null, or an object: `does`, and `loses`, null if nothing is lost). With --fix --yes also `outcome`: text, or null if
there is no repair for the finding. Fields may be added.

--bundle lists the contents of the bundle and writes it, readable by you alone (0600); an existing file is not overwritten. It has
versions, the platform, these findings, settings that are not at their default, names of plugins, counts of stored data, and the
last lines of doctor's log and of each --log FILE (toolcrib itself keeps no log; a gateway writes to its standard error). Secrets
are removed, names of people and addresses are replaced, and texts of sessions are never read. Read it before you send it.

--repair-store restores a damaged store from its newest sound backup. If the damaged file has more of a conversation, that
conversation is restored from it. It prints when the backup was made, what was restored and what was lost, and keeps the damaged
file under a dated name. Unfinished runs are ended and grants are removed, so that nothing runs or counts twice. Large results
of tools (artifacts) are checked by their digests. A damaged search index is removed; the next search makes a new one. It
refuses while another process uses the store.
"""
_SIGNS = {"ok": "✓", "note": "·", "wrong": "✗"}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("--fix", action="store_true", help="show each available repair, and run it if you agree")
    parser.add_argument(
        "--yes",
        action="store_true",
        help="with --fix: run repairs that lose nothing, without asking; with --repair-store: do not ask",
    )
    parser.add_argument("--json", action="store_true", help="print JSON: a list of findings")
    parser.add_argument("--offline", action="store_true", help="contact no server and no other host")
    parser.add_argument("--bundle", metavar="FILE", default="", help="write a support bundle (FILE.tar.gz), without secrets")
    parser.add_argument(
        "--log", metavar="FILE", action="append", default=[], help="with --bundle: include the last lines of this log"
    )
    parser.add_argument("--repair-store", action="store_true", help="repair the store if it is damaged, and check nothing else")


def run(args: argparse.Namespace) -> int:
    if args.repair_store:
        return _repair(args)
    if args.yes and not args.fix:
        raise ToolcribError("--yes needs --repair-store or --fix")
    if args.json and args.fix and not args.yes:
        raise ToolcribError("--json does not ask: add --yes to --fix, which runs only repairs that lose nothing")
    if args.log and not args.bundle:
        raise ToolcribError("--log needs --bundle")
    if args.bundle and (args.fix or args.json):
        raise ToolcribError("--bundle takes neither --fix nor --json: the bundle includes the findings")
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

    bundle = Bundle(with_home(args.bundle), [with_home(log) for log in args.log])
    with shown_otherwise(), bundle.listening():
        findings = _examined(args, is_shown=False)
        for line in bundle.write(Path(args.config) if args.config else None, Path.cwd(), findings):
            print(tame(line))
    return OK


def _conclude(wrong: Sequence[CheckFinding], mending: Mending | None) -> None:
    from agent.cli.escape import tame
    from agent.cli.terminal import is_interactive

    if mending is not None and not mending.done:
        what = "nothing was repaired" if mending.outcomes else "doctor can repair nothing here"
        if mending.outcomes and not is_interactive():
            what += ": no user can be asked here; run it at a terminal"
            what += "" if mending.agreed else ", or add --yes for repairs that lose nothing"
        print(f"\n{what}")
    elif mending is not None and wrong:
        print("\nremaining problems:")
        for finding in wrong:
            print(f"✗ {tame(finding.text)}")
            print(f"    fix: {finding.fix}")
    print(f"\n{len(wrong)} problem{'' if len(wrong) == 1 else 's'} found" if wrong else "\nno problems found")


def _as_json(findings: Sequence[CheckFinding], mending: Mending | None) -> list[dict[str, object]]:
    told = [finding.to_json() for finding in findings]
    if mending is not None:
        told = [{**one, "outcome": mending.outcomes.get(number)} for number, one in enumerate(told)]
    return told


def _folders(args: argparse.Namespace) -> list[Path]:
    """Return the folders of this configuration and its state, even if the configuration is broken."""
    from agent.config import config_path, state_dir

    path = config_path(args.config)
    return list(dict.fromkeys([path.parent, real_path(path).parent, state_dir()]))


def _repair(args: argparse.Namespace) -> int:
    from agent.cli.storing import repair_store
    from agent.config import load_config

    config = load_config(Path(args.config) if args.config else None, profile=args.profile, project_dir=Path.cwd())
    refuse_below(folders_of(config), "repairing the store")
    return repair_store(config, agreed=args.yes)
