"""Programs that run commands from places of their own: find, xargs, ssh, env, git, tar and their like."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from toolcrib._regex import Regex
from tools.approval.meaning import containers, feeding
from tools.approval.meaning.value import EMPTY, Taint, Value, joined, names, unknown
from tools.approval.meaning.wrappers import Inner, takes_next, words_of

Values = Sequence[Value]

_SSH_RUNS = Regex(r"\s*(?:Proxy|Local|KnownHosts)Command\s*[ =]\s*(.+)", re.IGNORECASE | re.DOTALL)
_SSH = names("-i -p -l -o -F -J -L -R -D -W -b -c -E -e -I -m -O -Q -S -w -B")
_GIT = names("-C -c --git-dir --work-tree --namespace --exec-path --config-env")
_GIT_RUNS = Regex(
    r"(?:core\.(?:sshcommand|pager|editor|fsmonitor|askpass|gitproxy)|diff\.external|diff\.[^=]*\.(?:command|textconv)|sequence\.editor|"
    r"pager\.\w+|credential(?:\.[^=]*)?\.helper|alias\.[\w-]+|filter\.[^=]*\.(?:clean|smudge|process)|(?:merge|difftool|mergetool)"
    r"\.[^=]*\.(?:driver|cmd)|gpg(?:\.\w+)?\.program|uploadpack\.packobjectshook)$",
    re.IGNORECASE,
)
_GIT_HARMLESS = Regex(r"(?:cat|less|more|true|false|vi|vim|nano|code|store|cache|manager|osxkeychain|delta|ssh|)$")


def _ssh(argv: Values, stdin: Value | None) -> list[Inner]:
    found: list[Inner] = []
    at = 1
    host: Value | None = None
    while at < len(argv):
        text = argv[at].text
        if text == "--" and host is None:
            at += 1
        elif text[:1] == "-" and len(text) > 1 and host is None:
            option = argv[at + 1] if text == "-o" and at + 1 < len(argv) else argv[at]._replace(text=text[2:])
            match = _SSH_RUNS.match(option.text)
            if match is not None and text.startswith("-o"):
                found.append(Inner(text=Value(match[1], option.taint)))
            at += 2 if takes_next(text, _SSH) else 1
        elif host is None:
            host = argv[at]
            at += 1
        else:
            break
    if host is None:
        return found
    place = f"ssh:{host.text}"
    if at < len(argv):
        found.append(Inner(text=joined(argv[at:], " "), place=place, own=True))
    elif stdin is not None:
        found.append(Inner(text=stdin, place=place, own=True))
    return found


def _copying(argv: Values, stdin: Value | None) -> list[Inner]:
    """scp and sftp: the programs that they start ssh with."""
    found: list[Inner] = []
    for at, value in enumerate(argv[:-1], start=1):
        option = (
            argv[at]._replace(text=argv[at].text[2:]) if argv[at].text.startswith("-o") and argv[at].text != "-o" else argv[at]
        )
        if value.text in ("-S", "-D") and (value.text == "-S" or argv[0].text.endswith("sftp")):
            found.append(Inner(text=argv[at], own=True))
        elif (value.text == "-o" or option is not argv[at]) and (match := _SSH_RUNS.match(option.text)):
            found.append(Inner(text=Value(match[1], option.taint), own=True))
    return found


_ANY_NAME = Regex(r"([^-=][^=]*)=", re.DOTALL)
"""``env`` takes what no shell would: ``BASH_FUNC_ls%%=() { ...; }`` is a function of a bash that it starts."""


def _env(argv: Values, stdin: Value | None) -> list[Inner]:
    environment: dict[str, Value] = {}
    cwd: Value | None = None
    bare = False
    at = 1
    while at < len(argv):
        value = argv[at]
        text = value.text
        following = argv[at + 1] if at + 1 < len(argv) else None
        if text == "--":
            at += 1
        elif text.startswith(("-S", "--split-string")) or re.fullmatch(r"-[iv0]*vS|-[iv0]*S", text):
            given = text.partition("=")[2] if text.startswith("--") else text.partition("S")[2]
            head = value._replace(text=given) if given.strip() else (following if following is not None else Value(""))
            rest = argv[at + 1 + (not given.strip()) :]
            words = [Value(word, head.taint) for word in words_of(head.text)]
            return _env([argv[0], *words, *rest], stdin)
        elif text in ("-C", "--chdir"):
            cwd = following
            at += 2
        elif text in ("-u", "--unset", "-a", "--argv0"):
            if following is not None and text in ("-u", "--unset"):
                environment[following.text] = EMPTY
            at += 2
        elif text[:1] == "-":
            bare = bare or text == "-" or re.match(r"-[v0]*i|--i", text) is not None
            if unset := re.match(r"-[v0i]*u(.+)|--unset=(.+)", text):
                environment[unset[1] or unset[2]] = EMPTY
            cwd = value._replace(text=text[8:]) if text.startswith("--chdir=") else cwd
            at += 1
        elif (match := _ANY_NAME.match(text)) is not None:
            environment[match[1]] = value._replace(text=text[match.end() :])
            at += 1
        else:
            return [Inner(argv=list(argv[at:]), environment=environment, bare=bare, cwd=cwd)]
    return []


def _git(argv: Values, stdin: Value | None) -> list[Inner]:
    found: list[Inner] = []
    at = 1
    while at < len(argv) and argv[at].text[:1] == "-":
        text = argv[at].text
        if text == "-c" and at + 1 < len(argv):
            found += _git_setting(argv[at + 1])
        at += 2 if takes_next(text, _GIT) else 1
    words = [value.text for value in argv[at:]]
    rest = argv[at:]
    if words[:1] == ["submodule"] and "foreach" in words:
        start = words.index("foreach") + 1
        while start < len(words) and words[start].startswith("-"):
            start += 1
        found.append(Inner(text=joined(rest[start:], " "), own=True))
    elif words[:2] == ["bisect", "run"] and len(words) > 2:
        found.append(Inner(argv=list(rest[2:]), own=True))
    elif words[:1] in (["rebase"], ["filter-branch"], ["difftool"], ["mergetool"]):
        found += _git_options(rest)
    elif words[:1] == ["config"]:
        given = [value for value in rest[1:] if not value.text.startswith("-")]
        given = given[1:] if given and given[0].text in ("set", "--add") else given
        if len(given) > 1:
            found += _git_setting(Value(f"{given[0].text}={given[1].text}", given[1].taint))
    elif words[:1] == ["grep"]:
        found += _PAGERS(rest, stdin)
    for one in found:
        one.own = True
    return found


def _git_setting(value: Value) -> list[Inner]:
    name, _, text = value.text.partition("=")
    if not _GIT_RUNS.match(name) or _GIT_HARMLESS.match(text.partition(" ")[0]):
        return []
    if text.startswith("!"):
        return [Inner(text=value._replace(text=text[1:], shown=""))]
    if name.lower().startswith(("alias.", "credential")):
        return []
    return [Inner(text=value._replace(text=text, shown=""))]


def _git_options(rest: Values) -> list[Inner]:
    found: list[Inner] = []
    for at, value in enumerate(rest):
        text = value.text
        following = rest[at + 1] if at + 1 < len(rest) else None
        if (
            re.fullmatch(r"-x|--exec|--(?:tree|index|msg|parent|commit|env|tag-name)-filter|--extcmd", text)
            and following is not None
        ):
            found.append(Inner(text=following))
        elif match := re.match(r"--(?:exec|extcmd|[\w-]+-filter)=", text):
            found.append(Inner(text=value._replace(text=text[match.end() :], shown="")))
    return found


def _options(pattern: str, *, following: str = "") -> Callable[[Values, Value | None], list[Inner]]:
    """Texts for a shell in options: ``pattern`` is what stands before it in the same word, ``following`` options before it."""
    before = re.compile(pattern, re.IGNORECASE)
    names = frozenset(following.split())

    def look(argv: Values, stdin: Value | None) -> list[Inner]:
        found: list[Inner] = []
        for at, value in enumerate(argv[1:], start=1):
            if (match := before.match(value.text)) is not None:
                found.append(Inner(text=value._replace(text=value.text[match.end() :], shown=""), own=True))
            elif value.text in names and at + 1 < len(argv):
                found.append(Inner(text=argv[at + 1], own=True))
        return found

    return look


_PAGERS = _options(r"-O(?=.)|--open-files-in-pager=")


def _socat(argv: Values, stdin: Value | None) -> list[Inner]:
    found: list[Inner] = []
    for value in argv[1:]:
        match = re.match(r"(?:exec|system):(.*)", value.text, re.IGNORECASE | re.DOTALL)
        if match is not None:
            text = match[1].split(",")[0].strip("'\"")
            found.append(Inner(text=Value(text, value.taint), own=True, stdin=unknown(Taint.REMOTE)))
    return found


def _tmux(argv: Values, stdin: Value | None) -> list[Inner]:
    words = [value.text for value in argv]
    for name in (
        "new",
        "new-session",
        "new-window",
        "neww",
        "split-window",
        "splitw",
        "respawn-pane",
        "run-shell",
        "run",
        "popup",
    ):
        if name in words:
            rest = list(argv[words.index(name) + 1 :])
            valued = names("-s -n -c -t -x -y -F -e -l -w -h")
            at = 0
            while at < len(rest) and rest[at].text[:1] == "-":
                at += 2 if takes_next(rest[at].text, valued) else 1
            return [Inner(text=joined(rest[at:], " "), own=True)] if rest[at:] else []
    for name in ("if-shell", "if"):
        if name in words[:2]:
            asked, *then = _operands_of(argv[words.index(name) + 1 :]) or [Value("")]
            return [Inner(text=asked, own=True), *(Inner(text=joined([Value("tmux"), one], " "), own=True) for one in then)]
    for name in ("send-keys", "send"):
        if name in words:
            rest = list(argv[words.index(name) + 1 :])
            keys = [
                value
                for at, value in enumerate(rest)
                if not value.text.startswith("-") and (at == 0 or rest[at - 1].text != "-t")
            ]
            texts = [value for value in keys if value.text not in ("Enter", "C-m", "KPEnter", "C-j")]
            return [Inner(text=value, own=True) for value in texts]
    return []


def _screen(argv: Values, stdin: Value | None) -> list[Inner]:
    words = [value.text for value in argv]
    if "-X" in words:
        rest = list(argv[words.index("-X") + 1 :])
        if rest and rest[0].text == "eval":
            return [Inner(text=joined([Value("screen -X"), value], " "), own=True) for value in rest[1:]]
        if rest and rest[0].text in ("stuff", "exec", "screen"):
            return [
                Inner(text=value._replace(text=value.text.replace("\\n", "\n").replace("^M", "\n")), own=True)
                for value in rest[1:]
            ]
        return []
    at = 1
    while at < len(argv) and words[at][:1] == "-":
        at += 2 if takes_next(words[at], frozenset({"-S", "-t", "-c", "-s", "-T", "-e", "-p", "-h"})) else 1
    return [Inner(argv=list(argv[at:]), own=True)] if at < len(argv) else []


def _operands_of(argv: Values) -> list[Value]:
    return [value for at, value in enumerate(argv) if value.text[:1] != "-" and (not at or argv[at - 1].text != "-t")]


_TWO_AFTER = names(
    "--bind --bind-try --dev-bind --dev-bind-try --ro-bind --ro-bind-try --symlink --setenv --file --bind-data --ro-bind-data"
    " --chmod --bind-fd --ro-bind-fd --overlay"
)
_ONE_AFTER = names(
    "--args --chdir --unsetenv --lock-file --sync-fd --remount-ro --overlay-src --tmp-overlay --ro-overlay --proc --dev --tmpfs"
    " --mqueue --dir --seccomp --add-seccomp-fd --exec-label --file-label --block-fd --userns-block-fd --info-fd"
    " --json-status-fd --cap-add --cap-drop --uid --gid --hostname --userns --userns2 --pidns --perms --size --argv0"
)


def _bwrap(argv: Values, stdin: Value | None) -> list[Inner]:
    """Find the command that bwrap runs where no ``--`` precedes it, which the table looks for."""
    at = 1
    while at < len(argv) and argv[at].text[:1] == "-":
        if argv[at].text == "--":
            return []
        at += 3 if argv[at].text in _TWO_AFTER else 2 if argv[at].text in _ONE_AFTER else 1
    return [Inner(argv=list(argv[at:]))] if at < len(argv) else []


def _each(argv: Values, stdin: Value | None) -> list[Inner]:
    return [Inner(text=value) for value in argv[1:] if value.text[:1] != "-"]


_FZF_TEXTS = _options(r"--preview=", following="--preview")
_FZF_RUNS = Regex(r"(?:execute(?:-silent)?|become|reload|preview|transform)[(\[{]([^)\]}]*)")


def _fzf(argv: Values, stdin: Value | None) -> list[Inner]:
    bound = [match for value in argv[1:] for match in _FZF_RUNS.finditer(value.text) if not value.text.startswith("--preview=")]
    return [*_FZF_TEXTS(argv, stdin), *(Inner(text=Value(match[1]), own=True) for match in bound)]


def _gcc(argv: Values, stdin: Value | None) -> list[Inner]:
    """``-wrapper rm,-rf,x``: what every part of the compiler is started with."""
    for at, value in enumerate(argv[1:-1], start=1):
        if value.text == "-wrapper":
            return [Inner(argv=[value._replace(text=one, shown="") for one in argv[at + 1].text.split(",")], own=True)]
    return []


def _attached(argv: Values, stdin: Value | None) -> list[Inner]:
    """``dtach -n SOCKET COMMAND``, ``abduco -n NAME COMMAND``, ``zellij run -- COMMAND``"""
    words = [value.text for value in argv]
    if words[0].rpartition("/")[2] == "zellij":
        rest = argv[words.index("--") + 1 :] if "--" in words and "run" in words else ()
    else:
        mode = next((at for at, word in enumerate(words) if word in ("-c", "-n", "-A", "-N")), len(words))
        at = mode + 2
        while at < len(argv) and words[at][:1] == "-":
            at += 2 if words[at] in ("-r", "-e") else 1
        rest = argv[at:]
    return [Inner(argv=list(rest), own=True)] if rest else []


def _at(argv: Values, stdin: Value | None) -> list[Inner]:
    return [Inner(text=stdin, own=True)] if stdin is not None else []


def _xterm(argv: Values, stdin: Value | None) -> list[Inner]:
    for at, value in enumerate(argv):
        if value.text in ("-e", "-x") and argv[at + 1 :]:
            rest = list(argv[at + 1 :])
            return [Inner(text=rest[0])] if len(rest) == 1 else [Inner(argv=rest)]
    return []


def _runuser(argv: Values, stdin: Value | None) -> list[Inner]:
    """``runuser -u USER COMMAND`` runs without a shell; the texts of ``-c`` are found by the table."""
    words = [value.text for value in argv]
    if "-u" not in words and "--user" not in words:
        return []
    at = 1
    while at < len(words) and words[at][:1] == "-" and words[at] != "--":
        at += 2 if takes_next(words[at], frozenset({"-u", "-g", "-G", "--user", "--group"})) else 1
    at += at < len(words) and words[at] == "--"
    return [Inner(argv=list(argv[at:]), own=True)] if at < len(argv) else []


SPECIALS: dict[str, Callable[[Values, Value | None], list[Inner]]] = {
    **dict.fromkeys(("docker", "podman", "nerdctl", "docker-compose", "podman-compose"), containers.run),
    "bwrap": _bwrap,
    "pee": _each,
    "fzf": _fzf,
    "rg": _options(r"--(?:pre|hostname-bin)=", following="--pre --hostname-bin"),
    "go": _options(r"--?(?:exec|toolexec)=", following="-exec -toolexec --exec --toolexec"),
    **dict.fromkeys(("gcc", "g++", "cc", "c++"), _gcc),
    "split": _options(r"--filter=", following="--filter"),
    "find": feeding.find,
    "gfind": feeding.find,
    "xargs": feeding.xargs,
    "gxargs": feeding.xargs,
    "parallel": feeding.parallel,
    "fd": feeding.fd,
    "fdfind": feeding.fd,
    "ssh": _ssh,
    "autossh": _ssh,
    "env": _env,
    "git": _git,
    "tar": _options(
        r"--checkpoint-action=exec=|--(?:to-command|use-compress-program|rsh-command|info-script|new-volume-script)=|-I(?=.)",
        following="-I --use-compress-program --to-command -F --info-script --rsh-command",
    ),
    "bsdtar": _options(r"--use-compress-program=", following="--use-compress-program"),
    "rsync": _options(r"--rsh=|--rsync-path=|-e(?=.)|-\w*e=", following="-e --rsh"),
    "zip": _options(r"--unzip-command=", following="-TT --unzip-command"),
    "man": _options(r"--pager=|-P(?=.)|--html=", following="-P --pager"),
    "scp": _copying,
    "sftp": _copying,
    "sort": _options(r"--compress-program=", following="--compress-program"),
    "gdb": _options(r"--?(?:ex|eval-command)=(?:shell |!)", following=""),
    "apt-get": _options(r".*(?:Pre|Post)-Invoke[^=]*=(?:\{\")?"),
    "apt": _options(r".*(?:Pre|Post)-Invoke[^=]*=(?:\{\")?"),
    "less": _options(r"\+!|\+&!"),
    "socat": _socat,
    "tmux": _tmux,
    "screen": _screen,
    **dict.fromkeys(("dtach", "abduco", "zellij"), _attached),
    "at": _at,
    "batch": _at,
    "xterm": _xterm,
    "konsole": _xterm,
    "alacritty": _xterm,
    "kitty": _xterm,
    "runuser": _runuser,
    "gcloud": _options(r"--command=", following=""),
    "nix": _options(r"(?!)", following="-c --command"),
    "capsh": _options(r"(?!)", following="-c"),
    "make": _options(r"(?:SHELL)=(?=.)"),
}
