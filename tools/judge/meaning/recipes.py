"""Commands that build tools run from the session's own files: a Makefile's recipes, package.json's scripts, tasks in YAML.

Files that existed before the session belong to the project and are accepted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence

from toolcrib.contract.regex import Regex
from tools.judge.meaning import filestate, owned, preset, tables
from tools.judge.meaning.shellstate import State
from tools.judge.meaning.value import HOLE, Taint, Value, joined, names
from tools.judge.meaning.walk import Walker
from tools.judge.meaning.wrappers import Inner
from tools.judge.options import read

Values = Sequence[Value]

_RULE = Regex(r"([^\s#=][^:=#]*?)\s*::?(?!=)\s*([^;#]*)(?:;(.*))?$")
_SETTING = Regex(r"(?:export\s+)?([\w.-]+)\s*(?:[:?+]{0,3}=)\s*(.*)$")
_USE = Regex(r"\$(?:\$|\((\w+)\)|\{(\w+)\}|\([^()]*\)|(.))")
_RUN_ON_READING = Regex(r"\$\(shell\s+((?:[^()]|\([^()]*\))*)\)|^[\w.-]+\s*!=\s*(.*)$", re.MULTILINE)
_FILE = Regex(r"\$[({]file\s+>{1,2}\s*([^,)}\s]+)")
_INCLUDE = Regex(r"^-?s?include\s+(\S.*)$", re.MULTILINE)
_MAKE_DRY = names("-n --dry-run --just-print --recon")
_MAKE_SETTINGS = {
    "CC": "cc", "CXX": "g++", "CPP": "cc -E", "AR": "ar", "AS": "as", "LD": "ld", "FC": "f77", "LEX": "lex", "YACC": "yacc",
    "RM": "rm -f", "MAKE": "make", "SHELL": "/bin/sh", "CURDIR": ".", "MAKEFLAGS": "", "MFLAGS": "",
}  # fmt: skip
_SCRIPTS = names("test start stop restart install publish")
_MOST_INCLUDED = 8


def inner(it: Walker, state: State, name: str, argv: Values) -> list[Inner]:
    """Return the commands that ``name`` takes from the session's own files; [] if it takes none."""
    recipe = tables.RECIPES.rows.get(name)
    return recipe(it, state, argv) if recipe is not None else []


def _texts(texts: Sequence[str], taint: Taint = Taint.NONE, folder: str = "") -> list[Inner]:
    cwd = Value(folder) if folder else None
    return [Inner(text=Value(text, taint), own=True, cwd=cwd) for text in texts]


# -- make and just ----------------------------------------------------------------------------------------------------


def _make(it: Walker, state: State, argv: Values) -> list[Inner]:
    reading = read([value.text for value in argv], "make")
    given = [(one.name, one.value or "") for one in reading.options]
    dry = not _MAKE_DRY.isdisjoint(name for name, _ in given)
    folder = "".join(f"{text}/" for name, text in given if name in ("-C", "--directory"))
    words = [argv[at].text for at in reading.operands]
    settings = {name: text for name, equals, text in (word.partition("=") for word in words) if equals}
    targets = [word for word in words if "=" not in word]
    more = [settings.get("MAKEFILES", ""), *(one.text for one in preset.given(it, state, ["MAKEFILES"]))]
    files = [text for name, text in given if name in ("-f", "--file", "--makefile")]
    texts = [_makefile(it, state, folder, file) for file in (*files, *" ".join(more).split())]
    if not files:
        known = owned.first(it, state, *(folder + file for file in ("GNUmakefile", "makefile", "Makefile")))
        texts.append(known[1] if known is not None else None)
    read_in = [text for text in texts if text is not None]
    found = joined(read_in, "\n") if read_in else None
    if found is None:
        return []
    if not found.known:  # the file was fetched, and can't be read before the command runs
        return _texts([HOLE], found.taint, folder)
    whole = joined([found, *_included(it, state, found.text, folder)], "\n")
    used = _settings(whole.text, settings)
    at_once = [_expanded(match[1] or match[2] or "", used) for match in _RUN_ON_READING.finditer(whole.text)]
    at_once += [f": > {_expanded(match[1], used)}" for match in _FILE.finditer(whole.text)]
    return _texts([*at_once, *([] if dry else _recipes(whole.text, targets, settings))], whole.taint, folder)


def _makefile(it: Walker, state: State, folder: str, file: str) -> Value | None:
    if file == "-":
        return state.stdin
    known = owned.first(it, state, folder + file)
    return known[1] if known is not None else None


def _included(it: Walker, state: State, text: str, folder: str) -> list[Value]:
    found: list[Value] = []
    for match in _INCLUDE.finditer(text):
        for file in match[1].split()[:_MOST_INCLUDED]:
            more = owned.content(it, state, folder + file)
            if more is not None and more.known:
                found.append(more)
    return found[:_MOST_INCLUDED]


def _settings(text: str, given: dict[str, str]) -> dict[str, str]:
    found = dict(_MAKE_SETTINGS)
    for line in text.replace("\\\n", " ").splitlines():
        if (setting := _SETTING.match(line)) is not None and not line.startswith("\t"):
            found[setting[1]] = setting[2].strip()
    return {**found, **given}


def _recipes(text: str, targets: Sequence[str], given: dict[str, str]) -> list[str]:
    rules: dict[str, tuple[list[str], list[str]]] = {}
    current: list[list[str]] = []
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("\t"):
            for recipe in current:
                recipe.append(line[1:])
        elif (match := _RULE.match(line)) is not None:
            current = []
            for target in match[1].split():
                before, recipe = rules.setdefault(target, ([], []))
                before += match[2].split()
                recipe += [match[3]] if match[3] else []
                current.append(recipe)
    settings = _settings(text, given)
    first = next((target for target in rules if not target.startswith(".")), "")
    wanted = list(targets) or [first]
    seen: set[str] = set()
    found: list[str] = []
    while wanted:
        target = wanted.pop(0)
        if target in seen or target not in rules:
            continue
        seen.add(target)
        before, recipe = rules[target]
        wanted += before
        found += [_expanded(line.lstrip("@-+ \t"), settings) for line in recipe]
    return found


def _expanded(line: str, settings: dict[str, str], depth: int = 0) -> str:
    def one(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        name = match[1] or match[2] or match[3] or ""
        if name not in settings or depth > 4:
            return f"${{{name}}}" if name.isidentifier() and name not in settings else HOLE
        return _expanded(settings[name], settings, depth + 1)

    return _USE.sub(one, line)


def _just(it: Walker, state: State, argv: Values) -> list[Inner]:
    words = [value.text for value in argv[1:] if value.text[:1] != "-" and "=" not in value.text]
    found = owned.first(it, state, "justfile", "Justfile", ".justfile")
    if found is None:
        return []
    return _texts(_recipes(_JUST_USE.sub(HOLE, _INDENTED.sub("\t", found[1].text)), words, {}), found[1].taint)


_INDENTED = Regex(r"^[ \t]+", re.MULTILINE)
_JUST_USE = Regex(r"\{\{.*?\}\}")

# -- package.json -----------------------------------------------------------------------------------------------------

_SHORT = {"t": "test", "tst": "test", "i": "install", "ci": "install", "add": "install"}


def _package(it: Walker, state: State, argv: Values) -> list[Inner]:
    reading = read([value.text for value in argv], "", _PACKAGE_VALUED)
    given = [(one.name, one.value or "") for one in reading.options]
    shells = [Inner(argv=[Value(text)], own=True) for name, text in given if name == "--script-shell" and text]
    words = [argv[at].text for at in reading.operands]
    many = any(name in _MANY for name, _ in given) or words[:1] in (["workspace"], ["workspaces"])
    if words[:1] == ["workspace"] or words[:2] == ["workspaces", "foreach"]:
        words = words[2:]
    top = next((text.rstrip("/") + "/" for name, text in given if name in _FOLDERS and text), "")
    set_up = [*_package_settings(it, state, top), *shells]
    npm = argv[0].text.endswith("npm") and not argv[0].text.endswith("pnpm")
    if not words and npm:
        return set_up
    words = words or ["install"]
    run = words[0] in _RUN
    script = words[1] if run and len(words) > 1 else _SHORT.get(words[0], words[0])
    if not run and script not in _SCRIPTS and npm:
        return set_up
    files = owned.below(it, state, top or ".", "/package.json") if many else [f"{top}package.json"]
    return [*set_up, *(one for file in files for one in _scripts(it, state, file, script))]


_RUN = names("run run-script rum urn")
_FOLDERS = names("--prefix -C --cwd --dir")
_MANY = names("-w --workspace -ws --workspaces --filter -F -r --recursive")
_PACKAGE_VALUED = _FOLDERS | names("-w --workspace --filter -F --script-shell --userconfig --loglevel --registry --cache --tag")


def _package_settings(it: Walker, state: State, folder: str) -> list[Inner]:
    """Return the programs that npm or a similar tool runs because of the session's own settings file."""
    found = owned.content(it, state, f"{folder}.npmrc")
    text = found.text if found is not None else ""
    for name in filestate.absolute(it, state, f"{folder}.npmrc") if found is None else ():
        if filestate.origin(it, name) & owned.OWN:
            seen = it.snapshot.inspect_path(name)
            text = "" if seen.kind == "missing" else seen.text or HOLE  # owned.content does not read files that may hold keys
    if HOLE in text:
        return _texts([HOLE], Taint.NONE, folder)
    given = [(match[1], match[2].strip().strip("'\"")) for match in _PACKAGE_SETTING.finditer(text)]
    return _texts([f"NODE_OPTIONS='{one}' node" if name == "node-options" else one for name, one in given], Taint.NONE, folder)


_PACKAGE_SETTING = Regex(r"^\s*(script-shell|shell|git|node-options|editor|viewer)\s*=\s*(\S.*)$", re.MULTILINE)


def _scripts(it: Walker, state: State, file: str, script: str) -> list[Inner]:
    """Return the commands of one package for ``script``, with its ``pre`` and ``post`` scripts."""
    found = owned.content(it, state, file)
    if found is None:
        return []
    folder = file.rpartition("/")[0]
    if not found.known:
        return _texts([HOLE], found.taint, folder)
    try:
        scripts = json.loads(found.text)["scripts"]
        wanted = (f"pre{script}", script, f"post{script}", "prepare" if script == "install" else "")
        texts = [scripts[name] for name in wanted if name in scripts]
    except (ValueError, KeyError, TypeError):
        return []
    ran = _texts([one for one in texts if isinstance(one, str)], found.taint, folder)
    if owned.below(it, state, f"{folder or '.'}/node_modules/.bin", "", deep=False):
        before = next((one.text for one in preset.given(it, state, ["PATH"])), "")
        path = {"PATH": Value(f"./node_modules/.bin:{before}")}
        return [Inner(text=one.text, own=True, cwd=one.cwd, environment=path) for one in ran]
    return ran


# -- tasks in YAML, cmake, runners of Python ---------------------------------------------------------------------------

_COMMAND = Regex(
    r"^\s*-?\s*(?:[\w-]+\.)*(?:cmds?|command|shell|raw|script|run|sh|task|deps|[\w:-]+)\s*:\s*(?:cmd\s*:\s*)?(?![|>]\s*$)(\S.*)$"
)
_ITEM = Regex(r"^\s*-\s+(?![\w.-]+\s*:(?:\s|$))(\S.*)$")
_BLOCK = Regex(r"^(\s*)-?\s*(?:[\w.-]+)\s*:\s*[|>][+-]?\s*$")
_ABSENT = Regex(r"(?:path|dest|name)\s*[:=]\s*['\"]?([^\s'\"]+)(?=[\s\S]{0,200}state\s*[:=]\s*absent)")


def _tasks(*files: str) -> Callable[[Walker, State, Values], list[Inner]]:
    """Return a reader for programs that run lists of commands in YAML. It reads ``files`` if the command names no file."""

    def runner(it: Walker, state: State, argv: Values) -> list[Inner]:
        named = [value.text for value in argv[1:] if value.text.endswith((".yml", ".yaml"))]
        found: list[Inner] = []
        for path in named or files:
            text = owned.content(it, state, path)
            if text is not None:
                found += _texts(_commands(text.text), text.taint)
        return found

    return runner


def _commands(text: str) -> list[str]:
    """Return the possible commands in a list of tasks: values of keys, items, blocks, and an ``rm`` for each path that must be
    absent.
    """
    found: list[str] = [f"rm -rf {match[1]}" for match in _ABSENT.finditer(text)]
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if (block := _BLOCK.match(line)) is not None:
            body: list[str] = []
            while at < len(lines) and (not lines[at].strip() or len(lines[at]) - len(lines[at].lstrip()) > len(block[1])):
                body.append(lines[at].strip())
                at += 1
            found.append("\n".join(body))
        elif (match := _COMMAND.match(line) or _ITEM.match(line)) is not None:
            found.append(match[1].strip().strip("'\""))
    return [_TEMPLATE.sub(HOLE, one) for one in found if _IS_COMMAND.match(one)]


_TEMPLATE = Regex(r"\{\{.*?\}\}")
_IS_COMMAND = Regex(r"(?:sudo\s+)?[\w./~-]+\s+\S")
"""A command with arguments. A single word in YAML is a name or a value."""

_CMAKE = Regex(r"\bCOMMAND\s+((?:[^()\n]|\n\s*(?![A-Z_]{4,}))*)|\bfile\s*\(\s*(REMOVE_RECURSE|REMOVE)\s+([^)]*)\)", re.IGNORECASE)


def _cmake(it: Walker, state: State, argv: Values) -> list[Inner]:
    words = [value.text for value in argv[1:]]
    folder = next((words[at + 1] for at, word in enumerate(words[:-1]) if word == "-S"), "")
    scripts = [words[at + 1] for at, word in enumerate(words[:-1]) if word == "-P"]
    plain = [word for word in words if word[:1] not in "-" and not scripts]
    found: list[Inner] = []
    for path in scripts or [f"{folder or one}/CMakeLists.txt" for one in (plain or ["."])]:
        text = owned.content(it, state, path)
        for match in _CMAKE.finditer(text.text) if text is not None else ():
            removed = f"rm {'-rf' if 'REC' in (match[2] or '').upper() else '-f'} {match[3]}" if match[2] else ""
            found += _texts([_VARIABLE.sub(HOLE, removed or match[1]).strip()], text.taint if text is not None else Taint.NONE)
    return found


_VARIABLE = Regex(r"\$\{[^}]*\}")


def _started(*files: str) -> Callable[[Walker, State, Values], list[Inner]]:
    """Return a reader for a tool that runs these Python files by itself if they exist."""

    def runner(it: Walker, state: State, argv: Values) -> list[Inner]:
        return _texts([f"python {file}" for file in files if owned.content(it, state, file) is not None])

    return runner


def _tests(it: Walker, state: State, argv: Values) -> list[Inner]:
    """Return tests and the code that runs before them."""
    found = owned.below(it, state, ".", "conftest.py", "_test.py") + [
        path for path in owned.below(it, state, ".", ".py") if path.rpartition("/")[2].startswith("test")
    ]
    return _texts([f"python {path}" for path in dict.fromkeys(found)])


def _pip(it: Walker, state: State, argv: Values) -> list[Inner]:
    words = [value.text.partition("[")[0] for value in argv[1:]]
    folders = [word.rstrip("/") for word in words if word in (".", "./") or ("/" in word and word[:1] != "-" and ":" not in word)]
    found = [f"{folder}/setup.py" for folder in folders if owned.content(it, state, f"{folder}/setup.py") is not None]
    return _texts([f"python {path}" for path in found]) + _packages(it, state, argv)


def _packages(it: Walker, state: State, argv: Values) -> list[Inner]:
    """Return a command that stands for the code in downloaded packages, which runs when they are installed, often as root."""
    if not any(_INSTALLS.fullmatch(value.text) for value in argv[1:]):
        return []
    files = [owned.content(it, state, value.text) for value in argv[1:] if value.text.endswith(_PACKAGES)]
    return _texts([":"], Taint.REMOTE) if any(file is not None and file.taint & Taint.REMOTE for file in files) else []


_INSTALLS = Regex(r"install|localinstall|reinstall|upgrade|add|--install|--unpack|--upgrade|-[iUF][vhA-Z]*")
_PACKAGES = (".deb", ".rpm", ".apk", ".snap", ".flatpak", ".gem", ".whl", ".gz", ".tgz", ".zip", ".pkg.tar.zst", ".pkg.tar.xz")


def _parts(it: Walker, state: State, argv: Values) -> list[Inner]:
    """Return the commands of ``run-parts FOLDER``."""
    words = [value.text for value in argv[1:]]
    folder = next((word for word in reversed(words) if word[:1] != "-"), "")
    if not folder or "--test" in words or "--list" in words:
        return []
    return [Inner(argv=[Value(path)], own=True) for path in owned.below(it, state, folder, "", deep=False)]


def _rake(it: Walker, state: State, argv: Values) -> list[Inner]:
    found = owned.first(it, state, "Rakefile", "rakefile", "Rakefile.rb")
    if found is None:
        return []
    started = [" ".join(re.findall(r"['\"]([^'\"]*)['\"]", match[1])) for match in _SH.finditer(found[1].text)]
    return _texts([f"ruby {found[0]}", *started], found[1].taint)


_SH = Regex(r"""\b(?:sh|ruby)[\s(]+((?:'[^']*'|"[^"]*")(?:\s*,\s*(?:'[^']*'|"[^"]*"))*)""")


RECIPES = {
    **dict.fromkeys(["make", "gmake"], _make),
    **dict.fromkeys(["npm", "yarn", "pnpm", "bun"], _package),
    **dict.fromkeys(["pip", "pip3"], _pip),
    **dict.fromkeys(names("dpkg rpm apt apt-get dnf yum zypper pacman apk snap flatpak gem"), _packages),
    **dict.fromkeys(["pytest", "py.test"], _tests),
    "nox": _started("noxfile.py"),
    "tox": _started("setup.py"),
    "invoke": _started("tasks.py"),
    "fab": _started("fabfile.py"),
    "doit": _started("dodo.py"),
    "scons": _started("SConstruct"),
    "just": _just,
    "rake": _rake,
    "run-parts": _parts,
    "task": _tasks("Taskfile.yml", "Taskfile.yaml", "taskfile.yml"),
    "go-task": _tasks("Taskfile.yml", "Taskfile.yaml", "taskfile.yml"),
    "ansible-playbook": _tasks(),
    "cmake": _cmake,
}
