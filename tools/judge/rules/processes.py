"""Rules: killing processes, reading or taking them over, and starting too many."""

from __future__ import annotations

import fnmatch
import itertools
import os
import re
from collections.abc import Sequence

from toolcrib.contract.regex import Regex
from tools.judge.meaning.value import HOLE, Taint
from tools.judge.meaning.wrappers import WRAPPERS, takes_next
from tools.judge.paths import spelled
from tools.judge.procfs import KEPT, is_folder
from tools.judge.table import ANY, ActView, Test, count, first_operand, operand, opt, rule, sub, text, value, word

_ONE_PID = Regex(r"\$\(\s*(?:cat|<|head -n? ?1|sed -n 1p)\s*[^|;&$()`]*\)|`cat [^|;&`]*`|\$\(jobs -p[^|;&()]*\)|`jobs -p`")
_SIGNAL = Regex(r"-(?:\d+|[A-Z][A-Z0-9+]*|SIG\w+)$", re.IGNORECASE)


def _pids(view: ActView) -> list[str]:
    """Return the processes to kill: the operands without the signal."""
    words = list(view.words)
    found: list[str] = []
    signalled = False
    while words:
        text = words.pop(0)
        if text in ("-s", "-n", "--signal", "-q", "--queue", "--timeout"):
            words[:1] = []
            signalled = True
        elif text == "--":
            return found + words
        elif text.startswith("--") or text in ("-l", "-L", "-v"):
            signalled = signalled or text.startswith("--signal=")
        elif not found and not signalled and _SIGNAL.match(text):
            signalled = True
        else:
            found.append(text)
    return found


_EXPLICIT = Regex(r"[2-9]|\d{2,}|-f|--force|-v|--verbose")
"""Words of an ``fkill`` command that kills processes by their ids."""
_LISTS = opt("-l -L --list --table") | word("-0|-s0|-SIGNULL")


def _everything(view: ActView) -> bool:
    pids = _pids(view)
    return any(pid in ("-1", "1", "01", "+1", "-0x1") for pid in pids) and not any(
        word in ("-0", "-l", "-L") for word in view.words[:1]
    )


def _computed(view: ActView) -> bool:
    """Return whether another command computes the list of processes. One unknown variable counts as one process."""
    if view.act.fed:
        return True
    given = [value for value in view.operands(frozenset({"-s", "-n", "--signal"})) if HOLE in value.text]
    return any(
        (
            value.taint & Taint.MANY
            or "(" in value.shown
            or "`" in value.shown
            or "PPID" in value.shown
            or "[@]" in value.shown
            or not value.shown.replace(HOLE, "")
        )
        and not _ONE_PID.fullmatch(value.shown.strip('"'))
        for value in given
    )


def _ours(view: ActView) -> bool:
    if any(value.taint & Taint.OURS or "PPID" in value.shown for value in view.act.argv[1:]):
        return True
    return view.name == "kill" and any(pid.lstrip("-+0") == str(os.getpid()) for pid in _pids(view))


def _with_variables(view: ActView) -> bool:
    """Return whether ``e``, which makes ps show variables, is among its options without a dash (``ps auxe``)."""
    words = view.words
    return any(
        re.fullmatch(r"[aAcfghjlmnNrsSTuvwxXZ]*e[aAcefghjlmnNorsSTuvwxXZ]*", word) is not None
        and (at == 0 or re.fullmatch(r"-\w*[CGgOoptUuqs]|--\w+", words[at - 1]) is None)
        and (at == 0 or words[0][:1] == "-" or not words[0].endswith(("o", "O", "U", "p", "t", "k", "q")))
        for at, word in enumerate(words)
    )


_NAMED = frozenset({"-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename", "-regex", "-iregex", "-g", "--glob"})


def _finds_kept(view: ActView) -> bool:
    """Return whether find or fd may read a process's data below /proc: its pattern names such a file, or it finds every file."""
    given = [path for value in view.operands() for path in spelled(value, view.act.cwds) if path.startswith("/proc")]
    if not any(is_folder(path) for path in given or view.act.cwds if path.startswith("/proc")):
        return False
    names = [after for before, after in itertools.pairwise(view.words) if before in _NAMED]
    if view.name.startswith("fd"):
        names += [value.text for value in view.operands()[:1]]
    if names:
        return any(fnmatch.fnmatchcase(kept, name.rpartition("/")[2].removeprefix(".*")) for name in names for kept in KEPT)
    runs = not {"-exec", "-execdir", "-ok", "-x", "-X", "--exec", "--exec-batch"}.isdisjoint(view.words)
    return runs or ("-type", "f") in itertools.pairwise(view.words)


_BEGUN_HERE = Regex(r'"?\$\{?!\}?"?')
_ATTACHED = frozenset({"gcore", "reptyr", "procdump", "pyrasite", "memdump", "scanmem"})
_TRACED = {name: WRAPPERS[name][0].valued for name in ("strace", "ltrace", "perf")}


def _attaches(view: ActView) -> bool:
    """Return whether the command debugs, traces or dumps a running process that the same line did not start."""
    given = list(view.act.argv[1:])
    words = view.words
    if any(_BEGUN_HERE.fullmatch(value.shown) for value in given):
        return False
    if view.name in _ATTACHED:
        return bool(view.operands())
    if view.name == "dlv":
        return words[:1] == ["attach"]
    if view.name in _TRACED:
        return _traces(words if view.name != "perf" else words[1:] if words[:1] == ["trace"] else [], _TRACED[view.name])
    words = words[: words.index("--args")] if "--args" in words else words
    named = [word for word in view.operands(_GDB_VALUED) if word.text in words]
    return (
        any(re.fullmatch(r"-p\d*|--?pid(=.*)?|--attach-(?:pid|name)(?:=.*)?|-ex=attach .*", word) for word in words)
        or any(re.match(r"(?:attach|process attach)\b", word) for word in words)
        or (view.name != "lldb" and len(named) > 1 and re.fullmatch(rf"\d+|{HOLE}", named[1].text) is not None)
        or (view.name == "lldb" and any(word in ("-n", "-w") for word in words))
    )


_GDB_VALUED = frozenset({"-ex", "-x", "-c", "-iex", "-d", "-s", "-e", "-cd", "-tty", "--command", "--eval-command"})


def _traces(words: Sequence[str], valued: frozenset[str]) -> bool:
    """Return whether ``-p`` is among the tracer's own options, before the command that it starts."""
    at = 0
    while at < len(words) and words[at][:1] == "-" and words[at] != "--":
        if re.fullmatch(r"-[a-zA-Z]*p\d*|--attach(=.*)?|--pid(=.*)?|--tid(=.*)?", words[at]):
            return True
        at += 2 if takes_next(words[at], valued) else 1
    return False


_AGENT = r"(?:.*[/ ])?toolcrib(?:[ .-].*)?"

RULES = (
    rule(
        "process.kill-all",
        "block",
        "kill",
        Test(_everything),
        "kills every process, or process 1",
        yes=("kill -9 -1", "kill -s KILL -1", "kill -9 1", "kill 1", "kill -TERM -- -1", "kill -KILL 4242 1"),
        no=("kill -1 4242", "kill -l 9", "kill -0 1", "kill 11", "kill %1", "kill -HUP 4242", "kill -l 1"),
        dry=False,
    ),
    rule(
        "process.kill-list",
        "ask",
        "kill gkill",
        Test(_computed) & ~_LISTS,
        "kills a list of processes that is only known when it runs",
        yes=(
            "kill -9 $(pidof sshd)",
            "pgrep node | xargs kill",
            "kill `pgrep -f x`",
            "top -b -n1 | awk '/node/{system(\"kill -9 \" $1)}'",
            "p=$(ps -eo pid,comm | awk '/java/{print $1}'); for i in $p; do kill \"$i\"; done",
        ),
        no=("kill 31337", "kill -0 999", "kill -9 12345"),
        dry=False,
    ),
    rule(
        "process.kill-group",
        "ask",
        "kill",
        operand(r"0", -1) & ~_LISTS & ~value("-s -n --signal", "0"),
        "kills its whole process group",
        yes="kill -9 0",
        no="kill -0 999",
        dry=False,
    ),
    rule(
        "process.kill-group",
        "ask",
        "kill",
        word(r"-\ufffc") | word(r"-[2-9]\d{2,}|-1\d{2,}") & (opt("-s --signal") | word("--") | word("-9|-KILL|-TERM|-15")),
        "kills a whole process group",
        yes="kill -9 -- -4242",
        no="kill -9 4242",
        dry=False,
    ),
    rule(
        "secret.process",
        "ask-once",
        "ps",
        Test(_with_variables)
        | word(r"(?:-?[a-zA-Z]*[oO]|--format=)?(?:[\w:%]+(?:=\w*)?,)*environ(?:[,:=].*)?|-[a-zA-Z]*E[a-zA-Z]*"),
        "shows the variables of processes, which may hold keys",
        yes=(
            "ps eww",
            "ps auxe",
            "ps -p 12 e",
            "ps -ef e",
            "ps -eo pid,environ",
            "ps --format environ",
            "ps -AE",
            "ps -Oenviron:200",
        ),
        no=("ps aux", "ps -ef", "ps axo pid,etime", "ps -C node", "ps -eo pid,etime,cmd", "ps -u eve", "ps -p 12 -o etime"),
    ),
    rule(
        "self.kill",
        "ask-once",
        "pkill killall kill",
        word(_AGENT) | Test(_ours),
        "ends toolcrib itself",
        yes=("pkill toolcrib", "killall toolcrib"),
        no="pgrep toolcrib",
    ),
    rule(
        "process.kill-by-name",
        "ask",
        "pkill killall killall5 skill slay taskkill xkill pkill-all tskill fkill gkill zap snice killp fkill-cli killport"
        " kill-port xprop-kill",
        ~(word("-(?:SIG)?(?:0|CONT|WINCH)|-l|--list|-V|-L") | value("-s --signal", "(?:SIG)?(?:0|CONT|WINCH)"))
        & ~Test(lambda view: view.name == "fkill" and bool(view.words) and all(map(_EXPLICIT.fullmatch, view.words)))
        & (count(1) | opt("-u -U -t -g -f -G -P -s") | Test(lambda view: view.name in ("killall5", "xkill", "fkill"))),
        "kills processes by name, by pattern or by user",
        yes=("pkill -9 python", "killall firefox", "pkill -u bob", "killall5 -9", "taskkill /F /IM a.exe"),
        no=("pgrep python", "pkill -0 nginx", "pkill -CONT bash", "fkill 4242", "killall -l", "pkill --help"),
        at=first_operand,
    ),
    rule(
        "process.kill-by-name",
        "ask",
        "pgrep",
        word("--signal|-kill"),
        "kills processes by name",
        yes="pgrep --signal KILL x",
        no="pgrep -f x",
    ),
    rule(
        "process.kill-by-name",
        "ask",
        "fuser",
        opt("-k --kill"),
        "kills processes that use a file or a port",
        yes=("fuser -k 80/tcp", "fuser -vk /mnt"),
        no="fuser 80/tcp",
    ),
    rule(
        "process.kill-by-name",
        "ask",
        "npx bunx pnpx",
        sub("kill-port|fkill|fkill-cli|kill-port-process"),
        "kills processes that use a port",
        yes="npx kill-port 3000",
        no="npx jest",
    ),
    rule(
        "process.kill-by-name",
        "ask",
        "loginctl",
        sub("kill-session|kill-user|terminate-session|terminate-user|terminate-seat"),
        "ends a user's login session",
        yes="loginctl terminate-user bob",
        no="loginctl list-sessions",
    ),
    rule(
        "process.kill-by-name",
        "ask",
        "tmux screen byobu zellij",
        sub("kill-server|kill-all-sessions|delete-all-sessions") | (sub("kill-session") & opt("-a")) | text(r"-X quit"),
        "ends all sessions of a terminal multiplexer",
        yes=("tmux kill-server", "screen -S a -X quit"),
        no=("tmux ls", "tmux new -d"),
    ),
    rule(
        "process.kill-by-name",
        "ask",
        "wineserver gdb lldb",
        (Test(lambda view: view.name == "wineserver") & opt("-k")) | text(r"call\s*\(?.*\)?\s*(?:exit|kill|abort|_exit)\("),
        "kills processes",
        yes="wineserver -k",
        no="gdb ./a.out core",
    ),
    rule(
        "process.fork-bomb",
        "block",
        "@forkbomb",
        ANY,
        "a fork bomb: starts processes until the machine freezes",
        yes="@forkbomb",
        no="ls",
        dry=False,
    ),
    rule(
        "process.limits",
        "ask",
        "prlimit ulimit",
        text(r"(?:--\w+=|-\w )\s*(?:unlimited|-1)") & opt("-p --pid -u"),
        "removes a process's limits",
        yes="prlimit --pid 1 --nofile=unlimited",
        no="ulimit -n 4096",
    ),
    rule(
        "process.inject",
        "ask",
        "gdb cgdb strace ltrace perf reptyr gcore procdump pyrasite memdump scanmem lldb dlv",
        Test(_attaches),
        "takes over a running process, or reads its memory, which may hold keys",
        yes=(
            "gcore 4242",
            "reptyr 4242",
            "strace -fp 4242",
            "strace -p 4242 true",
            "sudo strace --attach=4242 -e read",
            "ltrace -p 4242",
            "perf trace -p 4242 sleep 5",
            "gdb -p 4242",
            "gdb -batch -ex bt -p4242",
            "gdb ./server 4242",
            "gdb -ex 'attach 4242' -ex bt",
            "lldb --attach-pid 4242",
            "dlv attach 4242",
            'strace -p "$(pgrep -n ssh-agent)"',
        ),
        no=(
            "gdb ./a.out",
            "gdb ./a.out core.4242",
            "gdb --args ./server -p 8080",
            "strace ls",
            "strace -f -e trace=file python -p 3",
            "strace mkdir -p a/b",
            "ltrace ./a.out -p",
            "perf record -p 4242",
            "perf stat make",
            "perf trace ls",
            "lldb ./a.out",
            "dlv test",
            "./server & strace -p $!",
        ),
    ),
    rule(
        "secret.process",
        "ask-once",
        "find gfind fd fdfind bfs",
        Test(_finds_kept),
        "reads processes' variables or memory, which may hold keys",
        yes=(
            "find /proc -maxdepth 2 -name environ -exec cat {} +",
            "find /proc -path '*/environ' | xargs strings",
            "find /proc -name 'envi*' -print0 | xargs -0 cat",
            "find /proc/4711/ -iregex '.*/environ'",
            "cd /proc; find . -name environ",
            "find /proc/4711 -type f -exec cat {} +",
        ),
        no=(
            "find /proc -maxdepth 1 -name '[0-9]*'",
            "find . -name environ",
            "find /proc -maxdepth 2 -name status -exec cat {} +",
            "find /proc/4711/fd -type l",
            "find /proc/sys/net -type f -exec cat {} +",
        ),
    ),
)
