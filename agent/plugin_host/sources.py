"""Sources of plugins, found without running any of the plugins' code."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from agent._version import __version__
from agent.config import Config
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import PluginError
from toolcrib.contract.paths import real_path, with_home

Source: TypeAlias = Literal["bundled", "user", "project", "pip", "missing"]
GROUP = "toolcrib"
"""The group of entry points that a distribution lists its plugins under."""

ALL = "*"
MAX_PROJECT_BYTES = 20_000_000
MAX_PROJECT_FILES = 5_000
_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]*"
_VERSION = r"""(?m)^__version__\s*(?::\s*\w+\s*)?=\s*["']([^"'\n]{1,40})["']"""


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """A plugin that was found, or requested. ``where`` is its path, or its distribution.

    ``trusted`` is False for a project's plugin that the user's configuration does not trust in its current state. ``error`` is
    the reason why it can't be loaded, and the remedy.
    """

    name: str
    source: Source
    where: str
    version: str = ""
    enabled: bool = False
    trusted: bool = True
    loaded: bool = False
    error: str = ""
    origin: Any = field(default=None, repr=False, compare=False)
    """Source for the loader: a Path, a ProjectFiles or an entry point."""
    platforms: tuple[str, ...] = ()
    """Platforms that it added."""


@dataclass(frozen=True, slots=True)
class ProjectFiles:
    """The Python files of a project's plugin as they were when the digest was made, so that only trusted code runs."""

    main: str
    files: Mapping[str, bytes]


def canonical(name: str) -> str:
    """Return a name in the form that is compared: ``My-Plugin`` and ``my_plugin`` are equal."""
    return name.casefold().replace("-", "_")


def plugin_folder(project_dir: Path) -> Path:
    return project_dir / ".toolcrib" / "plugins"


def project_digest(project_dir: str | Path) -> str:
    """Return the sha256 of the files in ``<project>/.toolcrib/plugins`` (names and contents), in hexadecimal.

    Raises PluginError if there is no such folder, if it can't be read completely, or if it contains links, devices, more than
    20 MB or more than 5,000 files.
    """
    return _digest(_snapshot(Path(project_dir)))


def bundled() -> Iterator[PluginInfo]:
    folder = Path(__file__).resolve().parents[2] / "plugins"
    yield from _in_folder(folder, "bundled", __version__)


def user(config: Config) -> Iterator[PluginInfo]:
    yield from _in_folder(config.folder / "plugins", "user", "")


def project(config: Config, project_dir: Path | None) -> Iterator[PluginInfo]:
    """Yield the project's plugins, trusted or not; one named ``*`` if the whole folder is refused."""
    if project_dir is None or not plugin_folder(project_dir).is_dir():
        return
    root = real_path(project_dir)
    wanted = {_resolved(path): digest for path, digest in config.plugins.trusted_projects.items()}.get(root)
    try:
        files = _snapshot(root)
    except PluginError as error:
        yield PluginInfo(ALL, "project", str(plugin_folder(root)), trusted=False, error=str(error))
        return
    digest = _digest(files)
    reason = "" if wanted == digest else _why_untrusted(config, root, digest, changed=wanted is not None)
    for name, main in _mains(files):
        text = files[main].decode("utf-8", "replace")
        where = str(plugin_folder(root) / main)
        yield PluginInfo(
            name, "project", where, _version(text), trusted=not reason, error=reason, origin=ProjectFiles(main, files)
        )


def pip() -> Iterator[PluginInfo]:
    from importlib.metadata import entry_points

    for entry in sorted(entry_points(group=GROUP), key=lambda found: found.name):
        dist = entry.dist
        yield PluginInfo(entry.name, "pip", dist.name if dist else entry.value, dist.version if dist else "", origin=entry)


def _in_folder(folder: Path, source: Source, version: str) -> Iterator[PluginInfo]:
    try:
        items = sorted(folder.iterdir())
    except FileNotFoundError:
        return
    except OSError as error:
        yield PluginInfo(folder.name, source, str(folder), error=f"{folder} can't be read: {error.strerror or error}")
        return
    for item in items:
        main = item / "__init__.py" if item.is_dir() else item
        name = item.name if item.is_dir() else item.stem
        if main.suffix != ".py" or name.startswith(("_", ".")) or not main.is_file():
            continue
        try:
            text = main.read_text("utf-8", "replace")
        except OSError as error:
            yield PluginInfo(name, source, str(item), error=f"{main} can't be read: {error.strerror or error}")
            continue
        yield PluginInfo(name, source, str(item), version or _version(text), error=_bad_name(name), origin=main)


def _bad_name(name: str) -> str:
    return "" if re.fullmatch(_NAME, name) else f"{name!r} is not a plugin name: use letters, digits, '_' and '-'"


def _version(text: str) -> str:
    match = re.search(_VERSION, text)
    return match[1] if match else ""


def _resolved(path: str) -> Path:
    return real_path(with_home(path))


def _why_untrusted(config: Config, root: Path, digest: str, *, changed: bool) -> str:
    what = "its plugins changed since you trusted them" if changed else "this project's plugins are not trusted"
    by_hand = f'{config.path}: plugins: {{trusted_projects: {{"{root}": {digest}}}}}'
    return f"{what}; read {plugin_folder(root)}, then run `toolcrib plugins trust` there (by hand: {by_hand})"


def _snapshot(project_dir: Path) -> dict[str, bytes]:
    """Return every file below the plugin folder, by its relative path, without bytecode, which never runs."""
    folder = plugin_folder(project_dir)
    for part in (folder.parent, folder):
        if part.is_symlink():
            raise PluginError(f"{part} is a link; a project's plugins must be in the project itself")
    if not folder.is_dir():
        raise PluginError(f"{folder} is not a folder")
    files: dict[str, bytes] = {}
    left = MAX_PROJECT_BYTES
    for parent, folders, names in os.walk(folder, onerror=_refuse):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in [*names, *folders]:
            path = Path(parent, name)
            if path.is_symlink():
                raise PluginError(f"{path} is a link; a project's plugins must be in the project itself")
        for name in sorted(names):
            path = Path(parent, name)
            data = _read_regular(path, left)
            left -= len(data)
            files[path.relative_to(folder).as_posix()] = data
            if left < 0 or len(files) > MAX_PROJECT_FILES:
                raise PluginError(f"{folder} is too large: at most {MAX_PROJECT_FILES:,} files and {MAX_PROJECT_BYTES:,} bytes")
    return files


def _refuse(error: OSError) -> None:
    raise PluginError(f"{error.filename} can't be read: {error.strerror}") from error


def _read_regular(path: Path, limit: int) -> bytes:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise PluginError(f"{path} can't be read: {error.strerror or error}") from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise PluginError(f"{path} is not a regular file")
    with os.fdopen(handle, "rb") as file:
        return file.read(limit + 1)


def _digest(files: Mapping[str, bytes]) -> str:
    total = hashlib.sha256(b"toolcrib project plugins 1\n")
    for name in sorted(files):
        encoded = os.fsencode(name)
        total.update(b"%d %s %d\n" % (len(encoded), encoded, len(files[name])))
        total.update(files[name])
    return total.hexdigest()


def _mains(files: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    """Yield each plugin's name and main file, for single modules and packages."""
    for path in sorted(files):
        head, slash, rest = path.partition("/")
        name = head if slash else path.removesuffix(".py")
        if (rest == "__init__.py" or (not slash and path.endswith(".py"))) and re.fullmatch(_NAME, name):
            yield name, path
