"""The commands of a terminal's chat with their descriptions, from the table of all commands. slash.py runs them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from agent.desk.commands import ALIASES, SLASH_COMMANDS, on

if TYPE_CHECKING:
    from agent.process import Crib

SLASH = {name: row.words for name, row in on("terminal").items()}
"""Commands of a terminal's chat -> their descriptions."""
ALONE = frozenset(name for name, row in on("terminal").items() if row.alone)
"""Commands without arguments."""
AT_ONCE = frozenset(
    name
    for name, meant in {**{name: name for name in SLASH}, **ALIASES}.items()
    if meant in SLASH and SLASH_COMMANDS[meant].at_once
)
"""Commands that run while the model works; others wait for their turn."""
_OUTSIDE = "outside the chat: toolcrib"
ELSEWHERE = {
    "/agents": "/delegates lists the running delegates",
    "/cd": "!cd FOLDER changes the folder of this and later commands",
    "/config": f"{_OUTSIDE} config edit",
    "/continue": "/sessions lists the last sessions, /resume ID continues one",
    "/doctor": f"{_OUTSIDE} doctor",
    "/edit": "Ctrl-X Ctrl-E opens the draft in your editor",
    "/history": "Ctrl-R searches your earlier input, /sessions lists the last sessions",
    "/login": f"{_OUTSIDE} config set model, and the key in OPENAI_API_KEY or model.api_key_env",
    "/models": "/model lists models, /model NAME switches to one",
    "/permissions": "/approvals lists grants, /mode shows the approval mode",
    "/plugins": f"{_OUTSIDE} plugins",
    "/rename": "/title TEXT names this session",
    "/review": "send it as a message: review the changes; /diff shows them",
    "/rewind": "/undo reverts file changes, /fork N continues from your last N messages",
    "/save": "the session is stored automatically; /export writes it to a file",
    "/settings": f"{_OUTSIDE} config edit",
    "/status": "/context shows what fills the model's context, /cost the usage",
    "/todos": "/show N shows the list of a todo call, by the #N behind it",
    "/usage": "/cost shows this session's usage; outside the chat: toolcrib usage",
    "/version": f"{_OUTSIDE} --version",
}
"""Commands of other programs -> how to do the same here."""
PLAN_HINT = "plan mode: /plan accept carries this out, /plan edit changes it first, /plan reject TEXT asks for another"
"""The note below an answer in plan mode."""
_ALIKE = 0.7


def meant_by(word: str, known: Iterable[str]) -> str:
    """Return a hint about an unknown command: the equivalent here if it is a command of another program, or a similar name."""
    from toolcrib.contract.suggest import near

    if word in ELSEWHERE:
        return ELSEWHERE[word]
    names = {name.removeprefix("/"): name for name in known}
    name = word.removeprefix("/")
    begun = [one for one in names if name and len(name) > 1 and one.startswith(name)]
    alike = begun if len(begun) == 1 else near(name, names, cutoff=_ALIKE)
    return f"did you mean {names[alike[0]]}?" if alike else "list commands: /help"


def words_of(crib: Crib) -> Mapping[str, str]:
    """Return all commands of a terminal's chat, with those of plugins; toolcrib's own commands have priority."""
    added = {f"/{name}": command.words for name, command in crib.slash.items() if "terminal" in command.surfaces}
    return {**added, **SLASH}
