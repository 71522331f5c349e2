"""What programs in a terminal do with keys: some start other programs by a single key, others only read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toolcrib.contract.regex import Regex
from tools.judge.meaning.value import names

MENUS = names("whiptail dialog clear tput sleep true false")
"""Programs that only show and choose, whatever is pressed."""
PAGERS = names("less man zless bzless xzless")
"""Pagers that start no program because of the variable LESSSECURE (see tools/terminals)."""
CHOOSES_PAGER = ("-P", "-H", "-C", "--pager", "--html", "--config-file", "--prg")
"""Beginnings of options that make a pager or a menu run another program."""
PAGER_VARIABLES = ("PAGER", "MANPAGER", "GIT_PAGER", "MANOPT", "LESSSECURE")
USUAL_PAGERS = frozenset({"", "less", "less -R", "cat"})
_MOVES = "text:q|text:h|text: |Enter|Up|Down|Left|Right|PageUp|PageDown|Home|End"
_HARMLESS: Mapping[str, Regex[str]] = {
    "top": Regex(rf"{_MOVES}|text:[01tmcVzbxyiSMPTNReEHJj<>l?]"),
    "htop": Regex(rf"{_MOVES}|text:[tHKMPTNI<>]|F1|F5|F10"),
    "git": Regex(r"text:[ynqadjJkKgs?]|Enter|C-c"),
}
"""Single keys that only move, sort and choose, by program: all others may end processes, start editors, or write files."""
_BY_PATCH = frozenset("-p --patch -i --interactive".split())
ESCAPES = names(
    "top htop btop atop glances git more most pg nano pico micro joe jed mcedit mc ranger nnn lf vifm yazi tig lazygit gitui fzf"
    " sk mutt neomutt alpine aerc w3m lynx elinks links newsboat irssi weechat cmus ncdu crontab visudo vipw vigr vimdiff view hx"
    " kak k9s lazydocker tuir mysql mariadb gpg bluetoothctl nmtui nmcli parted fdisk gdisk cfdisk aptitude dselect"
)
"""Programs that may start others, end processes or change the system by a few keys."""
_HISTORY = Regex(r"![^\s=(\"]|(?m:^\^)")
_REBINDS = names("bind")


def is_harmless(name: str, words: Sequence[str], keys: Sequence[str]) -> bool:
    """Return whether these keys of a program in ESCAPES only move, sort and choose. Texts count by their characters."""
    harmless = _HARMLESS.get(name)
    if harmless is None or (name == "git" and _BY_PATCH.isdisjoint(words)):
        return False
    single = (f"text:{char}" if key.startswith("text:") else key for key in keys for char in _chars(key))
    return all(harmless.fullmatch(key) for key in single)


def _chars(key: str) -> str:
    return key[5:] if key.startswith("text:") else "."


def recalls(text: str, programs: Sequence[str]) -> str:
    """Return why a line may become another one in a shell that people type into; "" if it does not.

    ``programs``: names of the programs that the lines so far run.
    """
    if _HISTORY.search(text):
        return "! and ^ may repeat an earlier line"
    if not _REBINDS.isdisjoint(programs):
        return "bind gave keys another meaning"
    return ""
