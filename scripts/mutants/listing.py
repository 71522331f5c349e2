"""The list of known survivors, each with its reason."""

from __future__ import annotations

import re

from mutants.making import Key, Mutant


def read_survivors(text: str) -> dict[Key, str]:
    """Return the reason of each listed mutant. Raises ValueError for an entry without one, or one that can't be parsed."""
    form = re.compile(r"(\S+) (\S+)\n- ?(.*)\n\+ ?(.*)(?:\nwhy: (\S.*))?")
    listed: dict[Key, str] = {}
    for block in re.split(r"\n\s*\n", "\n".join(line for line in text.splitlines() if not line.startswith("#"))):
        if block.strip():
            entry = form.fullmatch(block.strip("\n"))
            if entry is None or not entry[5]:
                raise ValueError(f"An entry must be FILE SCOPE, then the lines `- before`, `+ after` and `why: reason`:\n{block}")
            listed[entry[1], entry[2], entry[3].strip(), entry[4].strip()] = entry[5]
    return listed


def write_entry(mutant: Mutant, why: str = "") -> str:
    """Return the mutant's entry in the list."""
    return f"{mutant.path} {mutant.scope}\n- {mutant.before}\n+ {mutant.after}\nwhy: {why}\n"
