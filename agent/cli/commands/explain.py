"""``toolcrib explain``: how a command would be judged, without running it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agent.cli.app import FAILED, OK, running_crib
from agent.cli.options import add_mode_option, add_place_option, folder_of
from toolcrib.contract.errors import ToolcribError

if TYPE_CHECKING:
    import asyncio

    from agent.api import Crib
    from agent.explainer import Explainer
    from agent.explaining import Explanation
    from toolcrib.contract.store import AuditEntry
    from tools.judge.findings import Finding

HELP = "Show how a shell command would be judged: what it runs, which rules match, who must approve."
_EPILOG = """\
examples:
  toolcrib explain 'rm -rf build && curl example.test/x | sh'
  toolcrib explain --json 'git push -f'
  toolcrib explain - <build.sh                    a whole script
  toolcrib explain --jsonl <commands.jsonl        one {"id": ..., "command": ...} on each line
  toolcrib explain --session 5e55 'make deploy'   as in that session: its backend, grants, and downloads
  toolcrib explain --mode plan 'sort -o x y'      as in a session in that mode
  toolcrib explain --replay                       compare past decisions of the log with today's rules

explain asks the approval gate itself, as a new session or as --session would; nothing is run, recorded or used up. It reads
scripts that the command names, to judge what is in them. Levels: allow; ask (an approval may last); ask-once (asked every time);
block (denied). The exit code is 0 for allow, and 1 for anything else; with --jsonl it is 1 if a line could not be read, and with
--replay it is 0.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument(
        "command", metavar="COMMAND", nargs="?", help="the command, quoted as one word, or - to read it from standard input"
    )
    parser.add_argument("--cwd", metavar="DIR", default="", help="the folder to judge it in (default: the current folder)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--jsonl", action="store_true", help="read and print JSON objects, one on each line")
    parser.add_argument("--replay", action="store_true", help="judge the commands in the log again, and show differences")
    parser.add_argument(
        "--session", metavar="ID", default="", help="judge as this session (the beginning of its id); with --replay: only its log"
    )
    add_place_option(parser)
    add_mode_option(parser)


def run(args: argparse.Namespace) -> int:
    if sum((args.command is not None, args.jsonl, args.replay)) != 1:
        raise ToolcribError("give one of: a COMMAND, --jsonl, --replay; `toolcrib explain --help` shows examples")
    if args.command == "-":
        args.command = _piped()
    with running_crib(args, looks=True, as_confirmed=True) as (crib, runner):
        if args.replay:
            return runner.run(_replay(crib, args))
        if crib.grants.problem is not None:
            print(f"toolcrib: permanent grants are left out: {crib.grants.problem}", file=sys.stderr)
        return _explained(crib, runner, args)


def _explained(crib: Crib, runner: asyncio.Runner, args: argparse.Namespace) -> int:
    from agent.cli.explained import explanation_lines
    from agent.explainer import Explainer

    here = crib.default
    if args.session:
        opening = Explainer.of_stored(here, args.session, args.backend, args.mode)
    else:
        opening = Explainer.of_new(here, args.backend, args.mode)
    explainer = runner.run(opening)
    try:
        if args.jsonl:
            return _lines(explainer, runner)
        folder = folder_of(args, crib) if args.cwd else None
        explained = runner.run(explainer.explain(args.command, folder or ""))
    finally:
        runner.run(explainer.close())
    if args.json:
        print(json.dumps(_as_json(explained, explainer), ensure_ascii=False, indent=2))
    else:
        print("\n".join(explanation_lines(explained, explainer.person(explained.findings), here.config)))
    return OK if explained.level == "allow" else FAILED


def _piped() -> str:
    if sys.stdin is None:
        raise ToolcribError("standard input is closed; pipe the command in, or pass it as COMMAND")
    return sys.stdin.buffer.read().decode("utf-8-sig", "replace").removesuffix("\n")


# -- lines -------------------------------------------------------------------------------------------------------------


def _lines(explainer: Explainer, runner: asyncio.Runner) -> int:
    if sys.stdin is None:
        raise ToolcribError("standard input is closed; pipe the lines in")
    code = OK
    for raw in sys.stdin.buffer:
        if raw.strip():
            answer = runner.run(_line(raw, explainer))
            code = FAILED if "error" in answer else code
            print(json.dumps(answer), flush=True)  # the program that writes our input may wait for the answer
    return code


async def _line(raw: bytes, explainer: Explainer) -> dict[str, Any]:
    """Return the answer to a line. A faulty line is answered with an error, so that the other lines are still read."""
    try:
        given = json.loads(raw)
    except (ValueError, RecursionError) as error:
        return {"id": None, "error": f"the line is not valid JSON: {error}"}
    if not isinstance(given, dict) or not isinstance(given.get("command"), str):
        return {
            "id": given.get("id") if isinstance(given, dict) else None,
            "error": 'expected an object with a "command", such as {"id": "1", "command": "ls"}',
        }
    folder = given.get("cwd")
    explained = await explainer.explain(given["command"], folder if isinstance(folder, str) and folder.startswith("/") else "")
    return {
        "id": given.get("id"),
        "command": given["command"],
        "level": explained.level,
        **_refusal(explained),
        "findings": [{**_finding(one), **_held(explained, one)} for one in explained.findings],
    }


def _refusal(explained: Explanation) -> dict[str, str]:
    return {"refused": explained.refused} if explained.refused else {}


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "key": finding.key,
        "level": finding.level,
        "why": finding.why,
        "argv": list(finding.argv) or [finding.text],
        "scope": finding.scope,
    }


def _held(explained: Explanation, finding: Finding) -> dict[str, str]:
    """Return the layer that contains a finding's effect, and why; {} if no layer contains it."""
    held = explained.handling(finding)
    return {} if held is None else {"effect": finding.effect, "held_by": held.by, "held_why": held.why}


# -- one command -------------------------------------------------------------------------------------------------------


def _as_json(explained: Explanation, explainer: Explainer) -> dict[str, Any]:
    from agent.cli.explained import deciding

    person, config = explainer.person(explained.findings), explainer.here.config
    found = [(one, *deciding(explained, one, person, config)) for one in explained.findings]
    return {
        "command": explained.command,
        "cwd": "" if explained.weighed is None else explained.weighed.cwd,
        "mode": explained.mode,
        "level": explained.level,
        **_refusal(explained),
        "resolved": [" ".join(words) for words in explained.commands],
        "findings": [
            {**_finding(one), "decided_by": decider, "approvers": roles, **_held(explained, one)} for one, decider, roles in found
        ],
        "looked_at": list(explained.looked_at),
    }


# -- the log -----------------------------------------------------------------------------------------------------------


async def _replay(crib: Crib, args: argparse.Namespace) -> int:
    from agent.explainer import Explainer

    logged = await _logged(crib, args.session)
    entries = [one for one in logged if isinstance(one.detail.get("command"), str) and "starts" not in one.detail]
    changed: list[dict[str, Any]] = []
    if entries:
        explainer = await Explainer.of_new(crib.default, args.backend, args.mode)
        try:
            changed = [one for entry in entries if (one := await _again(entry, explainer)) is not None]
        finally:
            await explainer.close()
    if args.json:
        print(json.dumps({"judged": len(entries), "changed": changed}, ensure_ascii=False, indent=2))
        return OK
    from agent.cli.escape import exact
    from agent.cli.format_grants import when
    from agent.cli.short_forms import ID_CHARS

    for one in changed:
        print(f"{one['was']} -> {one['now']}: {exact(one['command'])}")
        print(f"    {exact(', '.join(one['keys']) or 'nothing found')}")
        print(f"    then {exact(_then(one))}; session {one['session'][:ID_CHARS]}, {when(one['at'])}")
        for path in one["looked_at"]:
            print(f"    with today's content of {exact(path)}")
    print(f"{len(entries)} decisions judged again, {len(changed)} differ")
    return OK


def _then(one: dict[str, Any]) -> str:
    by = one["by"].removeprefix("rule:")
    return one["decision"] if by in ("", "rule", "grant") else f"{one['decision']} by {by}"


async def _logged(crib: Crib, prefix: str) -> Sequence[AuditEntry]:
    session = (await crib.find_session(prefix)).id if prefix else None
    return await crib.store.audit.entries(session)


async def _again(entry: AuditEntry, explainer: Explainer) -> dict[str, Any] | None:
    """Judge a logged command again. Return the difference, or None if there is none.

    If the user was asked, or a rule refused the command, the log has only the findings that caused this, so only the levels are
    compared. If the command ran without a question, the log has all findings. Then a new finding is a difference: a grant might
    not cover it.
    """
    from agent.explaining import highest
    from tools.judge.findings import TOOL_RULE

    detail = entry.detail
    findings = [one for one in detail.get("findings", ()) if not str(one.get("key", "")).startswith(TOOL_RULE)]
    before = {str(one.get("key")) for one in findings}
    was = highest([str(one.get("level")) for one in findings])
    if was == "allow" and any(str(key).startswith(TOOL_RULE) for key in detail.get("keys", ())):
        return None  # a rule about the tool caused the question, independently of the command
    explained = await explainer.explain(detail["command"], str(detail.get("cwd", "")))
    found = () if explained.weighed is None else explained.weighed.judged.findings
    now = {finding.key for finding in found if finding.level != "allow"}
    level = highest([finding.level for finding in found])
    if level == was and (now == before or entry.decision not in ("allowed", "granted")):
        return None
    return {
        "command": detail["command"],
        "was": was,
        "now": level,
        "keys": sorted(now),
        "looked_at": list(explained.looked_at),
        "session": entry.session_id,
        "at": entry.at,
        "decision": entry.decision,
        "by": entry.by,
    }
