"""The parser of command lines: what is wrong in a line or two, instead of a screen of usage."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from typing import NoReturn

from toolcrib._near import near
from toolcrib._regex import Regex

_ABOUT = Regex(r"argument (?P<names>[^:]+): (?P<what>.*)", re.DOTALL)
_UNKNOWN = "unrecognized arguments: "


class CommandParser(argparse.ArgumentParser):
    """A parser that ends with 2 for a wrong command line. Usage is shown where words are missing: there it says which."""

    def error(self, message: str) -> NoReturn:
        if not message.startswith((_UNKNOWN, "argument ", "ambiguous option")):
            self.print_usage(sys.stderr)
            self.exit(2, f"{self.prog}: error: {message}\n")
        about = _ABOUT.fullmatch(message)
        if message.startswith(_UNKNOWN):
            message = self._unknown(message.removeprefix(_UNKNOWN).split())
        elif about is not None:
            message = f"{about['names']}: {about['what']}"
        self.exit(2, f"{self.prog}: {message}\n`{self.prog} --help` tells more\n")

    def _unknown(self, words: list[str]) -> str:
        """Say of what nobody asked for what was probably meant."""
        option = next((word.partition("=")[0] for word in words if word.startswith("-") and len(word) > 1), "")
        if not option:
            return f"too many words: {' '.join(words)}"
        alike = near(option, list(self._options())) if option.startswith("--") else []
        return f"there is no option {option}" + (f"; did you mean {alike[0]}?" if alike else "")

    def _options(self) -> Iterator[str]:
        for action in self._actions:
            if action.help != argparse.SUPPRESS:
                yield from (name for name in action.option_strings if name.startswith("--"))
