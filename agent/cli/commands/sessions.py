"""``toolcrib sessions``: list, search, show and change stored sessions."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.cli.app import FAILED, OK, open_crib
from agent.cli.options import age, count
from agent.policy.self_protection import folders_of, refuse_below
from toolcrib.contract.errors import StoreFailed, ToolcribError
from toolcrib.contract.regex import Regex

if TYPE_CHECKING:
    from agent.process import Crib

HELP = "List, search, show, resume, fork, rename, tag, export, import and delete stored sessions."
_EPILOG = """\
examples:
  toolcrib sessions                                recent sessions; --here: of this folder; --tag web: with that tag
  toolcrib sessions --all                          also those of delegates and jobs, which other lists leave out
  toolcrib sessions search staging port            messages with both words
  toolcrib sessions search '"bad gateway"' deplo* -test    a phrase, words with a prefix, and an excluded word
  toolcrib sessions show 4f1c                      the whole conversation with message numbers
  toolcrib sessions artifacts 4f1c                 results that were too long for the model
  toolcrib sessions show artifact:9b3c61d2aa70b1ee    one of them; -o FILE writes it to a file

  toolcrib sessions resume 4f1c                    same as `toolcrib chat --resume 4f1c`; takes the chat's options
  toolcrib sessions fork 4f1c                      a new session with the end of that one, for when its context is full
  toolcrib sessions fork 4f1c --messages 2         from your last two messages on
  toolcrib sessions fork 4f1c --at 12              up to message 12, as `show` and `search` number them

  toolcrib sessions rename 4f1c the flaky login test
  toolcrib sessions tag 4f1c +web +urgent -draft   add two tags and remove one

  toolcrib sessions export 4f1c > talk.md
  toolcrib sessions export 4f1c -o talk.html       or .md, .json
  toolcrib sessions import talk.json               import a JSON export; a session that already exists is not changed
  toolcrib sessions import --from claude-code      import sessions of another tool: claude-code, codex or hermes
  toolcrib sessions import --from codex ~/old --dry-run    from that folder or file; only report what would be imported

  toolcrib sessions delete 4f1c 77ab               with their calls, approvals, undo data and unsent messages
  toolcrib sessions prune --older-than 90d         delete sessions not used since; --dry-run only counts them

The beginning of an id is enough if it is unique. `toolcrib trace ID` shows what was done in a session. Stored sessions are only
for people: inside a session all of these commands are refused.

Sessions of other tools are read from ~/.claude/projects ($CLAUDE_CONFIG_DIR), ~/.codex/sessions ($CODEX_HOME) and
~/.hermes/state.db ($HERMES_HOME), which are not changed. Secrets that toolcrib knows are removed, unreadable lines are reported
and left out, and each session is tagged with the tool's name. A second import adds only what is new. An imported session resumes
in your current folder, with the model and mode configured here.

exit codes: 0 done, 1 failed or nothing found, 2 wrong command line, name or configuration, 130 interrupted.
"""
_LEASE_SECONDS = 10.0
_ACTIONS = ("list", "search", "show", "artifacts", "resume", "fork", "rename", "tag", "export", "import", "delete", "prune")
_OFF = Regex(r"-[^-].*", re.DOTALL)
_SHORT = ("-h", "-o", "-v")


def prepared(words: Sequence[str]) -> list[str]:
    """Return the words with each ``-word`` of search and tag rewritten as ``--without=word``, which argparse accepts."""
    if not any(word in ("search", "tag") for word in words):
        return list(words)
    end = words.index("--") if "--" in words else len(words)
    before = [f"--without={word[1:]}" if _OFF.fullmatch(word) and word not in _SHORT else word for word in words[:end]]
    off = [f"--without={word[1:]}" for word in words[end:] if _OFF.fullmatch(word)]  # options must precede the "--"
    return [*before, *off, *(word for word in words[end:] if not _OFF.fullmatch(word))]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument(
        "action", nargs="?", choices=_ACTIONS, default="list", help="what to do (default: list); see the examples below"
    )
    parser.add_argument("id", metavar="ID", nargs="?", default="", help="the session; search: the first word; import: the file")
    words = "search: more words of the same message; rename: the title; tag: +this -that; delete: more ids; import: more files;"
    words += " artifacts: the one to show"
    parser.add_argument("words", metavar="WORD", nargs="*", help=words)
    parser.add_argument("--without", metavar="WORD", action="append", default=[], help=argparse.SUPPRESS)
    look = parser.add_argument_group("list and search")
    look.add_argument("--all", action="store_true", help="list: also sessions of delegates, marked as such, and of jobs")
    look.add_argument("--here", action="store_true", help="only sessions of this folder")
    words = "only sessions with this tag; may be repeated"
    look.add_argument("--tag", metavar="TAG", action="append", default=[], type=lambda text: text.removeprefix("#"), help=words)
    look.add_argument("--limit", metavar="N", type=count, default=20, help="how many to list or find (default: 20)")
    look.add_argument("--best", action="store_true", help="search: the best match first, instead of the newest")
    look.add_argument("--newer-than", metavar="AGE", type=age, help="search: only messages of this age at most, such as 7d")
    move = parser.add_argument_group("export and import")
    move.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="export, or show an artifact: write to this file; its extension sets the format of an export",
    )
    move.add_argument("--format", choices=("markdown", "html", "json"), help="export: the format (default: markdown)")
    move.add_argument("--force", action="store_true", help="with -o: overwrite an existing file")
    move.add_argument("--from", dest="source", choices=("claude-code", "codex", "hermes"), help="import: from another tool")
    other = parser.add_argument_group("fork, delete and prune")
    other.add_argument(
        "--messages", metavar="N", type=count, help="fork: how many of your last messages (default: as many as fit well)"
    )
    other.add_argument("--at", metavar="N", type=_place, help="fork: up to this message")
    other.add_argument("--older-than", metavar="AGE", type=age, help="prune: sessions not used for this long, such as 90d")
    other.add_argument("--dry-run", action="store_true", help="prune, import: only report what would be done")
    other.add_argument("--yes", action="store_true", help="delete, prune: do not ask")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _place(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected the number of a message, from 0, got {text!r}")
    return int(text)


def run(args: argparse.Namespace) -> int:
    from tools.dispatch.bridge import run_async

    if args.words and args.action in ("show", "export", "fork", "resume", "prune", "list"):
        raise ToolcribError(f"give one id: toolcrib sessions {args.action} {args.id}")
    if args.without and args.action not in ("search", "tag"):
        raise ToolcribError("-WORD is for search and tag")
    if args.action == "list" and args.id:
        raise ToolcribError(f"list takes no id; to show that session: toolcrib sessions show {args.id}")
    changes = args.action in ("fork", "rename", "tag", "import", "delete", "prune")
    looks = args.action in ("list", "search", "show")
    with open_crib(args, looks=args.action != "import", as_confirmed=looks) as crib:
        what = "changing" if changes else "reading"
        refuse_below(folders_of(crib.config), f"{what} stored sessions (toolcrib sessions {args.action})")
        if args.action != "resume":
            return run_async(_acts()[args.action](crib, args))
        if not args.id:
            raise ToolcribError("give the id: toolcrib sessions resume ID")
        session_id = run_async(crib.find_session(args.id)).id
    return _resume(session_id, args)


def _acts() -> Mapping[str, Callable[[Crib, argparse.Namespace], Coroutine[Any, Any, int]]]:
    from agent.cli import artifacts, import_sessions, labels, removing

    return {
        "artifacts": artifacts.artifacts,
        "list": _list,
        "search": _search,
        "show": _show,
        "fork": _fork,
        "rename": labels.rename_stored,
        "tag": labels.tag_stored,
        "export": _export,
        "import": import_sessions.bring,
        "delete": removing.delete,
        "prune": removing.prune,
    }


def _resume(session_id: str, args: argparse.Namespace) -> int:
    """Continue the session in the chat, with the common options that were given. Return the exit code."""
    from agent.cli.app import parser_of
    from agent.cli.commands import chat

    of_all = ("config", "profile", "verbose", "debuggable")
    given = argparse.Namespace(**{name: value for name, value in vars(args).items() if name in of_all})
    return chat.run(parser_of("chat", chat).parse_args(["--resume", session_id], given))


async def _list(crib: Crib, args: argparse.Namespace) -> int:
    from agent.cli.render import table
    from agent.cli.session_format import SPARE, persons_sessions, session_rows

    wanted: dict[str, Any] = {"cwd": str(crib.project_dir) if args.here else None, "tags": args.tag}
    if args.all or args.tag:  # --tag also selects sessions of jobs: only a user adds tags
        found = await crib.store.sessions.list(args.limit, **wanted, delegates=args.all)
    else:
        found = await persons_sessions(crib.store, args.limit, **wanted)
    if args.json:
        print(json.dumps([asdict(info) for info in found], ensure_ascii=False, indent=2))
    elif found:
        table(session_rows(found, time.time()), spare=SPARE, below=True)
    elif args.tag or args.here:
        print("no such sessions; list all: toolcrib sessions")
    else:
        print("no sessions yet; to start one: toolcrib chat")
    return OK


async def _search(crib: Crib, args: argparse.Namespace) -> int:
    from agent.cli.searching import search

    return OK if await search(crib, args) else FAILED


async def _show(crib: Crib, args: argparse.Namespace) -> int:
    from agent.cli.session_format import conversation
    from toolcrib.contract.artifacts import PREFIX

    if not args.id:
        raise ToolcribError("give the id: toolcrib sessions show ID")
    if args.id.startswith(PREFIX):
        from agent.cli import artifacts

        return await artifacts.show(crib, args, args.id)
    info = await crib.find_session(args.id)
    records = await crib.store.sessions.messages(info.id)
    if args.json:
        print(json.dumps({**asdict(info), "records": list(records)}, ensure_ascii=False, indent=2))
    else:
        print("\n".join([*conversation(info, records), *await _broken_off(crib, info.id, records)]))
    return OK


async def _export(crib: Crib, args: argparse.Namespace) -> int:
    from agent.artifacts import artifacts_of
    from agent.exporting import export, form_of, write

    if not args.id:
        raise ToolcribError("give the id: toolcrib sessions export ID")
    info = await crib.find_session(args.id)
    records, artifacts = await crib.store.sessions.messages(info.id), await artifacts_of(crib.store, info.id)
    if args.output is None:
        print(export(info, records, args.format or "markdown", artifacts), end="")
    else:
        write(args.output, export(info, records, args.format or form_of(args.output), artifacts), force=args.force)
        print(f"wrote {args.output}", file=sys.stderr)
    return OK


async def _fork(crib: Crib, args: argparse.Namespace) -> int:
    from agent.cli.escape import one_line
    from agent.conversation.forking import fork

    if not args.id:
        raise ToolcribError("give the id: toolcrib sessions fork ID")
    info = await crib.find_session(args.id)
    made = await fork(crib.store, info, args.messages, window=crib.config.model.context_window, at=args.at)
    if args.json:
        print(json.dumps({**asdict(made), "parent": info.id}, ensure_ascii=False))
        return OK
    print(made.id)
    print(f"{made.records} of {info.messages} records; to continue: toolcrib chat --resume {made.id[:12]}", file=sys.stderr)
    if made.dropped:
        print(
            f"{made.dropped} replies, results or calls did not fit or never ended: only the old session has them", file=sys.stderr
        )
    if made.unanswered:
        print(f"unanswered, so left out: {one_line(made.unanswered, 300)}", file=sys.stderr)
    return OK


async def _broken_off(crib: Crib, session_id: str, records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return lines about the last calls if they have no results: they wait for an answer, still run, or their process was
    killed.
    """
    from agent.cli.escape import one_line, tame

    await _recover(crib, session_id)
    lines = []
    for call in (records[-1].get("calls") or ()) if records else ():
        known = await crib.store.ledger.get(session_id, call["id"])
        if known is not None and known.status.is_terminal and known.result is not None:
            sign = "✗" if known.result.is_error else "·"
            lines.append(f"  {sign} {tame(known.call.name)}  {known.status.value}: {one_line(str(known.result.message), 160)}")
        elif known is not None:
            lines.append(f"  · {tame(known.call.name)}  {known.status.value}")
    return lines


async def _recover(crib: Crib, session_id: str) -> None:
    """End the calls of a process that was killed. A running process holds the session's lease while its calls run."""
    from agent.store._owner import new_owner
    from toolcrib.contract.store import Fence

    try:
        lease = await crib.store.leases.take(session_id, new_owner(), _LEASE_SECONDS)
    except StoreFailed:  # the store is read-only: the calls are shown as stored
        return
    if lease is not None:
        try:
            await crib.store.fenced(Fence(lease)).recover(session_id)
        finally:
            await crib.store.leases.release(lease)
