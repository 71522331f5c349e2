"""Commands that build tools run out of files which the same script wrote: a Makefile's recipes, package.json's scripts.

Files that were there before are the project's own and let be.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from toolcrib._regex import Regex
from tools.approval.meaning import filestate
from tools.approval.meaning.shellstate import State
from tools.approval.meaning.value import HOLE, Value, names
from tools.approval.meaning.wrappers import Inner

if TYPE_CHECKING:
    from tools.approval.meaning.run import Interpreter

Values = Sequence[Value]

_RULE = Regex(r"([^\s#=][^:=#]*?)\s*::?(?!=)\s*([^;#]*)(?:;(.*))?$")
_SETTING = Regex(r"(?:export\s+)?([\w.-]+)\s*(?:[:?+]{0,3}=)\s*(.*)$")
_USE = Regex(r"\$(?:\$|\((\w+)\)|\{(\w+)\}|\([^()]*\)|(.))")
_MAKE_VALUED = names("-f -C -j -l -o -W -I --file --makefile --directory --jobs")
_SCRIPTS = names("test start stop restart install publish")


def inner(it: Interpreter, state: State, name: str, argv: Values) -> list[Inner]:
    """The commands that ``name`` takes from files written by this script; [] where it takes none."""
    found = _RUNNERS[name](it, state, argv) if state.files and name in _RUNNERS else []
    return [Inner(text=Value(text), own=True) for text in found]


def _written(it: Interpreter, state: State, path: str) -> str | None:
    for one in filestate.absolute(it, state, path):
        known = state.files.get(one)
        if known is not None:
            return known.text
    return None


def _make(it: Interpreter, state: State, argv: Values) -> list[str]:
    files, folder, targets = ["GNUmakefile", "makefile", "Makefile"], "", []
    skip = ""
    for value in argv[1:]:
        text = value.text
        if skip:
            files = [text] if skip in ("-f", "--file", "--makefile") else files
            folder = f"{text}/" if skip in ("-C", "--directory") else folder
            skip = ""
        elif text in _MAKE_VALUED and text != "-j":
            skip = text
        elif text[:2] in ("-f", "-C") and len(text) > 2:
            files, folder = ([text[2:]], folder) if text[1] == "f" else (files, f"{text[2:]}/")
        elif text in ("-n", "--dry-run", "--just-print", "--recon"):
            return []
        elif text[:1] != "-" and "=" not in text:
            targets.append(text)
    for file in files:
        written = _written(it, state, folder + file)
        if written is not None:
            return _recipes(written, targets)
    return []


def _recipes(text: str, targets: Sequence[str]) -> list[str]:
    settings: dict[str, str] = {}
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
        elif (setting := _SETTING.match(line)) is not None:
            settings[setting[1]] = setting[2].strip()
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
            return HOLE
        return _expanded(settings[name], settings, depth + 1)

    return _USE.sub(one, line)


def _package(it: Interpreter, state: State, argv: Values) -> list[str]:
    words = [value.text for value in argv[1:] if value.text[:1] != "-"]
    if not words:
        return []
    script = words[1] if words[0] in ("run", "run-script") and len(words) > 1 else _SHORT.get(words[0], words[0])
    if words[0] not in ("run", "run-script") and script not in _SCRIPTS and argv[0].text.endswith("npm"):
        return []
    text = _written(it, state, "package.json")
    if text is None or HOLE in text:
        return []
    try:
        scripts = json.loads(text)["scripts"]
        ran = (f"pre{script}", script, f"post{script}", "prepare" if script == "install" else "")
        found = [scripts[name] for name in ran if name in scripts]
    except (ValueError, KeyError, TypeError):
        return []
    return [one for one in found if isinstance(one, str)]


_SHORT = {"t": "test", "tst": "test", "i": "install", "ci": "install", "add": "install"}


def _just(it: Interpreter, state: State, argv: Values) -> list[str]:
    words = [value.text for value in argv[1:] if value.text[:1] != "-" and "=" not in value.text]
    for file in ("justfile", "Justfile", ".justfile"):
        text = _written(it, state, file)
        if text is not None:
            return _recipes(_INDENTED.sub("\t", text), words)
    return []


_INDENTED = Regex(r"^[ \t]+", re.MULTILINE)


def _imported(*files: str) -> Callable[[Interpreter, State, Values], list[str]]:
    """Python that a tool runs by itself where it is there."""
    return lambda it, state, argv: [f"python {file}" for file in files if _written(it, state, file) is not None]


def _pip(it: Interpreter, state: State, argv: Values) -> list[str]:
    builds = any(value.text.partition("[")[0] in (".", "./") for value in argv[1:])
    return _imported("setup.py")(it, state, argv) if builds else []


_RUNNERS: dict[str, Callable[[Interpreter, State, Values], list[str]]] = {
    **dict.fromkeys(["make", "gmake"], _make),
    **dict.fromkeys(["npm", "yarn", "pnpm", "bun"], _package),
    **dict.fromkeys(["pip", "pip3"], _pip),
    **dict.fromkeys(["pytest", "py.test"], _imported("conftest.py")),
    "nox": _imported("noxfile.py"),
    "just": _just,
}
