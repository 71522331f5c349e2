"""Panes of terminal multiplexers: the typed lines after which the meaning of the next line is unknown.

A line that gives words another meaning, or starts a program that reads typed text, makes its session *unsure*. Such a session
is recorded as the path of a file below FOLDER that does not exist, so that later calls know of it too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from toolcrib.contract.regex import Regex
from tools.judge.meaning import filestate
from tools.judge.meaning.multiplexers import READERS, driven
from tools.judge.meaning.shellstate import State
from tools.judge.meaning.value import HOLE, Taint, Value, names
from tools.judge.meaning.walk import Walker

FOLDER = "/dev/pts/panes"

_DEFINES = names("alias function source . eval trap bind set shopt enable declare typeset exec complete PATH SHELL")
_READS = names(
    """
    vi vim nvim view gvim nano pico micro emacs emacsclient ed ex hx helix kak joe less more most man info top htop btop atop tig
    lazygit ranger mc nnn vifm fzf gdb lldb pdb ipdb mysql
    mariadb psql pgcli mycli sqlite3 litecli duckdb redis-cli mongo mongosh cqlsh
    usql ssh mosh telnet ftp sftp nc ncat socat lftp su login script screen tmux zellij ipython bpython ptpython ghci R julia iex
    erl scala groovysh jshell clisp sbcl racket guile maxima octave irb pry tclsh wish expect read cat tee mutt alpine w3m lynx
    links bc dc crontab visudo vipw
    """
)
"""Programs that read typed text. Most of them use it in another way than a shell does."""
_BARE = names("bash sh zsh fish dash ksh csh tcsh nu pwsh python python3 python2 node deno bun ruby perl php lua luajit sudo")
"""Programs that read typed text if they have no file or text as argument."""
_ATTACHES = Regex(
    r"\b(?:docker|podman|nerdctl|kubectl|oc|lxc|distrobox)\b.*\s(?:-\w*[it]\w*|--interactive|--tty|attach|enter|shell)\b"
    r"|\bgit\s.*(?:-i\b|--interactive|-p\b|--patch|\bcommit\b(?!.*\s(?:-\w*m|--message|-F|-C|--no-edit)))"
    r"|\b(?:bash|sh|zsh|python3?|node|php|ruby)\s+(?:-\w*[is]\w*|--interactive)\b|\b(?:sudo|doas)\s+(?:-\w*[is]\w*|su)\b"
)
_PARTS = Regex(r"[;&|\n]+|\b(?:then|do|else)\b|[{(]")
_FUNCTION = Regex(r"[\w.-]+\s*\(\s*\)")
_ACTIVATES = Regex(r"(?:source|\.)\s+\S*bin/activate\s*")


def session_of(target: str) -> str:
    """Return the path that stands for the session of a target (``=dev:1.0``)."""
    return f"{FOLDER}/{re.split('[:.]', target.lstrip('='))[0]}"


def leaves_unsure(line: str) -> bool:
    """Return whether the meaning of a line typed after this one is unknown."""
    if HOLE in line or _FUNCTION.search(line) or _ATTACHES.search(line):
        return True
    for part in _PARTS.split(line):
        words = part.split()
        while words and ("=" in words[0] or words[0] in ("sudo", "env", "command", "time", "nohup", "exec", "builtin")):
            if words[0].partition("=")[0] in _DEFINES and words[0] != "exec":
                return True
            words = words[1:] if len(words) > 1 or "=" in words[0] else []
        if not words or _ACTIVATES.fullmatch(part.strip()):
            continue
        name = words[0].lstrip("\\").rpartition("/")[2]
        if name in _DEFINES and (name not in ("set", "shopt") or len(words) > 1):
            return True
        if name == "cat" and len([word for word in words[1:] if word[:1] not in ("-", "<", ">")]) > ("<" in part or ">" in part):
            continue
        if name in _READS or (
            name in _BARE and all(word[:1] == "-" for word in words[1:]) and "-c" not in words and "-m" not in words
        ):
            return True
    return False


def is_unsure(target: str, unsure: Iterable[str]) -> bool:
    """Return whether a target may name one of the ``unsure`` sessions (paths). A target may be the beginning of a name."""
    session = session_of(target)
    return any(one.startswith(session) or HOLE in one for one in unsure)


def _typed(it: Walker, _state: State, argv: Sequence[Value]) -> None:
    for target, line in driven(argv[0].text.rpartition("/")[2], argv).typed:
        if leaves_unsure(line):
            filestate.last(it, session_of(target), Taint.WRITTEN)


EFFECTS = dict.fromkeys(READERS, _typed)
