"""The wheel and the sdist: their contents, and the program in an environment with only the wheel and its dependencies."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Callable
from email import message_from_bytes
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from agent._version import __version__

pytestmark = [pytest.mark.e2e, pytest.mark.untraced, pytest.mark.xdist_group("distribution")]
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def declared(root: Path) -> dict[str, Any]:
    """Return the contents of pyproject.toml."""
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))


def _build(source: Path, kind: str, target: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(target)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    (made,) = target.iterdir()
    return made


@pytest.fixture(scope="module")
def sdist(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _build(root, "sdist", tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the sdist."""
    source = tmp_path_factory.mktemp("source")
    with tarfile.open(sdist) as archive:
        archive.extractall(source, filter="data")
    return _build(source / f"toolcrib-{__version__}", "wheel", tmp_path_factory.mktemp("wheel"))


def _tracked(root: Path, *folders: str) -> set[str]:
    done = subprocess.run(["git", "ls-files", *folders], cwd=root, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        pytest.skip("no git repository")
    return {name for name in done.stdout.splitlines() if (root / name).exists()}


CODE = ("toolcrib", "tools", "toolsets.py", "model_tools.py", "agent", "plugins")


def test_the_sdist_is_the_whole_project(sdist: Path, root: Path) -> None:
    begin = f"toolcrib-{__version__}/"
    with tarfile.open(sdist) as archive:
        names = {name.removeprefix(begin) for name in archive.getnames()}
        assert all(name.startswith(begin) for name in archive.getnames())
    folders = (*CODE, "tests", "benchmarks", "docs", "examples", "scripts", "stubs")
    assert sorted(_tracked(root, *folders) - names) == []
    assert {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "pyproject.toml", "PKG-INFO"} <= names
    assert sorted(name for name in names if name.endswith(".pyc") or name.startswith((".venv", ".git/", "dist/"))) == []


def test_the_wheel_has_the_code_its_types_and_manual_and_nothing_else(wheel: Path, root: Path) -> None:
    info, data = f"toolcrib-{__version__}.dist-info", f"toolcrib-{__version__}.data/data"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        assert archive.read(f"{info}/entry_points.txt").decode().split("\n")[:2] == [
            "[console_scripts]",
            "toolcrib = agent.cli:main",
        ]
    assert {name.partition("/")[0] for name in names} == {
        *CODE, "config.example.yaml", "toolsets-stubs", "model_tools-stubs", info, f"toolcrib-{__version__}.data",
    }  # fmt: skip
    assert sorted(_tracked(root, *CODE) - names) == []
    assert sorted(name for name in names if re.search(r"(^|/)(tests?|conftest|test_\w+|__pycache__)(/|\.py)|\.pyc$", name)) == []
    assert {f"{package}/py.typed" for package in ("toolcrib", "tools", "agent")} <= names
    assert {"toolsets-stubs/__init__.pyi", "model_tools-stubs/__init__.pyi", f"{info}/licenses/LICENSE"} <= names
    pages = {name for name in names if name.startswith(f"{data}/")}
    assert pages == {f"{data}/share/man/man1/{path.name}" for path in (root / "docs" / "man").glob("*.1")}


def test_the_metadata_are_such_as_an_index_takes(wheel: Path, sdist: Path, root: Path, declared: Any) -> None:
    begin = f"toolcrib-{__version__}"
    with zipfile.ZipFile(wheel) as archive, tarfile.open(sdist) as source:
        raw = archive.read(f"{begin}.dist-info/METADATA")
        told = source.extractfile(f"{begin}/PKG-INFO")
        assert told is not None
        assert told.read() == raw
    metadata = Metadata.from_email(raw, validate=True)
    assert (metadata.name, str(metadata.version)) == ("toolcrib", __version__)
    assert str(metadata.requires_python) == declared["project"]["requires-python"]
    assert (metadata.license_expression, metadata.license_files) == ("Apache-2.0", ["LICENSE"])
    assert metadata.provides_extra is not None
    assert {canonicalize_name(one) for one in metadata.provides_extra} == set(declared["project"]["optional-dependencies"])
    assert metadata.description_content_type == "text/markdown"
    assert metadata.description is not None
    assert metadata.description.strip() == (root / "README.md").read_text(encoding="utf-8").strip()
    assert metadata.summary
    assert "\n" not in metadata.summary


# -- the wheel in an environment of its own ------------------------------------------------------------------------------


def _link(requirements: list[Requirement], site: Path) -> None:
    """Link installed packages and their dependencies into a folder. Nothing is downloaded."""
    waiting, seen = [*requirements], set()
    while waiting:
        wanted = waiting.pop()
        for extra in ("", *wanted.extras):
            key = canonicalize_name(wanted.name), extra
            if key in seen:
                continue
            seen.add(key)
            try:
                there = distribution(wanted.name)
            except PackageNotFoundError:
                pytest.skip(f"{wanted.name} is not installed here")
            needs = map(Requirement, there.requires or ())
            waiting += [one for one in needs if one.marker is None or one.marker.evaluate({"extra": extra})]
            tops = {Path(file.parts[0]) for file in there.files or () if file.parts[0] not in ("..", "__pycache__", "/")}
            for top in tops:
                if not (site / top).is_symlink():
                    (site / top).symlink_to(Path(str(there.locate_file(""))).resolve() / top)


def _needs(wheel: Path, extra: str) -> list[Requirement]:
    """Return the wheel's dependencies, or the packages that an extra adds."""
    with zipfile.ZipFile(wheel) as archive:
        metadata = message_from_bytes(archive.read(f"toolcrib-{__version__}.dist-info/METADATA"))
    found = [Requirement(str(text)) for text in metadata.get_all("Requires-Dist", [])]
    plain = [one for one in found if one.marker is None or one.marker.evaluate({"extra": ""})]
    if not extra:
        return plain
    return [one for one in found if one not in plain and one.marker is not None and one.marker.evaluate({"extra": extra})]


def _installed() -> dict[str, str]:
    """Return variables that let Python use the bytecode that pip wrote beside the code, and write none."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONPYCACHEPREFIX")}
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel, installed by pip, and its dependencies without any extra."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    _link(_needs(wheel, ""), site)
    options = ["--no-deps", "--no-index", "--disable-pip-version-check", "--quiet"]
    command = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", *options, str(wheel)]
    done = subprocess.run(command, env=_installed(), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def with_extra(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """``with_extra("slack")`` returns a folder with the packages that this extra adds."""
    folders: dict[str, Path] = {}

    def linked(extra: str) -> Path:
        if extra not in folders:
            folder = tmp_path_factory.mktemp(f"with-{extra}")
            _link(_needs(wheel, extra), folder)
            folders[extra] = folder
        return folders[extra]

    return linked


@pytest.fixture
def run(environment: Path, tmp_path: Path) -> Run:
    """``run("tools", stdin="...", path=FOLDER)`` runs the installed program, with FOLDER's packages beside its own."""

    def start(*args: str, stdin: str = "", path: Path | None = None) -> subprocess.CompletedProcess[str]:
        env = _installed() | ({"PYTHONPATH": str(path)} if path else {})
        command = [str(environment / "bin" / "toolcrib"), *args]
        return subprocess.run(
            command, input=stdin, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False
        )

    return start


def test_the_program_works_with_nothing_but_the_wheel(run: Run, environment: Path) -> None:
    assert run("--version").stdout == f"toolcrib {__version__}\n"
    tools = run("tools")
    assert (tools.returncode, tools.stderr) == (0, "")
    assert "terminal" in tools.stdout
    chat = run("chat", stdin='@terminal {"command": "echo fine"}\n')
    assert "fine" in chat.stdout.splitlines(), chat.stderr
    doctor = run("doctor")
    assert doctor.returncode == 0, doctor.stdout
    assert "its files as released" in doctor.stdout
    assert (environment / "share" / "man" / "man1" / "toolcrib.1").is_file()


# -- extras --------------------------------------------------------------------------------------------------------------

PLATFORM = "plugins: {{enabled: [{name}]}}\nplatforms: {{{name}: {{allowed_users: [me], settings: {settings}}}}}\n"
MAIL = (
    '{address: bot@example.org, imap_url: "imap://127.0.0.1:1", smtp_url: "smtp://127.0.0.1:1", authserv_id: mx,'
    ' link_url: "http://127.0.0.1:1/a", link_listen: "127.0.0.1:9"}'
)
SETTINGS = {
    "discord": "{}",
    "email": MAIL,
    "irc": '{server: "127.0.0.1:1", nick: crib, channels: "#a"}',
    "matrix": '{homeserver: "http://127.0.0.1:1", user: "@bot:example.org"}',
    "slack": "{}",
    "telegram": "{}",
    "webhook": '{url: "http://127.0.0.1:1", port: "0"}',
    "xmpp": "{user: bot@example.org}",
}
GATEWAY = ("gateway", "run", "--base-url", "http://127.0.0.1:1", "--model", "m")
WANTED: dict[str, tuple[str, str, tuple[str, ...]]] = {
    **{
        name: ("gateway" if name == "webhook" else name, PLATFORM.format(name=name, settings=settings), GATEWAY)
        for name, settings in SETTINGS.items()
    },
    "gateway.port": ("gateway", "gateway: {port: 9}\n" + PLATFORM.format(name="console", settings="{socket: HOME/s}"), GATEWAY),
    "otel": ("otel", "plugins: {enabled: [otel], settings: {otel: {endpoint: 'http://127.0.0.1:1'}}}\n", ("call", "todo", "{}")),
    "docs": ("docs", "", ("docs", "--no-browser")),
    "prices": ("prices", "run: {max_cost: 1}\n", ("run", "--base-url", "http://127.0.0.1:1", "--model", "m", "hi")),
    "socks": ("socks", "", ("run", "--base-url", "http://model.test/v1", "--model", "m", "hi")),
    "mcp": ("mcp", "mcp: {servers: {far: {url: 'http://127.0.0.1:1/mcp'}}}\n", ("mcp", "test", "far")),
    "postgres": ("postgres", 'store: {url: "postgresql://127.0.0.1:1/none"}\n', ("sessions",)),
}
"""Each optional feature: its extra, a configuration that uses it, and the command that needs it. No token is set."""
MADE_OF_OTHERS = {
    "all": [name for name in WANTED if name not in ("email", "matrix")],
    "matrix-e2e": ["matrix"],
}
"""Extras that consist of others. tests/plugins/matrix/test_keys.py tests the message in a room without matrix-e2e."""
BRINGS = {extra: [name for name, one in WANTED.items() if one[0] == extra] for extra, _, _ in WANTED.values()} | MADE_OF_OTHERS


def test_each_extra_is_tried(declared: Any) -> None:
    assert set(BRINGS) == set(declared["project"]["optional-dependencies"])


def _asked_for(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the lines that name a package to install."""
    said = done.stdout + done.stderr
    assert "Traceback" not in said
    assert "ModuleNotFoundError" not in said
    return [line.strip() for line in said.splitlines() if "pip install" in line]


@pytest.fixture
def wants(config: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[str, tuple[str, ...]]]:
    """``wants("slack")`` configures the feature, and returns the line that names its extra, and the command."""

    def configure(what: str, text: str = "") -> tuple[str, tuple[str, ...]]:
        extra, own, command = WANTED[what]
        config((text or own).replace("HOME", os.environ["HOME"]))
        monkeypatch.setenv("WEBHOOK_SECRET", "x" * 40)
        if what == "socks":
            monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
        return f"pip install 'toolcrib[{extra}]'", command

    return configure


@pytest.mark.parametrize("what", WANTED)
def test_without_its_extra_one_line_says_what_to_install(run: Run, wants: Any, what: str) -> None:
    words, command = wants(what)
    assert [words in one for one in _asked_for(run(*command))] == [True]


TOGETHER = (*SETTINGS, "gateway.port", "otel")
"""Features that one configuration can have. doctor names the extras of all of them; the others are no part of it."""


def _together(*left: str) -> str:
    """Return a configuration of these features, but for the ones ``left`` out."""
    kept = {name: settings for name, settings in SETTINGS.items() if name not in left}
    platforms = [f"  {name}: {{allowed_users: [me], settings: {settings}}}\n" for name, settings in kept.items()]
    return (
        f"gateway: {{port: 9}}\nplatforms:\n{''.join(platforms)}"
        f"plugins:\n  enabled: [{', '.join(kept)}, otel]\n  settings: {{otel: {{endpoint: 'http://127.0.0.1:1'}}}}\n"
    )


def test_without_extras_a_doctor_has_a_line_for_each(run: Run, wants: Any) -> None:
    wants("webhook", _together())
    asked = re.findall(r"pip install 'toolcrib\[(.*?)\]'", "\n".join(_asked_for(run("doctor"))))
    assert sorted(asked) == sorted({WANTED[what][0] for what in TOGETHER})
    for what in ("gateway.port", "postgres"):
        words, _ = wants(what)
        assert [words in one for one in _asked_for(run("doctor"))] == [True]


@pytest.mark.parametrize(
    ("extra", "what"),
    [(extra, what) for extra, brought in BRINGS.items() for what in brought if extra != "all" or what not in TOGETHER],
)
def test_with_an_extra_alone_nothing_more_is_asked_for(
    run: Run, wants: Any, with_extra: Callable[[str], Path], extra: str, what: str
) -> None:
    path = with_extra(extra)
    _, command = wants(what)
    notes = ["fix: pip install 'toolcrib[matrix-e2e]'"] if extra == "matrix" else []
    if extra != "all":
        assert _asked_for(run("doctor", path=path)) == notes
    if command != GATEWAY and what != "docs":  # these would run until they are stopped
        assert _asked_for(run(*command, path=path)) == []


def test_with_all_extras_nothing_more_is_asked_for(run: Run, wants: Any, with_extra: Callable[[str], Path]) -> None:
    _, command = wants("otel", _together("email"))
    assert _asked_for(run("doctor", path=with_extra("all"))) == []
    assert _asked_for(run(*command, path=with_extra("all"))) == []


@pytest.mark.parametrize(
    ("what", "left_out"),
    [
        *(("email", name) for name in ("aioimaplib", "aiosmtplib", "starlette", "uvicorn")),
        *(("webhook", name) for name in ("starlette", "uvicorn")),
        *(("gateway.port", name) for name in ("prometheus-client", "uvicorn")),
        *(("slack", name) for name in ("aiohttp", "slack-bolt")),
    ],
)
def test_with_a_part_of_its_extra_one_line_says_what_to_install(
    run: Run, wants: Any, wheel: Path, what: str, left_out: str, tmp_path: Path
) -> None:
    """Some libraries of the extra are installed already, for example by another extra."""
    words, command = wants(what)
    _link([one for one in _needs(wheel, WANTED[what][0]) if one.name != left_out], tmp_path)
    lines = _asked_for(run(*command, path=tmp_path))
    assert [words in one for one in lines] == [True], lines
