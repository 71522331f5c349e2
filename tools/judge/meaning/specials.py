"""Programs that run commands from special places in their arguments: find, xargs, ssh, env, git, tar and others."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from toolcrib.contract.regex import Regex
from tools.judge.meaning import textual
from tools.judge.meaning.value import Taint, Value, joined, names, unknown
from tools.judge.meaning.wrappers import Inner
from tools.judge.options import read

Values = Sequence[Value]

_GIT_RUNS = Regex(
    r"(?:core\.(?:sshcommand|pager|editor|fsmonitor|askpass|gitproxy)|diff\.external|diff\.[^=]*\.(?:command|textconv)|sequence\.editor|"
    r"pager\.\w+|credential(?:\.[^=]*)?\.helper|alias\.[\w-]+|filter\.[^=]*\.(?:clean|smudge|process)|(?:merge|difftool|mergetool)"
    r"\.[^=]*\.(?:driver|cmd)|gpg(?:\.\w+)?\.program|uploadpack\.packobjectshook)$",
    re.IGNORECASE,
)
_GIT_HARMLESS = Regex(r"(?:cat|less|more|true|false|vi|vim|nano|code|store|cache|manager|osxkeychain|delta|ssh|)$")


def _git(argv: Values, stdin: Value | None) -> list[Inner]:
    found: list[Inner] = []
    reading = read([value.text for value in argv], "git")
    at = reading.operands[0] if reading.operands else len(argv)
    for option in reading.options:
        if option.name == "-c" and option.at < at and option.value is not None:
            found += _git_setting(argv[option.value_at]._replace(text=option.value))
    rest = argv[at:]
    words = [value.text for value in rest]
    if words[:1] == ["submodule"] and "foreach" in words:
        start = words.index("foreach") + 1
        while start < len(words) and words[start].startswith("-"):
            start += 1
        found.append(Inner(text=joined(rest[start:], " "), own=True))
    elif words[:2] == ["bisect", "run"] and len(words) > 2:
        found.append(Inner(argv=list(rest[2:]), own=True))
    elif words[:1] == ["for-each-repo"]:
        found.append(_of_each_repo(argv[0], rest))
    elif words[:1] in (["rebase"], ["filter-branch"], ["difftool"], ["mergetool"]):
        found += textual.filters(rest)
    elif words[:1] == ["config"]:
        found += _configured(rest)
    elif words[:1] == ["grep"]:
        found += textual.pagers(rest)
    elif words[:1] and words[0] in _GIT_CONNECTS:
        found += textual.packs(rest)
    for one in found:
        one.own = True
    return found


def _configured(rest: Values) -> list[Inner]:
    """Return the commands of ``git config [set] NAME VALUE``."""
    given = [value for value in rest[1:] if not value.text.startswith("-")]
    given = given[1:] if given and given[0].text in ("set", "--add") else given
    return _git_setting(Value(f"{given[0].text}={given[1].text}", given[1].taint)) if len(given) > 1 else []


def _of_each_repo(program: Value, rest: Values) -> Inner:
    """Return the command that ``git for-each-repo --config=KEY ARGUMENTS`` runs: git, in unknown folders that a setting names."""
    below = read([value.text for value in rest], "", _OF_EACH, posix=True).operands
    return Inner(argv=[program, Value("-C"), unknown(), *(rest[one] for one in below)], own=True)


_OF_EACH = frozenset({"--config"})
_GIT_CONNECTS = frozenset({"clone", "fetch", "pull", "push", "ls-remote", "archive", "fetch-pack", "send-pack", "submodule"})


def _git_setting(value: Value) -> list[Inner]:
    name, _, text = value.text.partition("=")
    if not _GIT_RUNS.match(name) or _GIT_HARMLESS.match(text.partition(" ")[0]):
        return []
    if text.startswith("!"):
        return [Inner(text=value._replace(text=text[1:], shown=""))]
    if name.lower().startswith(("alias.", "credential")):
        return []
    return [Inner(text=value._replace(text=text, shown=""))]


def _socat(argv: Values, stdin: Value | None) -> list[Inner]:
    found: list[Inner] = []
    for value in argv[1:]:
        match = re.match(r"(?:exec|system):(.*)", value.text, re.IGNORECASE | re.DOTALL)
        if match is not None:
            text = match[1].split(",")[0].strip("'\"")
            found.append(Inner(text=Value(text, value.taint), own=True, stdin=unknown(Taint.REMOTE)))
    return found


def _each(argv: Values, stdin: Value | None) -> list[Inner]:
    return [Inner(text=value) for value in argv[1:] if value.text[:1] != "-"]


_FZF_TEXTS = textual.texts("--preview")
_FZF_RUNS = Regex(r"(?:execute(?:-silent)?|become|reload|preview|transform)[(\[{]([^)\]}]*)")


def _fzf(argv: Values, stdin: Value | None) -> list[Inner]:
    bound = [match for value in argv[1:] for match in _FZF_RUNS.finditer(value.text) if not value.text.startswith("--preview=")]
    return [*_FZF_TEXTS(argv, stdin), *(Inner(text=Value(match[1]), own=True) for match in bound)]


def _gcc(argv: Values, stdin: Value | None) -> list[Inner]:
    """Return the command of ``-wrapper rm,-rf,x``, which starts every part of the compiler."""
    for at, value in enumerate(argv[1:-1], start=1):
        if value.text == "-wrapper":
            return [Inner(argv=[value._replace(text=one, shown="") for one in argv[at + 1].text.split(",")], own=True)]
    return []


def _at(argv: Values, stdin: Value | None) -> list[Inner]:
    return [Inner(text=stdin, own=True)] if stdin is not None else []


def _xterm(argv: Values, stdin: Value | None) -> list[Inner]:
    for at, value in enumerate(argv):
        if value.text in ("-e", "-x") and argv[at + 1 :]:
            rest = list(argv[at + 1 :])
            return [Inner(text=rest[0])] if len(rest) == 1 else [Inner(argv=rest)]
    return []


_SCRIPTED = names("-e -l -s")


def _osascript(argv: Values, stdin: Value | None) -> list[Inner]:
    """Return the code of ``osascript -l JavaScript`` as a command of node, whose language is known."""
    reading = read([value.text for value in argv], "", _SCRIPTED)
    if not any(one.name == "-l" and (one.value or "").lower() == "javascript" for one in reading.options):
        return []
    code = [one for one in reading.options if one.name == "-e" and one.value is not None]
    given = [argv[one.value_at] if one.value_at > one.at else argv[one.at]._replace(text=one.value or "") for one in code]
    words = [Value("-e"), joined(given, "\n")] if given else []
    return [Inner(argv=[Value("node"), *words, *(argv[at] for at in reading.operands)], own=True)]


def _fed_shell(argv: Values, stdin: Value | None) -> list[Inner]:
    """Return the commands that a shell of another kind reads from its input."""
    if stdin is None or any(value.text[:1] != "-" or value.text in ("-c", "--commands") for value in argv[1:]):
        return []
    return [Inner(text=stdin, own=True)]


SPECIALS: dict[str, Callable[[Values, Value | None], list[Inner]]] = {
    "pee": _each,
    "fzf": _fzf,
    "rg": textual.texts("--pre --hostname-bin"),
    "go": textual.texts("-exec -toolexec --exec --toolexec"),
    **dict.fromkeys(("gcc", "g++", "cc", "c++"), _gcc),
    "split": textual.texts("--filter"),
    "ssh": textual.ssh,
    "autossh": textual.ssh,
    "git": _git,
    "tar": textual.tar,
    "bsdtar": textual.texts("-I --use-compress-program"),
    "rsync": textual.texts("-e --rsh --rsync-path"),
    "zip": textual.texts("-TT --unzip-command"),
    "man": textual.texts("-P --pager -H --html"),
    "scp": textual.copying,
    "sftp": textual.copying,
    "sort": textual.texts("--compress-program"),
    "apt-get": textual.words(r".*(?:Pre|Post)-Invoke[^=]*=(?:\{\")?"),
    "apt": textual.words(r".*(?:Pre|Post)-Invoke[^=]*=(?:\{\")?"),
    **dict.fromkeys(("csh", "tcsh", "nu", "xonsh", "elvish"), _fed_shell),
    "less": textual.words(r"\+!|\+&!"),
    "socat": _socat,
    "at": _at,
    "batch": _at,
    "xterm": _xterm,
    "konsole": _xterm,
    "alacritty": _xterm,
    "kitty": _xterm,
    "osascript": _osascript,
    "dialog": textual.dialog,
    "gcloud": textual.texts("--command"),
    "nix": textual.nix,
    "coreutils": textual.coreutils,
    "flatpak": textual.flatpak,
    "snap": textual.snap,
    "nvim": textual.nvim,
    "start-stop-daemon": textual.daemon,
    "cmake": textual.cmake,
    "capsh": textual.capsh,
    "make": textual.words(r"SHELL=(?=.)"),
}
