"""Verdicts of other readers of shell scripts: ``bash -n`` (accepts or refuses; it executes nothing), and our own parser."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tools.judge.shell import ShellSyntaxError, ShellTooComplex, parse

LOOP = 'for file; do bash $options -n "$file" 2>"$file.err"; echo "$?"; done'
# Cases that this parser refuses and ``bash -n`` accepts: the beginning of our message, and the reason.
STRICTER = {
    "bad substitution": "bash finds it when it runs it; ${ command; } is bash 5.3's",
    "unclosed ${": "the same",
    "quotes inside ${...}": "in double quotes they are characters that yet come in pairs",
    "$'...' inside ${...}": "in double quotes its decoded text is read again",
    "an escaped quote in backquotes inside ${...}": "who takes the backslash away is unclear",
    "a quoted expansion in arithmetic": "bash expands it although it stands in single quotes",
    "parentheses that don't match in $((": "bash finds that end by counting parentheses",
    "a list as an argument of eval, let or alias": "bash hands the list over as text",
    "a list as the value of an array's member": "fails when it is run",
    "a function's name with quotes or expansions": "fails when it is run",
    "a variable's name was expected": "fails when it is run",
    "an operator is split by a line continuation": "bash joins it; no person writes that",
    "an expansion is split by a line continuation": "the same",
    "a variable's name is split by a line continuation": "the same",
    "a reserved word or an assignment is split": "the same",
    "an assignment is split by a line continuation": "the same",
    "a file descriptor is split by a line continuation": "the same",
    "a here-document's delimiter with an expansion": "its text counts as it was written: too odd to follow",
    "a here-document's delimiter with a newline": "can never match",
    "a here-document's delimiter with more on its line": "versions of bash differ",
    "a here-document starts in a command substitution": "versions of bash differ",
    "a here-document after one that a parenthesis ended": "versions of bash differ",
    "a backslash at the end of the text": "it escapes the next text that bash gets",
    "a reserved word after coproc": "bash takes it as such in most cases",
    "a process substitution in": "bash finds its end by counting parentheses, or does not see it",
    "(( that is two subshells": "bash loses the newline, and refuses most text that may follow",
    "time before a compound command": "bash 5.2 takes time for a program there",
    "an escaped operator in an array": "bash 5.2 loses the backslash",
    "brackets in an expansion that bash would count": "bash would find another end",
    "a bracket after $$": "bash reads it in two ways",
    "malformed for ((": "bash stops without a message",
    "a newline before in, in a loop after case": "bash 5.2 refuses it",
    "unclosed [...]": "in ${...} for bash the brace ends it, and running it fails",
    "an empty [[": "bash -n lets it pass, and running it fails",
    "text after an array": "then it is none, or an error",
    "time after coproc": "scripts do not contain this",
    "a NUL character": "bash drops it",
    "the script is too complex": "the budget",
}
LATE = "only when it runs that part"
"""Part of the message for a fault in backquotes, a here-document or ``$((...) ...)``: bash reads those only when it runs them."""


PATTERN_COMMAND = re.compile(r"!\(|[?*+@]\([ \t]*\)")
COUNTED = re.compile(r"(?:\(\(|[?*+@!]\(|\$\[).*\$[({\[]", re.DOTALL)


class Verdict(NamedTuple):
    text: str
    bash: bool
    """True if bash accepts the text, with or without extended patterns."""
    ours: str
    """Our error message; "" if we accept it."""

    @property
    def explained(self) -> bool:
        if self.ours.startswith(tuple(STRICTER)) or LATE in self.ours:
            return True
        # ``!(`` and ``name@()`` have another meaning with extended patterns. If bash counts brackets without regard to
        # expansions within them, damaged text makes it find another end than we do.
        return bool(PATTERN_COMMAND.search(self.text) or ("un" in self.ours[:2] and COUNTED.search(self.text)))

    @property
    def wrong(self) -> bool:
        return self.bash != (not self.ours) and not (self.bash and self.explained)


def refusal(text: str) -> str:
    try:
        parse(text)
    except (ShellSyntaxError, ShellTooComplex) as error:
        return str(error)
    return ""


def verdicts(texts: Sequence[str], folder: Path) -> list[Verdict]:
    accepted = bash_accepts(texts, folder, "-O", "extglob")
    again = [text for text, yes in zip(texts, accepted, strict=True) if not yes]
    without = dict(zip(again, bash_accepts(again, folder), strict=True))
    return [Verdict(text, yes or without[text], refusal(text)) for text, yes in zip(texts, accepted, strict=True)]


def bash_accepts(texts: Sequence[str], folder: Path, *options: str) -> list[bool]:
    """Return whether bash accepts each text; one process reads them all. A fault in ``[[`` is reported but leaves exit status 0,
    so error output counts too.
    """
    if not texts:
        return []
    files = [folder / f"{number}.sh" for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_bytes(text.encode("utf-8", "surrogateescape"))
    done = subprocess.run(
        ["bash", "-c", LOOP, "check", *map(str, files)],
        env={"options": " ".join(options), "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
        capture_output=True,
        check=True,
        timeout=600,
    )
    answers = []
    for file, status in zip(files, done.stdout.split(), strict=True):
        told = file.with_name(file.name + ".err").read_text(errors="replace").splitlines()
        file.with_name(file.name + ".err").unlink()
        file.unlink()
        answers.append(status == b"0" and all("warning:" in line for line in told))
    return answers
