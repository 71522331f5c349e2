"""Commands so plain that they mean the same to any shell."""

from __future__ import annotations

import re

from toolcrib.contract.regex import Regex

_PLAIN_WORD = Regex(r"[A-Za-z0-9_./:=@%+,-]+", re.ASCII)
_READS_MORE = frozenset(
    ". source su eval exec command builtin trap alias export declare typeset function coproc awk".split()
    + "if then else elif fi for while until do done case esac select".split()
)
"""Names, besides shells and wrappers, that may run another command or change the meaning of later ones."""
_OWN_WORK = frozenset(
    "docker docker-compose podman nerdctl npm yarn pnpm git tar bsdtar rsync scp zip make sort less man apt apt-get"
    " gcloud".split()
)
"""Commands that can run another command, but usually don't. The inner command is judged and granted separately."""


def simple_argv(command: str) -> tuple[str, ...] | None:
    """Return the argv of ONE simple command that means the same in any shell, otherwise None.

    None for anything with a quote, expansion, pattern, redirect, operator, comment or leading assignment, and for commands that
    run another one: wrappers (sudo, env, xargs, find, ...), shells, ``docker exec``.
    """
    if "\n" in command or not command.isascii():
        return None
    argv = tuple(command.split())
    if not argv or not all(_PLAIN_WORD.fullmatch(word) for word in argv):
        return None
    name = argv[0].rpartition("/")[2] if argv[0].startswith("/") else argv[0]
    if "=" in name or name.startswith(("-", "%")) or _stands_before_others(name):
        return None
    return argv if name not in ("docker", "podman") or "exec" not in argv else None


def _stands_before_others(name: str) -> bool:
    from tools.judge.meaning.interpreters import SHELLS  # the judge loads at its first use, not at the start
    from tools.judge.meaning.tables import SPECIALS, WRAPPERS
    from tools.judge.rules import family

    return not set(family(name)).isdisjoint(SHELLS | _READS_MORE | ((WRAPPERS.rows.keys() | SPECIALS.rows.keys()) - _OWN_WORK))
