"""``/init``: draft the project's AGENTS.md, by the model or from the project's files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from agent.cli.escape import tame
from agent.context.drafting import ProjectFacts, draft, existing, look_at, missing, request
from agent.context.instructions import NAMES, project_root
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.types import ToolCall

if TYPE_CHECKING:
    from agent.cli.conversation import Conversation


async def init(chat: Conversation, wishes: str) -> None:
    """Draft the file, or propose improvements to an existing one. Raises ToolcribError."""
    session = chat.session
    if session.backend.is_remote:
        if not chat.model:
            raise ToolcribError(
                f"the project is on another host ({session.backend.name}): connect a model, which can read it there"
            )
        await chat.say(request(NAMES[0], ProjectFacts(""), is_there=None, wishes=wishes))
        return
    path, shown, is_there = _file(session.scope.cwd, chat.opening.crib.project_dir)
    facts = look_at(path.parent)
    if chat.model:
        await chat.say(request(shown, facts, is_there=is_there, wishes=wishes))
    elif is_there:
        _propose(chat, path, missing(facts, _read(path)))
    else:
        await _write(chat, shown, draft(facts))
    if not is_there and _is_there_now(path):
        chat.screen.print_note(f"{tame(shown)}: new sessions read it; to start one: /new")


def _file(cwd: str, project_dir: Path) -> tuple[Path, str, bool]:
    """Return the path of the project's instruction file, its name as seen from the commands' folder, and whether it exists."""
    folder = Path(os.path.realpath(cwd))
    root = project_root(folder, Path(os.path.realpath(project_dir)))
    there = existing(root)
    path = there or root / NAMES[0]
    return path, path.name if root == folder else str(path), there is not None


def _is_there_now(path: Path) -> bool:
    return path.is_file()


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError as error:
        raise ToolcribError(f"{path} cannot be read: {error.strerror or error}") from None


async def _write(chat: Conversation, shown: str, text: str) -> None:
    """Write the draft with a call of the user, which passes the gate like any other call."""
    if "write_file" not in chat.session.names:
        chat.screen.text(text)
        chat.screen.print_note(f"a draft of {tame(shown)}; this session has no write_file, so write it yourself")
        return
    await chat.call(ToolCall(ToolCall.new_id(), "write_file", {"path": shown, "content": text}))


def _propose(chat: Conversation, path: Path, lacking: str) -> None:
    if not lacking:
        chat.screen.print_note(f"{tame(path.name)} exists and lists every command of the build files; a model could add more")
        return
    from difflib import unified_diff

    before = _read(path)
    after = f"{before.rstrip()}\n\n## Build and test\n\n{lacking}"
    lines = unified_diff(before.splitlines(), after.splitlines(), path.name, path.name, lineterm="")
    chat.screen.print_note(f"{tame(path.name)} exists and was not changed. It does not list these commands:")
    chat.screen.diff("\n".join(lines))
