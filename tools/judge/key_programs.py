"""Tables of programs by their reaction to keys in a terminal: some start other programs by a single key, others only read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toolcrib.contract.regex import Regex
from tools.judge.meaning.act import Act
from tools.judge.meaning.value import HOLE, names

MENUS = names("whiptail dialog clear tput sleep true false")
"""Programs that only show and choose, whatever is pressed."""
ANSWERED = names("rm cp mv ln")
"""Programs that read nothing but answers to their own questions, about what was judged when they started."""
PAGERS = names("less man zless bzless xzless")
"""Pagers that start no program because of the variable LESSSECURE (see tools/terminals)."""
CHOOSES_PAGER = ("-P", "-H", "-C", "--pager", "--html", "--config-file", "--prg", "--file")
"""Beginnings of options that make a pager or a menu run another program."""
PAGER_VARIABLES = ("PAGER", "MANPAGER", "GIT_PAGER", "MANOPT")
UNSECURES = ("LESSSECURE", "LESSKEY")
"""Beginnings of variables that may let ``less`` start programs."""
USUAL_PAGERS = frozenset({"", "less", "less -R", "cat"})
_MOVES = "text:q|text:h|text: |Enter|Up|Down|Left|Right|PageUp|PageDown|Home|End"
_HARMLESS: Mapping[str, Regex[str]] = {
    "top": Regex(rf"{_MOVES}|text:[01tmcVzbxyiSMPTNReEHJj<>l?]"),
    "htop": Regex(rf"{_MOVES}|text:[tHKMPTNI<>]|F1|F5|F6|F10|Escape"),
    "git": Regex(r"text:[ynqadjJkKgs?]|Enter|C-c"),
}
"""Single keys that only move, sort and choose, by program: all others may end processes, start editors, or write files."""
_BY_PATCH = frozenset("-p --patch -i --interactive".split())
_EDITS = frozenset("commit merge rebase revert tag notes cherry-pick".split())
_WITH_TEXT = ("-m", "-F", "-C", "-l", "-n", "-d", "--message", "--file", "--no-edit", "--list", "--delete", "--abort", "--quit")
FULL_SCREEN = names(
    "top htop btop atop glances more most pg nano pico micro joe jed mcedit mc ranger nnn lf vifm yazi tig lazygit gitui fzf sk"
    " mutt neomutt alpine aerc w3m lynx elinks links newsboat irssi weechat cmus ncdu visudo vipw vigr vimdiff view hx kak"
    " k9s lazydocker tuir nmtui aptitude dselect cfdisk"
)
"""Programs that take every key, and may start others, end processes or change the system by a few."""
ESCAPES = FULL_SCREEN | names("git crontab gpg bluetoothctl nmcli parted fdisk gdisk")
"""These, and programs that do so in some of their uses."""
_HISTORY = Regex(r"![^\s=(\"]|(?m:^\^)")
_CLEARS = Regex(r"\bexec\s+-")
_REBINDS = names("bind bindkey zle abbr")
_SHOWS = frozenset("-a --all -g --save size speed sane echo -echo".split())
"""Words of stty that leave the meaning of keys as it is, or restore it."""
_SETS = Regex(r"\btermios\b|\btc(?:set|get)attr\b|\btty\.set")
_SECURED_BY = "LESSSECURE"
_CHANGES_VARIABLES = names("unset export declare typeset readonly read")


def is_harmless(name: str, words: Sequence[str], keys: Sequence[str]) -> bool:
    """Return whether these keys of a program in ESCAPES only move, sort and choose. Texts count by their characters."""
    harmless = _HARMLESS.get(name)
    if harmless is None or (name == "git" and (words[:1] != ["add"] or _BY_PATCH.isdisjoint(words))):
        return False
    single = (f"text:{char}" if key.startswith("text:") else key for key in keys for char in _chars(key))
    return all(harmless.fullmatch(key) for key in single)


def typed_text(keys: Sequence[str]) -> str:
    """Return the lines that keys type by themselves, the last one completed."""
    text = "".join("\n" if key == "Enter" else key[5:] for key in keys if key == "Enter" or key.startswith("text:"))
    return text if text.endswith("\n") or not text else f"{text}\n"


def _chars(key: str) -> str:
    return key[5:] if key.startswith("text:") else "."


def changes_lines(text: str, before: str, acts: Sequence[Act]) -> str:
    """Return why lines may not reach a shell or a REPL as they are typed; "" if they do.

    ``before`` is what was typed earlier, ``acts`` are those of all lines so far.
    """
    if any(code.language == "shell" for act in acts for code in act.code) and _HISTORY.search(text):
        return "may repeat an earlier line, by ! or ^"
    for act in acts:
        words = [one.text for one in act.argv]
        if act.name in _REBINDS or (act.name == "stty" and not _SHOWS.issuperset(words[1:])) or _SETS.search(text):
            return "may type other text, because keys were given another meaning"
        if _reads_keys(act.name, words[1:]):
            return f"may be keys for {act.name}, which an earlier line started"
        if _changes_pagers(act, words) or _CLEARS.search(before + text):
            return f"may be keys for a pager that starts programs, because {_SECURED_BY} was changed"
    return ""


def _changes_pagers(act: Act, words: Sequence[str]) -> bool:
    """Return whether an act may start a pager without LESSSECURE, or make a later one start so."""
    if _SECURED_BY in act.environment or any(_SECURED_BY in word for word in words) or (act.name in PAGERS and act.wrappers):
        return True
    if act.name == "printf":
        return words[1:2] == ["-v"] and any(HOLE in word for word in words[2:3])
    return act.name in _CHANGES_VARIABLES and any(HOLE in word.partition("=")[0] for word in words[1:])


def _reads_keys(name: str, words: Sequence[str]) -> bool:
    """Return whether a program that a line starts takes what is typed after it, and may do harm by a few keys."""
    if name == "git":
        edits = any(word in _EDITS for word in words[:1]) and not any(word.startswith(_WITH_TEXT) for word in words)
        return edits or not _BY_PATCH.isdisjoint(words)
    if name == "top":
        return not any(word.startswith("-b") for word in words)
    return name in FULL_SCREEN or (name == "crontab" and "-e" in words)
