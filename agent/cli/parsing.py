"""The parser of command lines: an error takes a line or two, instead of a screen of usage."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NoReturn

from toolcrib.contract.regex import Regex
from toolcrib.contract.suggest import near

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

_ABOUT = Regex(r"argument (?P<names>[^:]+): (?P<what>.*)", re.DOTALL)
_CHOICE = Regex(r"invalid choice: '(?P<given>.*)' \(choose from (?P<known>.*)\)", re.DOTALL)
_LAST_COLUMN = Regex(r" *\S.*? {2,}(?=\S)")
_UNKNOWN = "unrecognized arguments: "
_NO_VALUE = "expected one argument"
_WHICH: Mapping[str, str] = {
    "--resume": "give the session; list sessions: toolcrib sessions; --continue uses the last one of this folder",
}
"""Option -> the message if its value is missing."""
_CONTINUES = "toolcrib chat --continue continues the last session of this folder"
_ONE_TASK = 'toolcrib run "..." runs one task; toolcrib chat "..." starts a chat with it'
_BELONGS: Mapping[str, str] = {
    **dict.fromkeys(("-p", "--print", "--prompt", "-q"), _ONE_TASK),
    **dict.fromkeys(("-c", "--continue"), _CONTINUES),
    **dict.fromkeys(("-r", "--resume"), "toolcrib chat --resume ID continues a session; toolcrib sessions lists them"),
    **dict.fromkeys(("-m", "--model"), "toolcrib chat --model NAME; as the default: toolcrib config set model.name NAME"),
}
"""Options that users write before a command, with the command that has them."""
_TASKS = ("--goal", "--message", "--objective", "--prompt", "--query", "--task", "-p", "-q")
"""Options of other programs for the task itself."""
_ELSEWHERE: Mapping[str, str] = {
    "ask": _ONE_TASK,
    "continue": _CONTINUES,
    "exec": _ONE_TASK,
    "help": "toolcrib --help lists the commands",
    "init": "toolcrib setup writes a configuration; /init in a chat drafts an AGENTS.md",
    "configure": "toolcrib setup asks for a model, a backend and toolsets; toolcrib config sets any key",
    "login": "toolcrib setup asks for a model's key, or for the variable that holds it",
    "onboard": "toolcrib setup asks for a model, a backend and toolsets",
    "resume": f"{_CONTINUES}; toolcrib chat --resume ID continues another one",
    "version": "toolcrib --version prints it",
}
"""Commands of other programs -> the command that does the same here."""


def meant_by(name: str, known: Iterable[str]) -> str:
    """Return a hint about the likely meaning of an unknown command."""
    if name in _ELSEWHERE:
        return _ELSEWHERE[name]
    if len(name.split()) > 1:
        return _ONE_TASK
    alike = near(name, known)
    return f"did you mean {alike[0]!r}?" if alike else "list commands: toolcrib --help"


def fitted(text: str, columns: int) -> str:
    """Return a help text for a terminal of that width: longer lines break between words, and continue below their last column."""
    import textwrap

    def broken(line: str) -> str:
        begin, own = _LAST_COLUMN.match(line), len(line) - len(line.lstrip())
        indent = own if begin is None else begin.end() if begin.end() * 2 <= columns else own + 4
        below = " " * indent
        return "\n".join(textwrap.wrap(line, columns, subsequent_indent=below, break_long_words=False, break_on_hyphens=False))

    return "\n".join(line if len(line) <= columns else broken(line) for line in text.split("\n"))


def _chosen(what: str) -> str:
    """Return the error about an argument. If the argument must be one of a few words, suggest the nearest one first."""
    choice = _CHOICE.fullmatch(what)
    if choice is None:
        return what
    known = [one.strip("'") for one in choice["known"].split(", ")]
    alike = near(choice["given"], known)
    meant = f"; did you mean {alike[0]!r}?" if alike else ""
    return f"invalid choice: {choice['given']!r}{meant} (choose from {', '.join(known)})"


class CommandParser(argparse.ArgumentParser):
    """A parser that exits with 2 for a wrong command line. It prints the usage if words are missing, to show which."""

    said = ""
    """Last error message of the parser."""

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        self.said = message or ""
        super().exit(status, message)

    def error(self, message: str) -> NoReturn:
        if not message.startswith((_UNKNOWN, "argument ", "ambiguous option")):
            self.print_usage(sys.stderr)
            self.exit(2, f"{self.prog}: error: {message}\n`{self.prog} --help` shows details\n")
        about = _ABOUT.fullmatch(message)
        if message.startswith(_UNKNOWN):
            message = self._unknown(message.removeprefix(_UNKNOWN).split())
        elif about is not None:
            which = _WHICH.get(about["names"], "") if about["what"] == _NO_VALUE else ""
            message = f"{about['names']}: {which or _chosen(about['what'])}"
        self.exit(2, f"{self.prog}: {message}\n`{self.prog} --help` shows details\n")

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        """Print the help, for the width of the terminal."""
        from agent.cli.terminal import columns_of

        self._print_message(fitted(self.format_help(), columns_of(sys.stdout)), file or sys.stdout)

    def _unknown(self, words: list[str]) -> str:
        """Return a message about unknown words, with a hint about their likely meaning."""
        option = next((word.partition("=")[0] for word in words if word.startswith("-") and len(word) > 1), "")
        if not option:
            return f"too many words: {' '.join(words)}"
        if self.prog == "toolcrib" and option in _BELONGS:
            return f"{option} needs a command: {_BELONGS[option]}"
        if self.prog in ("toolcrib run", "toolcrib chat") and option in _TASKS:
            return f'unknown option {option}; write the task without an option: {self.prog} "..."'
        alike = near(option, list(self._options())) if option.startswith("--") else []
        return f"unknown option {option}" + (f"; did you mean {alike[0]}?" if alike else "")

    def _options(self) -> Iterator[str]:
        for action in self._actions:
            if action.help != argparse.SUPPRESS:
                yield from (name for name in action.option_strings if name.startswith("--"))
