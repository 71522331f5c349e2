"""Prompts for passwords, which only a user may answer."""

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
    "nothing was typed: {} asks for a password, which only a user may type. Press C-c to leave the prompt, or ask the user for"
    " another way"
)


async def require_no_password(terminals: Terminals, terminal: SessionTerminal, name: str) -> None:
    """Raise ExecutionFailed if the program waits for a line that it does not show, or its prompt names a password."""
    if _PROMPT.search(terminal.row()) or await terminals.asks_password(terminal):
        raise ExecutionFailed(_ASKS.format(name))
