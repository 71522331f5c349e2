"""Drafts of a project's AGENTS.md: the build and test commands in its files, and the request for a model to write it."""

from __future__ import annotations

import json
import os
import stat
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from agent.context.instructions import NAMES
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.regex import Regex

_MOST = 256 * 1024
"""Maximum number of bytes that are read from a file."""
_FOLDERS = 20
_TARGET = Regex(r"(?m)^([A-Za-z][\w-]*)\s*:(?![=:])")
_RECIPE = Regex(r"(?m)^@?([A-Za-z][\w-]*)(?: [^:=\n]*)?:(?!=)")
_HEADING = Regex(r"(?m)^#\s+(.+?)\s*#*$")
_WORTH = (
    "install",
    "setup",
    "build",
    "test",
    "check",
    "lint",
    "format",
    "fmt",
    "typecheck",
    "types",
    "dev",
    "start",
    "run",
    "docs",
)
"""Names of scripts and targets that the draft lists, in this order."""
_LEFT_OUT = frozenset({"node_modules", "target", "dist", "build", "venv", "__pycache__", "vendor"})


@dataclass(slots=True)
class ProjectFacts:
    """Facts about a project from its files. ``commands`` are pairs of a purpose and a command.

    ``sources`` are the files that the commands come from, ``folders`` the folders at the top of the project.
    """

    name: str
    commands: list[tuple[str, str]] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)


def look_at(root: Path) -> ProjectFacts:
    """Return the facts that a project's README, build files and folders show. Reads only regular files."""
    facts = ProjectFacts(root.name)
    heading = _HEADING.search(_text(root / "README.md"))
    if heading is not None:
        facts.name = " ".join(heading[1].split())[:100]
    for name, read in _READERS.items():
        text = _text(root / name)
        found = list(read(root, text)) if text or (root / name).is_file() else []
        new = [one for one in found if one[1] not in (command for _, command in facts.commands)]
        facts.commands += new
        facts.sources += [name] if found else []
    facts.folders = _folders(root)
    return facts


def existing(root: Path) -> Path | None:
    """Return the project's file of instructions, or None."""
    return next((root / name for name in NAMES if os.path.lexists(root / name)), None)


def draft(facts: ProjectFacts) -> str:
    """Return a draft of AGENTS.md from the facts, with gaps to fill in."""
    lines = [f"# Working on {facts.name}", "", "## Build and test", ""]
    lines += [f"- {purpose}: `{command}`" for purpose, command in facts.commands]
    lines += [] if facts.commands else ["- (no build file was found: describe here how to build and test)"]
    if facts.folders:
        lines += ["", "## Layout", "", *(f"- `{folder}/`: " for folder in facts.folders)]
    lines += [
        "",
        "## Rules",
        "",
        "- Run the tests before you report that something is done.",
        "- Keep changes small, and match the code around them.",
    ]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def missing(facts: ProjectFacts, text: str) -> str:
    """Return lines for the commands that ``text``, an instruction file, does not name; "" if it names all."""
    lacking = [(purpose, command) for purpose, command in facts.commands if command not in text]
    return "".join(f"- {purpose}: `{command}`\n" for purpose, command in lacking)


def request(path: str, facts: ProjectFacts, *, is_there: bool | None, wishes: str = "") -> str:
    """Return the request for a model to draft the file, or to propose changes to it if it exists.

    If ``is_there`` is None, the model checks whether the file exists.
    """
    asked = _EITHER.format(draft=_DRAFT, improve=_IMPROVE) if is_there is None else _IMPROVE if is_there else _DRAFT
    found = "\n".join(f"- {purpose}: {command}" for purpose, command in facts.commands) or "- none"
    text = f"{asked.format(path=path)}{_MIDDLE}{found}"
    return f"{text}{_WISHES}{wishes}" if wishes else text


def wishes_in(message: str) -> str | None:
    """Return the user's wishes in a message that ``request`` wrote, None for another message."""
    _, middle, rest = message.partition(_MIDDLE)
    return rest.partition(_WISHES)[2] if middle else None


_DRAFT = """\
Draft {path} for this project.

Coding agents read it at the start of each session. Before you write, read the README, build files, CI configuration, the \
tests and a few source files. Run nothing that changes the project. Then write the file once, with write_file."""
_IMPROVE = """\
Propose improvements to {path}.

Coding agents read it at the start of each session. Read it, then check it against the project: build files, CI configuration, \
tests, layout. Change nothing. Answer with one unified diff of that file in a ```diff block, and a sentence on each change. \
If it needs no change, answer that. I decide whether you apply the diff."""
_EITHER = """\
{draft}

If the file exists already, do not change it. {improve}"""
_CONTENT = """\
What belongs in it, in this order, at most 60 lines of Markdown:
1. The commands to set up, build, run all tests, run one test, lint and format: exact ones that the project has.
2. The layout: the folders that matter and what each holds, one line each.
3. Rules that the code follows and that a newcomer would break: style, names, errors, tests, files that must not be edited.
4. Pitfalls: what is slow, needs a service or a key, or is generated.
Leave out what any engineer knows, praise, and anything you did not see in the project. No secrets, no paths of this machine."""
_MIDDLE = f"\n\n{_CONTENT}\n\nCommands found in the project's files:\n"
_WISHES = "\n\nBesides: "


# -- reading project files ----------------------------------------------------------------------------------------------


def _text(path: Path) -> str:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(handle, "rb") as file:  # noqa: PTH123 - a descriptor
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return ""
            return file.read(_MOST).decode("utf-8", "replace")
    except OSError:
        return ""


def _folders(root: Path) -> list[str]:
    try:
        names = sorted(entry.name for entry in os.scandir(root) if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []
    return [name for name in names if not name.startswith(".") and name not in _LEFT_OUT and name.isprintable()][:_FOLDERS]


def _worth(names: Sequence[str], command: str) -> Iterator[tuple[str, str]]:
    for name in _WORTH:
        if name in names:
            yield name.capitalize(), command.format(name)


def _package(root: Path, text: str) -> Iterator[tuple[str, str]]:
    locks = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "bun.lock": "bun", "bun.lockb": "bun"}
    tool = next((tool for lock, tool in locks.items() if (root / lock).is_file()), "npm")
    yield "Install", f"{tool} install"
    try:
        scripts = json.loads(text).get("scripts")
    except (ValueError, AttributeError, RecursionError):
        return
    if isinstance(scripts, Mapping):
        yield from _worth([str(name) for name in scripts], f"{tool} run {{}}")


def _pyproject(root: Path, text: str) -> Iterator[tuple[str, str]]:
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return
    tools = data.get("tool")
    tools = tools if isinstance(tools, Mapping) else {}
    runner = next(
        (f"{tool} run " for tool, lock in (("uv", "uv.lock"), ("poetry", "poetry.lock")) if (root / lock).is_file()), ""
    )
    installs = {"uv run ": "uv sync", "poetry run ": "poetry install"}
    yield "Install", installs.get(runner, "pip install -e .")
    if "pytest" in tools or (root / "tests").is_dir():
        yield "Test", f"{runner}pytest"
    for tool, purpose, command in (
        ("ruff", "Lint", "ruff check ."),
        ("ruff", "Format", "ruff format ."),
        ("mypy", "Types", "mypy"),
    ):
        if tool in tools:
            yield purpose, f"{runner}{command}"


def _always(*commands: tuple[str, str]) -> Callable[[Path, str], Iterator[tuple[str, str]]]:
    return lambda root, text: iter(commands)


_READERS: Mapping[str, Callable[[Path, str], Iterator[tuple[str, str]]]] = {
    "scripts/test": _always(("Test", "scripts/test")),
    "Makefile": lambda root, text: _worth(_TARGET.findall(text), "make {}"),
    "justfile": lambda root, text: _worth(_RECIPE.findall(text), "just {}"),
    "pyproject.toml": _pyproject,
    "tox.ini": _always(("Test", "tox")),
    "noxfile.py": _always(("Test", "nox")),
    "package.json": _package,
    "Cargo.toml": _always(("Build", "cargo build"), ("Test", "cargo test"), ("Lint", "cargo clippy"), ("Format", "cargo fmt")),
    "go.mod": _always(("Build", "go build ./..."), ("Test", "go test ./..."), ("Format", "gofmt -w .")),
    "CMakeLists.txt": _always(("Build", "cmake -B build && cmake --build build"), ("Test", "ctest --test-dir build")),
    "pom.xml": _always(("Build", "mvn package"), ("Test", "mvn test")),
    "build.gradle": _always(("Build", "./gradlew build"), ("Test", "./gradlew test")),
    "build.gradle.kts": _always(("Build", "./gradlew build"), ("Test", "./gradlew test")),
    "mix.exs": _always(("Install", "mix deps.get"), ("Test", "mix test")),
    "Gemfile": _always(("Install", "bundle install")),
    "Rakefile": _always(("Test", "bundle exec rake")),
    "composer.json": _always(("Install", "composer install")),
}
"""Build files by their path in a project, with the function that reads commands from each."""
