"""When a model may not type into a terminal: at a prompt for a password, and while characters have another meaning."""

from __future__ import annotations

from toolcrib.contract.errors import ExecutionFailed
from toolcrib.contract.regex import Regex
from tools.terminals.terminal import SessionTerminal
from tools.terminals.terminals import Terminals

_PROMPT = Regex(
    r"(?i)(?:pass(?:wor[dt]|phrase|code)|kennwort|mot de passe|contrase\S{1,2}a|senha|\bpin|\botp|one-time|secret|token"
    r"|api[ _-]?key)\b[^:]{0,80}:\s*\**$"
)
_ASKS = (
    "nothing was typed: {} asks for a password, which only a user may type. Ask the user to type it (/ps attach), or press C-c to"
    " leave the prompt"
)


_SPECIAL = Regex(r"(\w+) = (\S+);")
_NUMBERS = frozenset({"min", "time", "line", "columns", "rows"})
_CONTROL = Regex(r"<undef>|\^.")
_CHANGED = (
    "nothing was typed: the terminal of {} gives typed text another meaning (see stty -a), so that its program might read another"
    " line. Press C-c, or end it and start another"
)


def _asks_password(said: str, terminal: SessionTerminal) -> bool:
    words = said.split()
    return ("icanon" in words and "-echo" in words) or _PROMPT.search(terminal.row()) is not None


async def asks_password(terminals: Terminals, terminal: SessionTerminal) -> bool:
    """Return whether the program waits for a line that it does not show, or its prompt names a password. Raises ExecutionFailed
    if that is unknown.
    """
    return _asks_password(await terminals.settings(terminal), terminal)


async def require_usual_input(terminals: Terminals, terminal: SessionTerminal, name: str) -> None:
    """Raise ExecutionFailed if the program waits for a line that it does not show, if its prompt names a password, or if the
    terminal changes printable characters or takes them for keys.
    """
    said = await terminals.settings(terminal)
    words = said.split()
    by_line = "icanon" in words
    if _asks_password(said, terminal):
        raise ExecutionFailed(_ASKS.format(name))
    special = [value for key, value in _SPECIAL.findall(said) if key not in _NUMBERS]
    joins = by_line and ("-icrnl" in words or "igncr" in words)
    if joins or "istrip" in words or "iuclc" in words or not all(_CONTROL.fullmatch(value) for value in special):
        raise ExecutionFailed(_CHANGED.format(name))
