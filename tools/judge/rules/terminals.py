"""Rules: terminal devices (their user may be at a prompt), requests that type into them, and terminal multiplexers."""

from __future__ import annotations

from toolcrib.contract.regex import Regex
from tools.judge.file_view import Looks
from tools.judge.globs import dangerous
from tools.judge.meaning import tables
from tools.judge.meaning.interpreters import SHELLS
from tools.judge.meaning.multiplexers import READERS, SERVERS, driven
from tools.judge.meaning.panes import is_unsure, leaves_unsure, session_of
from tools.judge.meaning.tails import TALKS
from tools.judge.meaning.unknown_programs import SPARE
from tools.judge.meaning.value import HOLE, names
from tools.judge.meaning.wrappers import ASSIGNMENT
from tools.judge.options import path_of
from tools.judge.paths import TERMINAL_WHY
from tools.judge.readers import is_plain
from tools.judge.table import ANY, ActView, Test, count, opt, rule, sub, text

_TERMINAL = Regex(r"(?:[^/]*[=:,]|-[a-zA-Z])?(?:file:)?/dev/(?:pts/.+|tty\d*|console|vcsa?\d*)")
_NAMES = frozenset(
    {"ls", "stat", "test", "[", "[[", "echo", "printf", "file", "realpath", "readlink", "dirname", "basename", "ps"}
)
"""Programs that show no more of a device than its name or state."""


def _named(view: ActView) -> bool:
    for word in view.words:
        if "/dev/" in word and _TERMINAL.fullmatch(word):
            return view.name not in _NAMES
    for one in view.act.argv[1:]:
        if one.pattern and any(map(_TERMINAL.fullmatch, dangerous(one.text))):
            return view.name not in _NAMES
    for target in view.act.redirects:
        path = target.path.text
        if target.path.pattern and "<" in target.op and any(map(_TERMINAL.fullmatch, dangerous(path))):
            return True
        if path[:5] == "/dev/" and "<" in target.op and path != "/dev/tty" and _TERMINAL.fullmatch(path):
            return True
    return False


def _drives(view: ActView) -> bool:
    return not SERVERS.isdisjoint(view.act.environment) or driven(view.name, view.act.argv).asks


_OTHERS = names(
    "if for while until case select time function { [[ ! uvicorn gunicorn hypercorn daphne vite next nuxt ng astro hugo jekyll"
    " mkdocs"
    " celery streamlit gradio webpack parcel nodemon ts-node tsx air foreman honcho overmind tilt skaffold caddy nginx httpd"
    " redis-server postgres mongod mysqld ollama jupyter tensorboard mlflow dagster airflow prefect http-server serve"
    " live-server esbuild turbo nx lerna"
)
"""Words that begin a shell's line, and servers that developers start there."""


def _is_message(line: str) -> bool:
    """Return whether a line does not begin with a known program: a chat program in the terminal would send it as a message."""
    from tools.judge.rules import filed

    words = [word for word in line.split() if ASSIGNMENT.match(word) is None]
    name = words[0].lstrip("\\({") if words else ""
    if not name or "/" in name or HOLE in name or name in filed() or is_plain(name):
        return False
    rows = (tables.BUILTINS, tables.WRAPPERS, tables.SPECIALS, tables.RECIPES, tables.CHANGES, tables.EFFECTS, tables.OUTPUTS)
    known = any(name in table.rows for table in rows) or name in SPARE or name in TALKS or name in SHELLS or name in _OTHERS
    return not known and tables.interpreter(name) is None and not path_of(name)


def _types_unsure(view: ActView, looks: Looks) -> bool:
    """Return whether the command types into a session where the meaning of a line is unknown, for ``seen=``.

    Also record in ``looks`` the sessions that its lines leave in an unknown state.
    """
    found, drives = False, driven(view.name, view.act.argv)
    for target, line in drives.typed:
        if target in drives.targets:
            found = found or is_unsure(target, looks.unsure_panes()) or _is_message(line)
        if leaves_unsure(line):
            looks.panes.append(session_of(target))
    return found


RULES = (
    rule(
        "terminal.device",
        "ask-once",
        "*",
        Test(_named),
        TERMINAL_WHY,
        yes=(
            "cat /dev/pts/3",
            "cat < /dev/pts/3",
            "stty -F /dev/pts/1 raw",
            "stty --file=/dev/tty1 -echo",
            "socat - file:/dev/pts/3,raw",
            "dd if=/dev/tty2 of=x",
            "script -a /dev/pts/2",
        ),
        no=("ls -l /dev/pts/3", "test -e /dev/tty", "read -r x < /dev/tty", "ps -t pts/3", "echo /dev/pts/1", "cat /dev/null"),
        dry=False,
    ),
    rule(
        "terminal.device",
        "ask-once",
        "wall write conspy ttyecho openvt chvt deallocvt setterm",
        (Test(lambda view: view.name not in ("wall", "write", "setterm")) & ANY)
        | (Test(lambda view: view.name in ("wall", "write")) & count(1))
        | (Test(lambda view: view.name == "setterm") & opt("--dump --file --append")),
        TERMINAL_WHY,
        yes=("wall hello", "write bob pts/3", "conspy 1", "chvt 2"),
        no=("setterm --cursor on", "wall"),
    ),
    rule(
        "terminal.type",
        "ask-once",
        "@terminal",
        ANY,
        "sends a request to a device that may be a terminal: it could type the answer to a prompt",
        yes=(
            "@terminal",
            "python3 -c 'import fcntl, termios; fcntl.ioctl(0, termios.TIOCSTI, b\"y\")'",
            "python3 - <<< 'import fcntl; fcntl.ioctl(0, 0x5412, \"y\")'",
            'python3 -c \'import fcntl, termios; fcntl.ioctl(0, getattr(termios, "TIOC" + "STI"), b"y")\'',
            "perl -e 'ioctl(STDIN, 0x5412, $_) for split //, \"y\\n\"'",
            "ruby -e '$stdin.ioctl(0x5412, \"y\")'",
        ),
        no=(
            "python3 -c 'import fcntl, termios; fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8))'",
            "python3 -c 'import fcntl, termios; fcntl.ioctl(1, termios.FIONREAD, b\"\")'",
            "python3 -c 'print(\"no ioctl here\")'",
        ),
        dry=False,
    ),
    rule(
        "shell.attach",
        "ask-once",
        "kitty wezterm xdotool ydotool wtype",
        sub("@|send-text|type|key") | text(r"cli send-text"),
        "types into a terminal that a user may use",
        yes="xdotool type x",
        no="xdotool getactivewindow",
    ),
    rule(
        "shell.attach",
        "ask-once",
        " ".join(READERS),
        ANY,
        "types into a terminal with an unknown program or aliases: the line may mean something else there",
        yes="tmux send-keys -t dev vim Enter ';' send-keys -t dev ':q!' Enter",
        no=("tmux send-keys -t dev vim Enter", "tmux send-keys -t dev 'make x' Enter ';' send-keys -t dev 'make y' Enter"),
        seen=_types_unsure,
        dry=False,
    ),
    rule(
        "shell.attach",
        "ask-once",
        " ".join(READERS),
        Test(_drives),
        "does more in a terminal multiplexer than run or type a whole line: it may reach a terminal that a user uses",
        yes=(
            "tmux send-keys -t 0 'make test' Enter",
            "tmux send-keys -t %3 'make test' Enter",
            "tmux send-keys 'make test' Enter",
            "tmux send-keys -t dev 'make test'",
            "tmux send-keys -t dev C-c",
            "tmux send-keys -t dev a Enter",
            "tmux send-keys -t dev 'once' C-m",
            "tmux send-keys -t dev Enter",
            "tmux -L other send-keys -t dev ls Enter",
            "tmux -S /tmp/s ls",
            "TMUX_TMPDIR=/tmp/x tmux ls",
            "tmux new -d -s x -t main",
            "tmux new -d -s x ';' kill-window -t main",
            "tmux attach -t dev",
            "tmux new-window -t dev ls",
            "tmux paste-buffer -t dev",
            "tmux display-message -p '#(ls)'",
            "tmux capture-pane -t dev",
            "screen -S a -X stuff x",
            "screen -X stuff 'ls\\n'",
            "screen -S a -X quit",
            "zellij action write-chars ls",
            "zellij run -- ls",
            "dtach -p /tmp/s",
        ),
        no=(
            "tmux ls",
            "tmux new -d",
            "tmux new-session -d -s dev 'npm run dev'",
            "tmux new -d -s dev -c app -e PORT=1 npm run dev",
            "tmux send-keys -t dev 'make test' Enter",
            "tmux send-keys -t dev:1.0 'make test' C-m",
            "tmux send-keys -t dev make Space test Enter",
            "tmux send-keys -t dev -l $'make test\\n'",
            "tmux send-keys -t dev 'cd app' Enter 'npm start' Enter",
            "tmux has-session -t dev",
            "tmux capture-pane -p -t dev",
            "tmux capture-pane -pt dev",
            "tmux display-message -p '#S'",
            "screen -ls",
            "screen -dmS dev npm start",
            "screen -S dev -X stuff 'make test\\n'",
            "screen -S dev -Q windows",
            "zellij ls",
            "zellij -s dev action write-chars $'make test\\n'",
            "dtach -n /tmp/s npm start",
        ),
        dry=False,
    ),
)
