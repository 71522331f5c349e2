"""Programs that run another command: where in their arguments it stands."""

from __future__ import annotations

import re
from dataclasses import dataclass

SHELLS = frozenset({"bash", "sh", "dash", "zsh", "ksh", "mksh", "ash", "fish", "rbash"})
INTERPRETERS = frozenset({"python", "perl", "ruby", "node", "nodejs", "php", "lua", "deno", "bun", "awk", "gawk", "mawk"})

ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[[^]]*\])?\+?=", re.ASCII)


@dataclass(frozen=True, slots=True)
class Wrapper:
    """``valued``: options that take a separate value. ``skip``: operands before the command. ``sub``: its first words."""

    valued: frozenset[str] = frozenset()
    skip: int = 0
    sub: tuple[str, ...] = ()
    text: bool = False
    """The rest is joined and read by a shell again."""


def _wrapper(valued: str = "", skip: int = 0, sub: str = "", *, text: bool = False) -> Wrapper:
    return Wrapper(frozenset(valued.split()), skip, tuple(sub.split()), text)


WRAPPERS: dict[str, tuple[Wrapper, ...]] = {
    "sudo": (_wrapper("-u -g -h -p -C -r -t -T -U -D -R --user --group --host --prompt --chdir --chroot"),),
    "doas": (_wrapper("-u -C"),),
    "pkexec": (_wrapper("--user"),),
    "env": (_wrapper("-u -C --unset --chdir"),),
    "nohup": (_wrapper(),),
    "setsid": (_wrapper(),),
    "nice": (_wrapper("-n --adjustment"),),
    "ionice": (_wrapper("-c -n -p"),),
    "chrt": (_wrapper("", 1),),
    "taskset": (_wrapper("", 1),),
    "timeout": (_wrapper("-k -s --kill-after --signal", 1),),
    "stdbuf": (_wrapper("-i -o -e"),),
    "time": (_wrapper("-f -o"),),
    "command": (_wrapper(),),
    "builtin": (_wrapper(),),
    "exec": (_wrapper("-a"),),
    "xargs": (_wrapper("-I -n -P -L -d -a -E -s --max-args --max-procs --replace --delimiter --arg-file"),),
    "parallel": (_wrapper("-j --jobs -a --colsep", text=True),),
    "busybox": (_wrapper(),),
    "toybox": (_wrapper(),),
    "strace": (_wrapper("-e -o -p -s"),),
    "ltrace": (_wrapper("-e -o -p -s"),),
    "unshare": (_wrapper(),),
    "nsenter": (_wrapper("-t --target"),),
    "chroot": (_wrapper("", 1),),
    "flock": (_wrapper("-w -E", 1),),
    "script": (_wrapper("", 1),),
    "watch": (_wrapper("-n -d --interval", text=True),),
    "eval": (_wrapper(text=True),),
    "ssh": (_wrapper("-i -p -l -o -F -J -L -R -D -W -b -c -E -e -I -m -O -Q -S -w", 1, text=True),),
    "docker": (
        _wrapper("-u -w -e --user --workdir --env --env-file", 1, "exec"),
        _wrapper("-u -w -e --user --workdir --env --index", 1, "compose exec"),
    ),
    "podman": (_wrapper("-u -w -e --user --workdir --env", 1, "exec"),),
    "uv": (_wrapper("--with --python -p --extra --group", 0, "run"),),
    "poetry": (_wrapper("", 0, "run"),),
    "pipenv": (_wrapper("", 0, "run"),),
    "hatch": (_wrapper("", 0, "run"),),
}

_SYSTEM_FOLDER = re.compile(r"^/(?:usr/(?:local/)?)?s?bin/(?=[^/]+$)")


def bare_name(word: str) -> str:
    """``/usr/bin/rm`` -> ``rm``; a path elsewhere stays what it is."""
    return _SYSTEM_FOLDER.sub("", word) if word.startswith("/") else word


def family(name: str) -> str:
    """``mkfs.ext4`` -> ``mkfs``, ``python3.12`` -> ``python``: what rules are filed under."""
    return name.partition(".")[0].rstrip("0123456789") or name if not name.startswith((".", "/")) else name


def wrapped(argv: list[str]) -> tuple[list[str], bool] | None:
    """What ``argv`` would run: (its argv, whether a shell reads it again); None where ``argv`` runs nothing else."""
    for wrapper in WRAPPERS.get(argv[0], ()):
        start = 1 + len(wrapper.sub)
        if tuple(argv[1:start]) == wrapper.sub:
            rest = argv[_command_at(argv, start, wrapper) :]
            return (rest, wrapper.text) if rest else None
    if argv[0] == "kubectl" and "exec" in argv and "--" in argv:
        rest = argv[argv.index("--") + 1 :]
        return (rest, False) if rest else None
    return None


def _command_at(argv: list[str], at: int, wrapper: Wrapper) -> int:
    skip = wrapper.skip
    while at < len(argv):
        word = argv[at]
        if word == "--":
            return at + 1 + skip
        if word.startswith("-") and len(word) > 1:
            at += 2 if word in wrapper.valued else 1
        elif ASSIGNMENT.match(word) and argv[0] in ("env", "sudo", "doas"):
            at += 1
        elif skip:
            skip -= 1
            at += 1
        else:
            return at
    return at


def shell_text(argv: list[str]) -> str | None:
    """The text after ``bash -c``, ``su -c`` and the like."""
    if argv[0] in SHELLS or argv[0] in ("su", "runuser"):
        for index, word in enumerate(argv[1:-1], start=1):
            if re.fullmatch(r"-[a-zA-Z]*c|--command", word):
                return argv[index + 1]
    return None


def find_commands(argv: list[str]) -> list[list[str]]:
    """The commands of find's ``-exec`` and its kin."""
    found: list[list[str]] = []
    at = 0
    while at < len(argv):
        at += 1
        if argv[at - 1] in ("-exec", "-execdir", "-ok", "-okdir"):
            start = at
            while at < len(argv) and argv[at] not in (";", "+"):
                at += 1
            if at > start:
                found.append(argv[start:at])
    return found


_IN_CODE = re.compile(
    r"""(?:system|popen|exec|execSync|spawnSync|run|call|check_call|check_output|Popen|shell_exec|passthru|getoutput)"""
    r"""\s*\(?\s*\[?\s*(?:"((?:[^"\\]|\\.)*+)"|'((?:[^'\\]|\\.)*+)')((?:\s*,\s*(?:"[^"]*"|'[^']*'))*)"""
)


def commands_in_code(code: str) -> list[str]:
    """Literal commands that an interpreter's code hands to a shell: ``os.system("...")``, ``run(["rm", "-rf", "x"])``."""
    return [
        " ".join([(one if one is not None else two or "").replace("\\", ""), *re.findall(r"""["']([^"']*)["']""", more)])
        for one, two, more in (match.groups() for match in _IN_CODE.finditer(code))
    ]
