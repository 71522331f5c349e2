"""Terminal multiplexers (tmux, screen, zellij, dtach): the lines that they run or type, and their other effects on terminals.

A whole line sent to a named session of the default server is judged as that line. The user is asked about everything else that
types, and everything that may reach a terminal used by a person: a key may answer a prompt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import field

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.regex import Regex
from tools.judge.meaning.value import HOLE, Value, joined, names, unknown
from tools.judge.meaning.wrappers import Inner, takes_next

Values = Sequence[Value]


@dataclass(slots=True)
class Driven:
    """Commands and sessions that a command of a multiplexer drives.

    ``lines`` are run, or typed and sent. ``targets`` are the sessions that get typed lines. ``asks`` is True if the user must
    be asked, because the command does more, or something unknown.
    """

    lines: list[Inner] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    asks: bool = False
    typed: list[tuple[str, str]] = field(default_factory=list)
    """Lines, each with the session that it is typed or started in."""


def driven(name: str, argv: Values) -> Driven:
    """Return what a command of a multiplexer drives; ``name`` is a key of READERS."""
    found = Driven()
    READERS[name](argv, found)
    return found


def _line(found: Driven, target: str, text: Value) -> None:
    """Add a line that is typed into a session. Its working folder is unknown."""
    found.targets.append(target)
    found.typed.append((target, text.text))
    found.lines.append(Inner(text=text, own=True, cwd=unknown()))
    if _NAMED.fullmatch(target) is None or any(_ANSWER.fullmatch(one.strip()) for one in text.text.splitlines() or [""]):
        found.asks = True


_NAMED = Regex(r"=?(?:\d+\.)?[A-Za-z_][\w+-]*(?::[\w+.-]*|\.\d+)?")
"""A session with a given name, and a window or pane in it. A session that a person began without a name has a number, such as
``0``, which does not match.
"""

_ANSWER = Regex(
    r"|.|\d+|y(?:es)?|no?|once|path|session|task|always|deny|(?:u|m|uses|until|minutes)\s+\d+|[:!].*|/[\w@-]+(?:\s.*)?",
    re.IGNORECASE | re.DOTALL,
)
"""Lines that a prompt or a chat would read as an answer or a command, and that no shell needs."""


# -- tmux --------------------------------------------------------------------------------------------------------------

_SHOWS = frozenset(
    """
    ls list-sessions lsw list-windows lsp list-panes lsc list-clients lscm list-commands lsk list-keys lsb list-buffers
    has has-session show show-options showw show-window-options showenv show-environment show-hooks showmsgs show-messages
    showb show-buffer info server-info start start-server
    """.split()
)
_SHOWS_WITH_P = frozenset({"display", "display-message", "capturep", "capture-pane"})
"""Commands that only print if they have ``-p``."""
_NEW = frozenset({"new", "new-session"})
_SENDS = frozenset({"send", "send-keys"})
_RUNS = (
    *("new-session", "new-window", "neww", "split-window", "splitw", "respawn-pane", "respawnp", "respawn-window", "respawnw"),
    *("run-shell", "popup", "display-popup", "pipe-pane", "pipep"),
)
_VALUED = names("-s -n -c -t -x -y -F -e -l -w -h -d -S -T -b -E")
_ENTER = frozenset({"enter", "c-m", "kpenter", "c-j", "^m", "^j"})
_KEY = Regex(
    r"(?:[CMS]-.+|\^.|Up|Down|Left|Right|BSpace|BTab|DC|Delete|End|Escape|F\d+|Home|IC|Insert|NPage|PageDown|PgDn|PPage|PageUp|PgUp"
    r"|Tab|KP.+|Any|User\d+|Mouse.+)",
    re.IGNORECASE,
)


def _tmux(argv: Values, found: Driven) -> None:
    at = 1
    while at < len(argv) and argv[at].text[:1] == "-":
        text = argv[at].text
        if text[1:2] in ("c", "f", "L", "S"):  # another shell, configuration or server
            found.asks = True
            if text == "-c" and at + 1 < len(argv):
                found.lines.append(Inner(text=argv[at + 1], own=True))
        at += 2 if takes_next(text, names("-c -f -L -S -T")) else 1
    for command in _commands(argv[at:]):
        _of_tmux(command, found)


def _commands(argv: Values) -> Iterator[list[Value]]:
    """Split at ``;``, which may be a word of its own or the end of a word."""
    command: list[Value] = []
    for value in argv:
        if value.text.endswith(";") and not value.text.endswith("\\;"):
            if value.text != ";":
                command.append(value._replace(text=value.text[:-1], shown=""))
            yield command
            command = []
        else:
            command.append(value)
    yield command


def _of_tmux(command: list[Value], found: Driven) -> None:
    if not command:
        return
    verb, rest = command[0].text, command[1:]
    options = [value.text for value in rest if value.text[:1] == "-" and len(value.text) > 1]
    for value in rest:
        if "#(" in value.text:  # a command that tmux runs when it prints the text
            found.asks = True
            found.lines += [Inner(text=Value(one, value.taint), own=True) for one in re.findall(r"#\(([^)]*)", value.text)]
    if verb in _SHOWS or (verb in _SHOWS_WITH_P and any("p" in option.partition("=")[0] for option in options)):
        return
    if verb in _SENDS or (len(verb) > 4 and "send-keys".startswith(verb)):
        _send_keys(rest, found)
    elif verb in _NEW or verb in _RUNS or any(len(verb) > 3 and one.startswith(verb) for one in _RUNS):
        found.asks = found.asks or verb not in _NEW
        _runs(rest, found, is_new=verb in _NEW)
    elif verb in ("if", "if-shell"):
        found.asks = True
        asked, *then = _operands(rest) or [Value("")]
        found.lines.append(Inner(text=asked, own=True))
        found.lines += [Inner(text=joined([Value("tmux"), one], " "), own=True) for one in then]
    else:
        found.asks = True


def _runs(rest: list[Value], found: Driven, *, is_new: bool) -> None:
    """Read ``new-session -d -s dev 'npm run dev'``: one word is code for a shell, several words are a command."""
    at = 0
    environment: dict[str, Value] = {}
    cwd: Value | None = None
    name = ""
    while at < len(rest) and rest[at].text[:1] == "-":
        text, following = rest[at].text, rest[at + 1] if at + 1 < len(rest) else None
        if text == "--":
            at += 1
            break
        if following is not None and text == "-c":
            cwd = following
        elif following is not None and text == "-e":
            name, _, given = following.text.partition("=")
            environment[name] = following._replace(text=given, shown="")
        elif following is not None and text == "-s":
            name = following.text
        elif is_new and text.startswith("-t"):
            found.asks = True  # the new session shows the windows of an existing one
        at += (
            2 if takes_next(text, _VALUED - ({"-d", "-b", "-E", "-h", "-l", "-S", "-T", "-w"} if is_new else frozenset())) else 1
        )
    if rest[at:]:
        line = joined(rest[at:], " ")
        found.lines.append(Inner(text=line, own=True, environment=environment, cwd=cwd))
        if is_new:
            found.typed.append((name, line.text))


def _send_keys(rest: list[Value], found: Driven) -> None:
    at, target, literal = 0, "", False
    while at < len(rest) and rest[at].text[:1] == "-" and len(rest[at].text) > 1:
        text = rest[at].text
        if text == "--":
            at += 1
            break
        if text.startswith("-t"):
            target = text[2:] or (rest[at + 1].text if at + 1 < len(rest) else "")
        elif text == "-l":
            literal = True
        else:
            found.asks = True
        at += 2 if takes_next(text, names("-t -N -c")) else 1
    typed: list[Value] = []
    for value in rest[at:]:
        if not literal and value.text.lower() in _ENTER:
            _line(found, target, joined(typed, ""))
            typed = []
        elif not literal and value.text.lower() == "space":
            typed.append(Value(" "))
        else:
            found.asks = found.asks or (not literal and _KEY.fullmatch(value.text) is not None)
            typed.append(value)
    if typed:
        _typed(found, target, joined(typed, ""))


def _typed(found: Driven, target: str, text: Value) -> None:
    """Add typed text. If it does not end with a line end, the user is asked: a person may have begun the line, or finish it."""
    _line(found, target, text)
    if text.text[-1:] not in ("\n", "\r"):
        found.asks = True


def _operands(argv: Values) -> list[Value]:
    return [value for at, value in enumerate(argv) if value.text[:1] != "-" and (not at or argv[at - 1].text != "-t")]


# -- screen ------------------------------------------------------------------------------------------------------------

_SCREEN_SHOWS = frozenset({"windows", "number", "info", "title", "version", "time", "lastmsg"})
_RETURN = Regex(r"\\n|\\r|\\01[25]|\^M|\^J")


def _screen(argv: Values, found: Driven) -> None:
    words = [value.text for value in argv]
    target = next((words[at + 1] for at, word in enumerate(words[:-1]) if word == "-S"), "")
    if "-X" in words:
        _of_screen(list(argv[words.index("-X") + 1 :]), target, found)
        return
    if "-Q" in words:
        found.asks = words[words.index("-Q") + 1 :][:1] not in ([one] for one in _SCREEN_SHOWS)
        return
    at = 1
    while at < len(argv) and words[at][:1] == "-":
        found.asks = found.asks or words[at][:2] == "-c"
        at += 2 if takes_next(words[at], names("-S -t -c -s -T -e -p -h")) else 1
    if at < len(argv):
        found.lines.append(Inner(argv=list(argv[at:]), own=True))
        found.typed.append((target, joined(argv[at:], " ").text))


def _of_screen(rest: list[Value], target: str, found: Driven) -> None:
    if rest and rest[0].text == "eval":
        found.asks = True
        found.lines += [Inner(text=joined([Value("screen -X"), value], " "), own=True) for value in rest[1:]]
    elif rest and rest[0].text == "stuff":
        for value in rest[1:]:
            _typed(found, target, value._replace(text=_RETURN.sub("\n", value.text), shown=""))
    else:
        found.asks = True
        if rest and rest[0].text in ("exec", "screen"):
            found.lines += [Inner(text=value, own=True) for value in rest[1:]]


# -- zellij, dtach, abduco ---------------------------------------------------------------------------------------------


def _zellij(argv: Values, found: Driven) -> None:
    words = [value.text for value in argv]
    target = next((words[at + 1] for at, word in enumerate(words[:-1]) if word in ("-s", "--session")), "")
    verbs = [word for at, word in enumerate(words[1:], 1) if word[:1] != "-" and words[at - 1] not in ("-s", "--session")]
    if verbs[:2] == ["action", "write-chars"]:
        for value in argv[words.index("write-chars") + 1 :]:
            _typed(found, target, value)
    elif verbs[:1] not in (["ls"], ["list-sessions"], ["list-aliases"], ["setup"], ["help"]):
        found.asks = bool(verbs)
        if "--" in words and "run" in words:
            found.lines.append(Inner(argv=list(argv[words.index("--") + 1 :]), own=True))


def _attached(argv: Values, found: Driven) -> None:
    """Read ``dtach -n SOCKET COMMAND`` and ``abduco -n NAME COMMAND``."""
    words = [value.text for value in argv]
    found.asks = "-p" in words or any(HOLE in word for word in words[1:2])
    mode = next((at for at, word in enumerate(words) if word in ("-c", "-n", "-A", "-N")), len(words))
    at = mode + 2
    while at < len(argv) and words[at][:1] == "-":
        at += 2 if words[at] in ("-r", "-e") else 1
    if argv[at:]:
        found.lines.append(Inner(argv=list(argv[at:]), own=True))


READERS = {
    "tmux": _tmux,
    "byobu": _tmux,
    "screen": _screen,
    "zellij": _zellij,
    "dtach": _attached,
    "abduco": _attached,
}
"""Readers of the multiplexers' arguments, by program."""

SERVERS = frozenset({"TMUX", "TMUX_TMPDIR", "SCREENDIR", "ZELLIJ_SESSION_NAME", "ZELLIJ_SOCKET_DIR", "BYOBU_BACKEND"})
"""Variables that make a multiplexer use another server or session."""


def lines(argv: Values, stdin: Value | None) -> list[Inner]:
    """Return the lines that a multiplexer runs or types, for the table of special programs."""
    return driven(argv[0].text.rpartition("/")[2], argv).lines


SPECIALS = dict.fromkeys(READERS, lines)
