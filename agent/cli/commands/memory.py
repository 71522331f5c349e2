"""``toolcrib memory``: show, edit, forget and export what the agent remembers about a user."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from agent.cli.app import FAILED, OK, open_crib
from agent.policy.self_protection import folders_of, refuse_below
from toolcrib.contract.context import Principal
from toolcrib.contract.errors import ToolcribError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.memory.document import MemoryNote
    from agent.memory.files import MemoryFile, MemoryFolder
    from agent.process import Crib
    from toolcrib.contract.store import SessionInfo

HELP = "Show, edit, forget or export what the agent remembers about you."
_EPILOG = """\
examples:
  toolcrib memory                        notes about you, and about the project of this folder
  toolcrib memory show --all             also notes about all other projects
  toolcrib memory edit                   edit the agent's notes in $VISUAL or $EDITOR; also: edit user, edit project
  toolcrib memory forget apricots        remove notes with that text, and look for copies of them
  toolcrib memory forget apricots --yes --copies        do not ask, and delete sessions and exports that contain them
  toolcrib memory export -o memory.md    write all notes to one file; --json for programs
  toolcrib memory --of telegram:12345    notes about a user of a chat platform

A model adds notes with the tool `memory`; a session receives the notes that exist when it begins. They are Markdown files in the
state folder (mode 0600): one with the agent's notes, one about the user, one about each project; `show` prints their paths. A
note is a list item that ends with a comment: the time and session that added the note. You may edit the files. No tool
except `memory` reads or writes them. A note that looks like a smuggled instruction, or contains a secret, invisible characters or
letters that imitate others, is not stored. If such a line gets into a file, models do not receive it; `show` lists these lines
with hidden characters escaped. To configure: memory.enabled and memory.max_chars.
forget removes the notes from the files, from the copies that earlier sessions received, and from free pages and backups of the
store. A running session has received them already: end it. Then forget lists sessions that contain a note's words, in messages,
thinking, calls, large results or data of tools, and exported files, and offers to delete them. While another process reads the
store, its file may keep removed notes. forget reports that; run it again when that process has ended.

exit codes: 0 done, 1 no such note, an unreadable document, or you declined, 2 wrong command line.
"""
_ACTIONS = ("show", "edit", "forget", "export")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("action", nargs="?", choices=_ACTIONS, default="show", help="what to do (default: show)")
    words = "forget: text of the notes; edit: memory (default), user or project"
    parser.add_argument("text", metavar="TEXT", nargs="?", default="", help=words)
    words = "notes about this user of a chat platform (default: you, at this terminal)"
    parser.add_argument("--of", metavar="PLATFORM:USER", default="", help=words)
    parser.add_argument("--all", action="store_true", help="show: the documents of all projects")
    parser.add_argument("--yes", action="store_true", help="forget: do not ask whether to forget the notes")
    parser.add_argument("--copies", action="store_true", help="forget: also delete sessions and exports that contain them")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="export: write to this file")
    parser.add_argument("--force", action="store_true", help="export: overwrite an existing file")
    parser.add_argument("--json", action="store_true", help="show, export: print JSON")


def run(args: argparse.Namespace) -> int:
    from tools.dispatch.bridge import run_async

    with open_crib(args, as_confirmed=args.action == "show") as crib:
        folder = _folder(crib, args.of)
        if args.text and args.action in ("show", "export"):
            raise ToolcribError(f"{args.action} takes no TEXT; to forget notes: toolcrib memory forget TEXT")
        refuse_below(folders_of(crib.config), "reading or changing notes")
        if args.action == "edit":
            return _edit(crib, folder, args.text or "memory")
        if args.action == "forget":
            return run_async(_forget(crib, folder, args))
        return (_export if args.action == "export" else _show)(crib, folder, args)


def _folder(crib: Crib, of: str) -> MemoryFolder:
    from agent.memory.files import MemoryFolder, everyone, project_of

    principal = Principal()
    if of:
        platform, colon, user = of.partition(":")
        principal = Principal(platform, user)
        known = [one.key for one in everyone() if one.key]
        if not colon or principal.key not in known:
            others = f"users with notes: {', '.join(known)}" if known else "no user of a chat platform has notes"
            raise ToolcribError(f"no notes about {of!r}; {others}")
    return MemoryFolder(principal, project_of(crib.project_dir, crib.project_dir))


def _files(folder: MemoryFolder, *, every: bool) -> Sequence[MemoryFile]:
    here = list(folder.files())
    known = {file.path for file in here}
    return [*here, *(file for file in folder.every_file() if every and file.path not in known)]


def _show(crib: Crib, folder: MemoryFolder, args: argparse.Namespace) -> int:
    from agent.cli.format_memory import as_json, shown, written_json

    files = _files(folder, every=args.all)
    if args.json:
        redact = crib.redactor().text
        print(written_json([as_json(file, crib.config, redact) for file in files]))
        return OK
    lines = shown(files, crib.config, crib.redactor())
    print("\n".join(lines))
    return FAILED if any(line.startswith("✗") for line in lines) else OK


def _export(crib: Crib, folder: MemoryFolder, args: argparse.Namespace) -> int:
    from agent.cli.format_memory import as_json, written_json
    from agent.exporting import write

    files = [file for file in _files(folder, every=True) if file.read().parts and file.read().size]
    if args.json:
        text = written_json([as_json(file, crib.config) for file in files]) + "\n"
    else:
        text = "\n".join(file.read().text() for file in files)
    if args.output is None:
        print(text, end="")
        return OK
    write(args.output, text, force=args.force)
    print(f"{args.output}: written", file=sys.stderr)
    return OK


# -- edit --------------------------------------------------------------------------------------------------------------


def _edit(crib: Crib, folder: MemoryFolder, target: str) -> int:
    from agent.cli.format_memory import NAMES, shown
    from agent.cli.terminal import is_interactive

    if target not in NAMES:
        raise ToolcribError(f"there is no document {target!r}; expected one of {', '.join(NAMES)}")
    if not is_interactive():
        raise ToolcribError(
            "an editor needs a terminal; to edit the files with another program, get their paths: toolcrib memory --json"
        )
    file = folder.file(target)
    before = file.raw()
    draft = _draft(folder, file, before)
    kept = f"your text is in {draft}"
    if not _edited(draft):
        if draft.read_bytes() == _begun(file, before):
            draft.unlink()
            kept = "the file is unchanged"
        raise ToolcribError(f"the editor failed; {kept}. To use another editor, set $VISUAL or $EDITOR")
    with folder.held():
        if file.raw() != before:
            raise ToolcribError(f"{file.path} was changed by another program, so it was not overwritten; {kept}")
        after = draft.read_bytes()
        try:
            text = after.decode("utf-8")
        except UnicodeDecodeError:
            raise ToolcribError(f"the text is not valid UTF-8, so nothing was changed; {kept}") from None
        if after != before:
            try:
                folder.write(file, text)
            except ToolcribError as error:
                raise ToolcribError(f"{error}; {kept}") from error
    draft.unlink()
    print("\n".join(shown([file], crib.config, crib.redactor())) if after != before else "nothing was changed")
    return OK


def _draft(folder: MemoryFolder, file: MemoryFile, before: bytes) -> Path:
    """Write a copy for the editor into a subfolder of the memory folder, which no tool reads. Return the copy's path."""
    with folder.held():
        draft = folder.path / "editing" / f"{os.getpid()}-{file.path.name}"
        draft.parent.mkdir(mode=0o700, exist_ok=True)
        draft.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(draft, flags, 0o600), "wb") as opened:  # noqa: PTH123 - a descriptor
            opened.write(_begun(file, before))
    return draft


def _begun(file: MemoryFile, before: bytes) -> bytes:
    """Return the initial content for the editor."""
    return before or f"# {file.title}\n\n- \n".encode()


def _edited(draft: Path) -> bool:
    import subprocess

    from agent.cli.screen.external_programs import EDITORS, words_of

    words = words_of(EDITORS, "vi")
    try:
        return subprocess.run([*words, str(draft)], check=False).returncode == 0
    except OSError:
        return False


# -- forget ------------------------------------------------------------------------------------------------------------


async def _forget(crib: Crib, folder: MemoryFolder, args: argparse.Namespace) -> int:
    from agent.cli.escape import tame
    from agent.cli.terminal import confirm_by_word, is_interactive
    from agent.memory.forgetting import files_saying, notes_with, remove, unsay

    if not args.text.strip():
        raise ToolcribError("give text of the notes: toolcrib memory forget TEXT")
    found = notes_with(folder, args.text)
    if not found:
        paths = files_saying(folder, args.text)
        for path in paths:
            print(f"{tame(str(path))} contains this text in a line that is not a note; to change it: toolcrib memory edit")
        if not paths:
            print("no note contains this text; list all notes: toolcrib memory show --all")
        await _freed(crib)  # overwrites notes that were forgotten earlier
        return FAILED
    print("\n".join(f"- {tame(note.short)}" for _, note in found))
    question = f"Forget {'this note' if len(found) == 1 else f'these {len(found)} notes'} permanently?"
    if not args.yes:
        if not is_interactive():
            raise ToolcribError(f"{question} No user can be asked here: add --yes")
        if not confirm_by_word(question):
            return FAILED
    remove(folder, found)
    notes = [note for _, note in found]
    told = await unsay(crib.store, folder.principal, notes)
    sessions = (
        f", and removed from the notes that {len(told)} session{'' if len(told) == 1 else 's'} had received" if told else ""
    )
    print(f"forgotten: {len(notes)} note{'' if len(notes) == 1 else 's'}{sessions}")
    code = await _copies(crib, folder, notes, args)
    return code if await _freed(crib) else FAILED


async def _freed(crib: Crib) -> bool:
    """Overwrite deleted data in the store. Return False, and print a note, if another process prevents that."""
    freed = await crib.store.free()
    if not freed:
        print(
            "the store's file still has removed notes, since another process is reading it. End other chats and commands, then"
            " run this again",
            file=sys.stderr,
        )
    return freed


async def _copies(crib: Crib, folder: MemoryFolder, notes: Sequence[MemoryNote], args: argparse.Namespace) -> int:
    """List sessions and files that still contain the notes, and delete them if the user agrees. Return the exit code."""
    from agent.cli.escape import tame
    from agent.cli.storing import kept_damaged
    from agent.cli.terminal import confirm_by_word, is_interactive
    from agent.memory.forgetting import files_with, sessions_with

    sessions, files = await sessions_with(crib.store, folder.principal, notes), files_with(folder, notes)
    if kept := kept_damaged(crib.config):
        print("not checked: damaged files that repairs of the store kept; remove them yourself")
        print("\n".join(f"  {tame(str(path))}" for path in kept))
    if not sessions and not files:
        print("no session and no known exported file contains them")
        return OK
    print("still in:")
    for info in sessions:
        print(f"  session {info.id[:12]}: {tame(info.title) or 'manual calls'}")
    for path in files:
        print(f"  {tame(str(path))}")
    if not args.copies and not is_interactive():
        print("kept; to delete them: --copies; to delete one session: toolcrib sessions delete ID")
        return OK
    if not args.copies:
        wanted = len(sessions) and confirm_by_word(_question(len(sessions), "session", "Everything else in there is lost too."))
        sessions = sessions if wanted else []
        files = files if len(files) and confirm_by_word(_question(len(files), "file", "")) else []
    return await _delete(crib, sessions, files) if sessions or files else OK


def _question(count: int, what: str, more: str) -> str:
    these = f"this {what}" if count == 1 else f"these {count} {what}s"
    return f"Delete {these} permanently too? {more}".rstrip()


async def _delete(crib: Crib, sessions: Sequence[SessionInfo], files: Sequence[Path]) -> int:
    from agent.cli.escape import tame

    failed = []
    deleted = await crib.delete_sessions([info.id for info in sessions])
    left = [info.id[:12] for info in sessions if info.id not in deleted]
    failed += [f"session {name} was kept: it is running, or something waits for it" for name in left]
    gone = 0
    for path in files:
        try:
            path.unlink()
            gone += 1
        except OSError as error:
            failed.append(f"{path} was kept: {error.strerror or error}")
    print(f"deleted: {len(deleted)} session{'' if len(deleted) == 1 else 's'}, {gone} file{'' if gone == 1 else 's'}")
    for line in failed:
        print(tame(line), file=sys.stderr)
    return FAILED if failed else OK
