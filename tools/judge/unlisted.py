"""Writes by unknown programs: if an argument is one of the most dangerous files, that file counts as written.

A list of all options that name a file to write can't be complete. So every program that is not known to only read its
arguments counts as writing such a file: a terminal, one of toolcrib's own files, or a file that shells or programs load when they
start.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

from toolcrib.contract.regex import Regex
from tools.judge.meaning import tables
from tools.judge.meaning.act import Act
from tools.judge.meaning.tails import TALKS
from tools.judge.meaning.unknown_programs import SPARE
from tools.judge.meaning.value import HOLE, Value, names
from tools.judge.path_rules import PathRule
from tools.judge.writes import is_listed

_WRITE = names("uniq history fc ar ranlib tput at")
"""Programs that may write to files in their arguments, although other tables list them as harmless."""
_READ = names(
    "chezmoi yadm stow dotbot rcup lsrc mackup homeshick vcsh ssh-keygen tmux screen psql gdb lldb systemctl systemd-analyze dex"
    " gtk-launch desktop-file-validate i3 sway xrdb setfont loadkeys lsof fuser inotifywait inotifywatch namei getfattr lsattr"
    " mimetype eza exa lsd fd fdfind delta vimdiff meld sdiff colordiff icdiff dwdiff difft batcat batcher ccat highlight lp lpr"
    " expand unexpand sum b2sum b3sum sha224sum sha384sum xxhsum restic borg duplicity fish dash login zsh exec nohup direnv"
    " rbenv pyenv mise asdf starship zoxide atuin shopt stty cksum most bless hexyl od glow mdcat sk fzf peco watch watchexec"
    " source-highlight enscript a2ps keychain xdg-mime gio trashy scc onefetch vet shellharden checkbashisms bashate docker"
    " podman"
)
"""Programs that only read their arguments, in addition to those known elsewhere."""
_READ_MODULES = names("tokenize dis ast pydoc pygments tabnanny http.server pytest unittest ruff mypy json.tool py_compile")
_TOLD = Regex(
    r"GIT_TR\w*|GIT_REDIRECT_\w+|HISTFILE|SSLKEYLOGFILE|MALLOC_TRACE|\w*(?:TRACE|LOG|LOGS|OUTPUT|PROFILE|COVERAGE)(?:_?FILE|_?PATH|_TO)?"
)
"""Variables that name a file which a program writes."""
_AWK = names("awk gawk mawk nawk")
_PYTHON = Regex(r"(?:python|pypy)[\d.]*")
_TERMINAL = Regex(r"/dev/(?:pts/.+|tty\d*|console|vcsa?\w*)")
_LATER = Regex(r"/\.local/(?:bin|share|lib)/")


def written(act: Act, families: Sequence[str]) -> Iterator[Value]:
    """Yield the words, and the values of variables, that may be files which ``act`` writes although no table lists them."""
    for name, given in act.environment.items() if not act.place else ():
        if given.text[:1] in ("/", "~", ".") and (_TOLD.fullmatch(name) or act.name in _AWK):
            yield given
    if act.place or act.code or not act.name or HOLE in act.name or "/" in act.name or act.name[0] == "@":
        return
    given_words = act.argv[1:]
    if not given_words:
        return
    known = is_known(act.name)
    if known is None:
        given_words = _of_module(given_words)
    elif known or is_listed(families):
        return
    for word in given_words:
        text = word.text
        if len(text) < 2:
            continue
        if text[0] != "-":
            yield word
        elif text[2:3] in ("/", "~") and text[1] != "-":
            yield word._replace(text=text[2:], shown="")
        if "=" in text:
            yield word._replace(text=text.partition("=")[2], shown="")


@functools.lru_cache(maxsize=512)
def is_known(name: str) -> bool | None:
    """Return whether a program only reads its arguments, or runs commands that the judge follows as acts of their own.

    None for Python, where it depends on the module.
    """
    if _PYTHON.fullmatch(name):
        return None
    if name in _WRITE:
        return False
    if name in SPARE or name in TALKS or name in _READ or name in tables.BUILTINS.rows:
        return True
    return name in tables.WRAPPERS.rows or name in tables.SPECIALS.rows or tables.interpreter(name) is not None


def _of_module(words: Sequence[Value]) -> Sequence[Value]:
    """Return the words after ``-m MODULE`` that may be written: all but the first file for ``json.tool``, none for a reader."""
    for at, word in enumerate(words[:-1]):
        if word.text == "-m":
            module = words[at + 1].text
            if module == "json.tool":
                plain = [one for one in words[at + 2 :] if one.text[:1] != "-"]
                return plain[1:]
            return () if module in _READ_MODULES else words[at + 2 :]
        if word.text[:1] != "-":
            break
    return ()


def is_highest(rule: PathRule, path: str) -> bool:
    """Return whether a rule about ``path`` also counts for unknown programs."""
    if rule.key == "persist.start-file":
        return _LATER.search(path) is None
    return rule.key == "terminal.device" and _TERMINAL.fullmatch(path) is not None
