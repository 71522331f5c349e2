"""``toolcrib explain``: how a command would be judged, without running anything."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from agent.cli.app import FAILED, OK, open_crib
from toolcrib import ToolcribError

if TYPE_CHECKING:
    from agent.run import Crib
    from toolcrib._store import AuditEntry
    from tools.approval.detect import Examined
    from tools.approval.findings import Finding

HELP = "Tell how a shell command would be judged: what it comes to, what speaks against it, who would decide."
_EPILOG = """\
examples:
  toolcrib explain 'rm -rf build && curl example.test/x | sh'
  toolcrib explain --json 'git push -f'
  toolcrib explain - <build.sh                    a whole script
  toolcrib explain --jsonl <commands.jsonl        {"id": ..., "command": ...} a line
  toolcrib explain --replay                       what today's rules say of the decisions in the log

Nothing is run. Scripts that the command names are read, here, to judge what is in them. Levels: allow; ask (a yes may last);
ask-once (asked every time); block (refused, whatever was granted). The exit code is 0 for allow, 1 for anything else; with
--jsonl it is 1 where a line could not be read, and with --replay 0.
"""
_LEVELS = ("allow", "ask", "ask-once", "block")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument(
        "command", metavar="COMMAND", nargs="?", help="shell text, as one word (quote it), or - to read it from stdin"
    )
    parser.add_argument("--cwd", metavar="DIR", default="", help="judge it as if it ran there (default: here)")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument("--jsonl", action="store_true", help="read one object a line from standard input, print one a line")
    parser.add_argument("--replay", action="store_true", help="judge again what the log holds, and show what differs")
    parser.add_argument("--session", metavar="ID", default="", help="with --replay: only this session (the beginning of its id)")


def run(args: argparse.Namespace) -> int:
    if sum((args.command is not None, args.jsonl, args.replay)) != 1:
        raise ToolcribError("give one of: a COMMAND, --jsonl, --replay; `toolcrib explain --help` shows examples")
    if args.session and not args.replay:
        raise ToolcribError("--session goes with --replay")
    if args.command == "-":
        args.command = _piped()
    with open_crib(args) as crib:
        cwd = str(crib.project_dir)
        if args.replay:
            return _replay(crib, args)
        if args.jsonl:
            return _lines(crib, cwd)
        if crib.grants.problem is not None:
            print(f"toolcrib: what is granted always is left out: {crib.grants.problem}", file=sys.stderr)
        return _one(crib, args, cwd)


def _piped() -> str:
    if sys.stdin is None:
        raise ToolcribError("standard input is closed; pipe the command in, or give it as COMMAND")
    return sys.stdin.buffer.read().decode("utf-8", "replace").removesuffix("\n")


def _one(crib: Crib, args: argparse.Namespace, cwd: str) -> int:
    examined = crib.judge.examine(args.command, cwd)
    if args.json:
        print(json.dumps(_as_json(args.command, examined, crib, cwd), ensure_ascii=False, indent=2))
    else:
        print("\n".join(_story(examined, crib, cwd)))
    return OK if _level(examined.findings) == "allow" else FAILED


# -- lines -------------------------------------------------------------------------------------------------------------


def _lines(crib: Crib, cwd: str) -> int:
    if sys.stdin is None:
        raise ToolcribError("standard input is closed; pipe the lines in")
    code = OK
    for raw in sys.stdin.buffer:
        if raw.strip():
            answer = _line(raw, crib, cwd)
            code = FAILED if "error" in answer else code
            print(json.dumps(answer), flush=True)  # whoever feeds us may wait for it
    return code


def _line(raw: bytes, crib: Crib, cwd: str) -> dict[str, Any]:
    """Answer a line. Whatever it holds, the other lines are read too."""
    try:
        given = json.loads(raw)
    except (ValueError, RecursionError) as error:
        return {"id": None, "error": f"the line is not JSON: {error}"}
    if not isinstance(given, dict) or not isinstance(given.get("command"), str):
        return {
            "id": given.get("id") if isinstance(given, dict) else None,
            "error": 'expected an object with a "command", such as {"id": "1", "command": "ls"}',
        }
    folder = given.get("cwd")
    examined = crib.judge.examine(given["command"], folder if isinstance(folder, str) and folder.startswith("/") else cwd)
    return {
        "id": given.get("id"),
        "command": given["command"],
        "level": _level(examined.findings),
        "findings": [_finding(one) for one in examined.findings],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "key": finding.key,
        "level": finding.level,
        "why": finding.why,
        "argv": list(finding.argv) or [finding.text],
        "scope": finding.scope,
    }


def _level(findings: Sequence[Finding]) -> str:
    return _highest(finding.level for finding in findings)


# -- one command -------------------------------------------------------------------------------------------------------


def _as_json(command: str, examined: Examined, crib: Crib, cwd: str) -> dict[str, Any]:
    return {
        "command": command,
        "cwd": cwd,
        "level": _level(examined.findings),
        "resolved": [" ".join(words) for words in examined.commands],
        "findings": [{**_finding(one), "decided_by": _decider(one, examined, crib, cwd)} for one in examined.findings],
        "looked_at": list(examined.looked_at),
    }


def _story(examined: Examined, crib: Crib, cwd: str) -> Iterator[str]:
    from agent.cli.escape import exact

    level = _level(examined.findings)
    yield {
        "allow": "allow: it runs unasked",
        "ask": "ask: a person must agree, and the yes may last",
        "ask-once": "ask-once: a person must agree, every time",
        "block": "block: refused, whatever was granted",
    }[level]
    if examined.commands:
        yield "it comes to:"
        yield from (f"  {exact(' '.join(words))}" for words in examined.commands)
    for path in examined.looked_at:
        yield f"looked into: {exact(path)}"
    for finding in examined.findings:
        yield f"  ! {exact(finding.why)} ({exact(finding.key)}, {finding.level})"
        yield f"      {exact(finding.text)}"
        yield f"      decided by: {exact(_decider(finding, examined, crib, cwd))}"


def _decider(finding: Finding, examined: Examined, crib: Crib, cwd: str) -> str:
    """Name the grant or rule that would decide. Only permanent grants count for a session that does not exist yet."""
    from tools.approval.grants import covers

    if finding.level in ("allow", "block"):
        return f"the rule {finding.key}"
    for grant in crib.grants.permanent():
        if covers(grant, finding, session_id="", cwd=cwd):
            return f"the grant {grant.id[:8]} (`{' '.join(grant.argv)}` in {grant.root})"
    smart = crib.config.approval.smart
    if smart.enabled and _level(examined.findings) == "ask":
        return f"the model of approval.smart ({smart.model or crib.config.model.name or 'the configured one'}), else a person"
    return "a person, in a session; where nobody can be asked it is refused"


# -- the log -----------------------------------------------------------------------------------------------------------


def _replay(crib: Crib, args: argparse.Namespace) -> int:
    from tools.dispatch.bridge import run_async

    entries = [one for one in run_async(_logged(crib, args.session)) if isinstance(one.detail.get("command"), str)]
    changed = [one for entry in entries if (one := _again(entry, crib)) is not None]
    if args.json:
        print(json.dumps({"judged": len(entries), "changed": changed}, ensure_ascii=False, indent=2))
        return OK
    from agent.cli.escape import exact

    for one in changed:
        print(f"{one['was']} -> {one['now']}: {exact(one['command'])}")
        print(f"    {exact(', '.join(one['keys']) or 'nothing found')}")
        for path in one["looked_at"]:
            print(f"    by what is in {exact(path)} today")
    print(f"{len(entries)} decisions judged again, {len(changed)} would differ")
    return OK


async def _logged(crib: Crib, prefix: str) -> Sequence[AuditEntry]:
    session = (await crib.find_session(prefix)).id if prefix else None
    return await crib.store.audit.entries(session)


def _again(entry: AuditEntry, crib: Crib) -> dict[str, Any] | None:
    """Judge a logged command again and return the difference; None where there is none.

    Where somebody was asked, or a rule refused, the log has only the findings that made it so: then the level is compared. Where
    it ran unasked it has them all, and another finding is one that no grant may cover.
    """
    from tools.approval.findings import TOOL_RULE

    detail = entry.detail
    findings = [one for one in detail.get("findings", ()) if not str(one.get("key", "")).startswith(TOOL_RULE)]
    before = {str(one.get("key")) for one in findings}
    was = _highest(str(one.get("level")) for one in findings)
    if was == "allow" and any(str(key).startswith(TOOL_RULE) for key in detail.get("keys", ())):
        return None  # a rule about the tool asked, whatever the command was
    examined = crib.judge.examine(detail["command"], str(detail.get("cwd", "")))
    now = {finding.key for finding in examined.findings if finding.level != "allow"}
    level = _level(examined.findings)
    if level == was and (now == before or entry.decision not in ("allowed", "granted")):
        return None
    looked_at = list(examined.looked_at)
    return {"command": detail["command"], "was": was, "now": level, "keys": sorted(now), "looked_at": looked_at}


def _highest(levels: Iterable[str]) -> str:
    return max((level for level in levels if level in _LEVELS), key=_LEVELS.index, default="allow")
