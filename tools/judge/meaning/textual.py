"""Texts for a shell in the options of programs: ``rsync -e``, ``tar --to-command``, ``ssh -o ProxyCommand=``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from toolcrib.contract.regex import Regex
from tools.judge.meaning.value import Value, joined, names
from tools.judge.meaning.wrappers import Inner
from tools.judge.options import GivenOption, path_of, read, values

Values = Sequence[Value]

_SSH_RUNS = Regex(r"\s*(?:Proxy|Local|KnownHosts)Command\s*[ =]\s*(.+)", re.IGNORECASE | re.DOTALL)


def ssh(argv: Values, stdin: Value | None) -> list[Inner]:
    reading = read([value.text for value in argv], "ssh")
    found = _connecting(argv, reading.options)
    if not reading.operands:
        return found
    host, *command = (argv[at] for at in reading.operands)
    place = f"ssh:{host.text}"
    if command:
        found.append(Inner(text=joined(command, " "), place=place, own=True))
    elif stdin is not None:
        found.append(Inner(text=stdin, place=place, own=True))
    return found


def _connecting(argv: Values, options: Sequence[GivenOption]) -> list[Inner]:
    """Return the commands that ssh and similar programs connect through."""
    found: list[Inner] = []
    for given in options:
        match = _SSH_RUNS.match(given.value) if given.name == "-o" and given.value is not None else None
        if match is not None:
            found.append(Inner(text=Value(match[1], argv[given.value_at].taint), own=True))
    return found


def copying(argv: Values, stdin: Value | None) -> list[Inner]:
    """Return the programs that scp and sftp start in place of ssh."""
    name = argv[0].text.rpartition("/")[2]
    options = read([value.text for value in argv], name).options
    wanted = ("-S", "-D") if name == "sftp" else ("-S",)
    return [*(_text(argv, given) for given in options if given.name in wanted and given.value), *_connecting(argv, options)]


def _text(argv: Values, given: GivenOption) -> Inner:
    """Return an option's value as a text for a shell."""
    value = argv[given.value_at]
    return Inner(text=value if given.value_at != given.at else value._replace(text=given.value or "", shown=""), own=True)


def texts(options: str) -> Callable[[Values, Value | None], list[Inner]]:
    """Return a reader for the values of ``options`` as texts for a shell."""
    wanted = names(options)

    def inner_texts(argv: Values, stdin: Value | None) -> list[Inner]:
        words = [value.text for value in argv]
        return [_text(argv, given) for given in values(words, path_of(words[0].rpartition("/")[2]), wanted)]

    return inner_texts


def words(pattern: str) -> Callable[[Values, Value | None], list[Inner]]:
    """Return a reader for texts for a shell that follow ``pattern`` in the same word."""
    before = re.compile(pattern, re.IGNORECASE)

    def inner_texts(argv: Values, stdin: Value | None) -> list[Inner]:
        found = ((value, before.match(value.text)) for value in argv[1:])
        return [Inner(text=value._replace(text=value.text[match.end() :], shown=""), own=True) for value, match in found if match]

    return inner_texts


def dialog(argv: Values, stdin: Value | None) -> list[Inner]:
    """Return the command of ``dialog --prgbox [TEXT] COMMAND HEIGHT WIDTH``, and TEXT, which looks the same."""
    found = (value for at, one in enumerate(argv) if one.text == "--prgbox" for value in argv[at + 1 : at + 3])
    return [Inner(text=value, own=True) for value in found if not value.text.isdecimal()]


def pagers(argv: Values) -> list[Inner]:
    """Return the pager of ``git grep -lOPAGER``."""
    given = values([value.text for value in argv], "git grep", names("-O --open-files-in-pager"))
    return [_text(argv, one) for one in given]


_TAR_TEXTS = texts("-I --use-compress-program --to-command -F --info-script --new-volume-script --rsh-command")


def filters(argv: Values) -> list[Inner]:
    """Return the commands of ``git rebase -ix COMMAND`` and ``git filter-branch --tree-filter COMMAND``.

    ``argv`` begins with the subcommand.
    """
    wanted = names("-x --exec --extcmd --tree-filter --index-filter --msg-filter --parent-filter --commit-filter --env-filter")
    words = [value.text for value in argv]
    return [_text(argv, given) for given in values(words, f"git {words[0]}", wanted | {"--tag-name-filter"})]


def packs(argv: Values) -> list[Inner]:
    """Return the commands that serve the other side: ``git clone -u COMMAND``, ``git fetch --upload-pack COMMAND``."""
    wanted = names("--upload-pack --receive-pack --exec") | (frozenset({"-u"}) if argv[0].text == "clone" else frozenset())
    words = [value.text for value in argv]
    return [_text(argv, given) for given in values(words, f"git {words[0]}", wanted)]


def daemon(argv: Values, stdin: Value | None) -> list[Inner]:
    """Return the command of ``start-stop-daemon --exec /bin/rm -- -rf x``."""
    words = [value.text for value in argv]
    reading = read(words, "start-stop-daemon")
    programs = [argv[one.value_at] for one in reading.options if one.name in ("-x", "--exec", "-a", "--startas") and one.value]
    rest = [argv[at] for at in reading.operands]
    folders = [Value(one.value) for one in reading.options if one.name in ("-d", "--chdir") and one.value]
    cwd = folders[-1] if folders else Value("/") if any(one.name in ("-b", "--background") for one in reading.options) else None
    if not programs:
        return []
    return [Inner(argv=[programs[-1]._replace(text=programs[-1].text.rpartition("=")[2]), *rest], own=True, cwd=cwd)]


_CMAKE_TOOLS: Mapping[str, Sequence[str]] = {
    "remove_directory": ("rm", "-rf"),
    "remove": ("rm", "-f"),
    "rename": ("mv",),
    "copy": ("cp",),
    "copy_directory": ("cp", "-r"),
    "copy_if_different": ("cp",),
    "copy_directory_if_different": ("cp", "-r"),
    "make_directory": ("mkdir", "-p"),
    "create_symlink": ("ln", "-s"),
    "create_hardlink": ("ln",),
    "touch_nocreate": ("touch",),
}
"""Tools of ``cmake -E`` with other names than the system's (https://cmake.org/cmake/help/latest/manual/cmake.1.html)."""


def cmake(argv: Values, stdin: Value | None) -> list[Inner]:
    """Return the program that ``cmake -E TOOL`` acts as."""
    if len(argv) < 3 or argv[1].text != "-E":
        return []
    program = [Value(word) for word in _CMAKE_TOOLS.get(argv[2].text, ())] or [argv[2]]
    return [Inner(argv=[*program, *argv[3:]], own=True)]


def capsh(argv: Values, stdin: Value | None) -> list[Inner]:
    """Return the shell that ``capsh -- ARGUMENTS`` starts."""
    at = next((at for at, value in enumerate(argv) if value.text == "--"), len(argv))
    return [Inner(argv=[Value("bash"), *argv[at + 1 :]], own=True)] if argv[at + 1 :] else []


def tar(argv: Values, stdin: Value | None) -> list[Inner]:
    actions = values([value.text for value in argv], "tar", names("--checkpoint-action"))
    found = _TAR_TEXTS(argv, stdin)
    for given in actions:
        if given.value is not None and given.value.startswith("exec="):
            found.append(Inner(text=Value(given.value[5:], argv[given.value_at].taint), own=True))
    return found


def nix(argv: Values, stdin: Value | None) -> list[Inner]:
    """Return the command of ``nix shell PACKAGE -c COMMAND``, ``nix develop --command COMMAND``, ``nix run nixpkgs#NAME --
    ARGUMENTS``.
    """
    words = [value.text for value in argv]
    at = next((at for at, word in enumerate(words) if word in ("-c", "--command")), len(argv))
    if "run" in words[:at] and any("#" in word for word in words):
        at = next(at for at, word in enumerate(words) if "#" in word)
        program = argv[at]._replace(text=re.split(r"[#.]", words[at])[-1], shown="")
        rest = argv[at + 1 :]
        return [Inner(argv=[program, *(rest[1:] if rest and rest[0].text == "--" else rest)], own=True)]
    return [Inner(argv=list(argv[at + 1 :]), own=True)] if argv[at + 1 :] else []


def coreutils(argv: Values, stdin: Value | None) -> list[Inner]:
    """Return the command of ``coreutils --coreutils-prog=rm -rf x`` or ``coreutils rm -rf x``."""
    head, _, name = argv[1].text.partition("=") if len(argv) > 1 else ("-", "", "")
    if head[:1] != "-":
        return [Inner(argv=list(argv[1:]))]
    return [Inner(argv=[Value(name, argv[1].taint), *argv[2:]])] if head.startswith("--coreutils-prog") and name else []


def flatpak(argv: Values, stdin: Value | None) -> list[Inner]:
    """Return the command of ``flatpak run --command=rm APP -rf x``."""
    words = [value.text for value in argv]
    at = next((at for at, word in enumerate(words) if word.startswith("--command=")), 0)
    app = next((place for place in range(at + 1, len(argv)) if words[place][:1] != "-"), len(argv))
    program = [argv[at]._replace(text=words[at][10:], shown="")]
    return [Inner(argv=[*program, *argv[app + 1 :]], own=True)] if at and "run" in words[:at] else []


def snap(argv: Values, stdin: Value | None) -> list[Inner]:
    """Return the shell of ``snap run --shell NAME -c COMMAND``."""
    words = [value.text for value in argv]
    if words[1:2] != ["run"] or "--shell" not in words:
        return []
    rest = [value for value in argv[2:] if value.text != "--shell"]
    return [Inner(argv=[Value("bash"), *rest[1:]], own=True)]


def nvim(argv: Values, stdin: Value | None) -> list[Inner]:
    """Return the command of ``nvim -l x.lua``."""
    at = next((at for at, value in enumerate(argv) if value.text == "-l"), len(argv))
    return [Inner(argv=[Value("lua"), *argv[at + 1 :]], own=True)] if argv[at + 1 :] else []
