"""Rules: messages, over D-Bus or to editors, that make running programs outside of the session act."""

from __future__ import annotations

from toolcrib.contract.regex import Regex
from tools.judge.meaning.value import names
from tools.judge.table import ActView, Test, opt, rule, word

_LOOKS = Regex(r"(?:Get|List|Introspect|Ping|Name|Has|Is|Read|Lookup|Search|Find|Query|Describe|Can|Show)\w*|Peer")
"""Usual names of D-Bus members that only return information."""
_VALUED = names("-d --dest -o --object-path -m --method -t --timeout -H --host -M --machine --address --type --reply-timeout")
_TELLS = names("list status monitor capture tree introspect get-property wait help")
"""Commands of busctl that call nothing."""


def _calls(view: ActView) -> bool:
    """Return whether a client of D-Bus calls a member that may do something."""
    words = [one.text for one in view.operands(_VALUED)]
    if view.name == "gdbus":
        given = [one.text for one in view.values(names("-m --method"))]
        return words[:1] in (["call"], ["emit"]) and not any(_is_look(one) for one in given)
    if view.name == "busctl":
        return bool(words) and words[0] not in _TELLS and not (words[0] == "call" and _is_look("".join(words[4:5])))
    if view.name == "dbus-send":
        return len(words) > 1 and not _is_look(words[1])
    return len(words) > 2 and not _is_look(words[2])


def _is_look(member: str) -> bool:
    return _LOOKS.fullmatch(member.rpartition(".")[2]) is not None


RULES = (
    rule(
        "service.message",
        "ask-once",
        "dbus-send gdbus busctl qdbus qdbus6",
        Test(_calls),
        "calls a running program over D-Bus, which acts outside of the session",
        yes=(
            "dbus-send --session --dest=org.freedesktop.systemd1 /a org.freedesktop.systemd1.Manager.StartUnit",
            "gdbus call --session -d org.gnome.Shell -o /org/gnome/Shell -m org.gnome.Shell.Eval x",
            "busctl --user call org.gnome.Shell /org/gnome/Shell org.gnome.Shell Eval s x",
            "qdbus org.kde.konsole /Sessions/1 runCommand ls",
        ),
        no=(
            "busctl list",
            "busctl --user get-property a.b /a a.b State",
            "gdbus introspect --session --dest a.b --object-path /a",
            "gdbus call --session -d a.b -o / -m org.freedesktop.DBus.Properties.GetAll a",
            "dbus-send --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.ListNames",
            "qdbus org.kde.konsole",
        ),
        dry=False,
    ),
    rule(
        "shell.attach",
        "ask-once",
        "emacsclient",
        opt("-e --eval"),
        "evaluates code in a running editor, outside of the session",
        yes="emacsclient -e '(shell-command \"make\")'",
        no="emacsclient -n notes.txt",
        dry=False,
    ),
    rule(
        "shell.attach",
        "ask-once",
        "vim gvim nvim",
        word(r"--remote-(?:send|expr)(?:=.*)?"),
        "types into a running editor, outside of the session",
        yes=("nvim --server s --remote-send ':w<CR>'", "vim --servername G --remote-expr 'system(1)'"),
        no=("nvim --server s --remote notes.txt", "vim notes.txt"),
        dry=False,
    ),
)
