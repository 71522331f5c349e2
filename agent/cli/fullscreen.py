"""Recognise programs that use the whole screen of a terminal. A chat's commands have no terminal, so such programs would
hang.
"""

from __future__ import annotations

import shlex

_PROGRAMS = frozenset(
    "vi vim nvim view vimdiff nano pico emacs micro helix hx kak joe mcedit less more most man info top htop btop atop iotop nmon"
    " watch screen tmux byobu zellij mc ranger nnn lf tig lazygit lazydocker k9s"
    " ncdu gdu cfdisk alsamixer nmtui dialog whiptail".split()
)
_BEFORE = frozenset({"sudo", "doas", "env", "nice", "time", "command", "exec"})
_ENDS = frozenset({";", "&&", "||", "&", "\n"})


def drawing(command: str) -> str:
    """Return the program in a command that uses the whole screen, or "" if there is none or its output is redirected."""
    for words in _simple_commands(command):
        if any(word.startswith((">", "|")) for word in words):
            continue
        while words and (words[0] in _BEFORE or words[0].startswith("-") or "=" in words[0].partition("/")[0]):
            words = words[1:]
        name = words[0].rpartition("/")[2] if words else ""
        if name in _PROGRAMS and not {"--version", "--help", "-b"} & set(words[1:]):
            return name
    return ""


def _simple_commands(command: str) -> list[list[str]]:
    """Return the words of each command of a line; of a pipeline only the last command, whose output is not piped."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    found: list[list[str]] = [[]]
    try:
        for word in lexer:
            if word in _ENDS:
                found.append([])
            elif word == "|":
                found[-1] = []
            else:
                found[-1].append(word)
    except ValueError:  # an unclosed quote, which the shell reports
        return []
    return found
