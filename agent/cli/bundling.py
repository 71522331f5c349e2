"""The support bundle of `toolcrib doctor --bundle`: what a bug report needs, without secrets, names of people, or
conversations.
"""

from __future__ import annotations

import io
import json
import logging
import os
import platform
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent._version import __version__
from agent.cli.finding import CheckFinding
from agent.cli.scrubbing import Scrubber
from toolcrib.contract.errors import ConfigError, ToolcribError
from toolcrib.contract.private import Private
from tools.dispatch.bridge import run_async

if TYPE_CHECKING:
    from agent.config import Config

_OURS = ("toolcrib", "tools", "toolsets", "model_tools", "agent", "plugins")
_LINES = 200
"""Number of last lines of each log that the bundle includes."""
_LOG_BYTES = 256 * 1024
_README = """\
A support bundle of toolcrib. Secrets are removed ("[redacted]"), people, chats, hosts and addresses have other names
("person-1"), and free texts of the configuration are left out ("[text]"). Conversations of sessions were not read. Read the
bundle before you send it.
"""


class Bundle:
    """A bundle to write. Raises ToolcribError if the file exists. The bundle includes the last lines of the files ``logs``."""

    def __init__(self, path: Path, logs: Sequence[Path] = ()) -> None:
        self.path = path
        self._logs = logs
        if os.path.lexists(path):
            raise ToolcribError(f"{path} already exists: choose another file, or remove it")
        if not path.absolute().parent.is_dir():
            raise ToolcribError(f"{path.absolute().parent} is not a folder")
        self._records: list[str] = []

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Keep the lines that are logged within the block."""
        root, handler = logging.getLogger(), _Kept(self._records)
        before = root.level
        root.addHandler(handler)
        root.setLevel(min(before, logging.INFO))
        try:
            yield
        finally:
            root.removeHandler(handler)
            root.setLevel(before)

    def write(self, config_file: Path | None, project_dir: Path, findings: Sequence[CheckFinding]) -> Iterator[str]:
        """Write the bundle, and yield lines that list its content. Raises ToolcribError."""
        files = dict(self._files(config_file, project_dir, findings))
        yield f"{self.path} will contain:"
        for name, (data, words) in files.items():
            yield f"  {name:<14} {len(data):>8,} bytes  {words}"
        self._packed({name: data for name, (data, _) in files.items()})
        yield f"wrote {self.path} (readable by you alone). Read it before you send it: tar -xzOf {self.path} | less"

    def _files(
        self, config_file: Path | None, project_dir: Path, findings: Sequence[CheckFinding]
    ) -> Iterator[tuple[str, tuple[bytes, str]]]:
        from agent.config import config_path, load_config

        try:
            config = load_config(config_file)
        except ConfigError:
            config = None
        scrub = Scrubber(config, config_path(config_file))

        def made(data: str) -> bytes:
            return scrub.whole(data).encode("utf-8", "backslashreplace")

        def as_json(make: Callable[[], Any]) -> bytes:
            return made(json.dumps(_or_fault(make, scrub), ensure_ascii=False, indent=2) + "\n")

        yield "README.txt", (_README.encode(), "about this bundle")
        yield "about.json", (as_json(lambda: scrub.data(_about())), "versions and platform")
        told = [_finding(finding, scrub) for finding in findings]
        yield "findings.json", (as_json(lambda: told), f"{len(told)} findings of doctor")
        if config is not None:
            shown = scrub.config(config)
            yield "config.json", (as_json(lambda: shown), f"{len(shown)} settings that differ from their default")
            yield (
                "plugins.json",
                (as_json(lambda: scrub.data(_plugins(config, project_dir))), "names and versions of plugins"),
            )
            yield "store.json", (as_json(lambda: _numbers(config)), "numbers of rows and bytes, no texts")
        yield "doctor.log", (made(scrub.text("\n".join(self._records[-_LINES:])) + "\n"), "log of this run")
        for number, log in enumerate(self._logs, 1):
            yield f"log-{number}.txt", (made(scrub.text(_last_lines(log))), f"the last lines of {log}")

    def _packed(self, files: Mapping[str, bytes]) -> None:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as tar:
            for name, data in files.items():
                about = tarfile.TarInfo(f"toolcrib-bundle/{name}")
                about.size, about.mode, about.mtime = len(data), 0o600, int(time.time())
                tar.addfile(about, io.BytesIO(data))
        try:
            handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ToolcribError(f"{self.path} cannot be written: {error.strerror or error}") from error
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(packed.getvalue())
        except OSError as error:
            self.path.unlink(missing_ok=True)
            raise ToolcribError(f"{self.path} cannot be written: {error.strerror or error}") from error


class _Kept(logging.Handler):
    """A handler that keeps log lines of toolcrib, without arguments that may repeat a user's words."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__(logging.INFO)
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        if not record.name.split(".")[0].startswith(_OURS):
            return
        given = record.args
        if isinstance(given, tuple):
            given = tuple("(left out here)" if isinstance(one, Private) else one for one in given)
        try:
            text = str(record.msg) % given if given else str(record.msg)
        except (TypeError, ValueError):
            text = str(record.msg)
        self._lines.append(f"{record.levelname.lower()} {record.name}: {text}")


def _or_fault(make: Callable[[], Any], scrub: Scrubber) -> Any:
    """Return what ``make`` returns, or the reason if it fails: a part that fails must not keep the others out of the bundle."""
    try:
        return make()
    except Exception as error:  # noqa: BLE001 - as above
        return {"missing": scrub.text(f"{type(error).__name__}: {error}")}


def _finding(finding: CheckFinding, scrub: Scrubber) -> dict[str, Any]:
    told = finding.to_json()
    return {"id": told["id"], "level": told["level"], **scrub.data({name: told[name] for name in ("text", "fix", "repair")})}


def _about() -> dict[str, Any]:
    from agent.cli.program_checks import systems
    from tools.environments.rows import ROWS

    engines = [row.program.variable for row in ROWS.values() if row.program is not None and row.program.variable]
    return {
        "toolcrib": __version__,
        "installed": _installed(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "prefix": sys.prefix,
        "platform": " ".join((platform.system(), platform.release().partition("-")[0], platform.machine(), *platform.libc_ver())),
        "system": systems(),
        "terminal": {name: os.environ.get(name, "") for name in ("TERM", "COLORTERM", "LANG", "LC_ALL", "TZ")},
        "variables": sorted(name for name in os.environ if name.startswith(("TOOLCRIB_", "XDG_", *engines))),
        "root": os.geteuid() == 0,
        "libraries": _libraries(),
    }


def _installed() -> str:
    from importlib.metadata import PackageNotFoundError, distribution

    from agent.cli.installed import installer

    try:
        return installer(distribution("toolcrib"))
    except PackageNotFoundError:
        return "not installed"


def _libraries() -> dict[str, str | None]:
    """Return the versions of the libraries of toolcrib and its extras; None for missing ones."""
    from importlib.metadata import PackageNotFoundError, distribution

    from agent.cli.plugin_checks import named

    found: dict[str, str | None] = {}
    try:
        wanted = distribution("toolcrib").requires or []
    except PackageNotFoundError:
        return found
    for requirement in wanted:
        name = named(requirement)
        try:
            found[name] = distribution(name).version
        except PackageNotFoundError:
            found[name] = None
    return dict(sorted(found.items()))


def _plugins(config: Config, project_dir: Path) -> list[dict[str, Any]]:
    from agent.plugin_host.plugins import discover

    return [
        {"name": one.name, "source": one.source, "version": one.version, "enabled": one.enabled, "error": one.error}
        for one in discover(config, project_dir)
    ]


def _numbers(config: Config) -> dict[str, Any]:
    from agent.api import open_store
    from agent.store.counting import numbers_of

    store = open_store(config, late=True, looks=True)
    try:
        return run_async(numbers_of(store))
    finally:
        store.close()


def _last_lines(log: Path) -> str:
    """Return the last lines of a log. Raises ToolcribError."""
    try:
        with log.open("rb") as file:
            begin = max(0, file.seek(0, os.SEEK_END) - _LOG_BYTES)
            file.seek(begin)
            lines = file.read(_LOG_BYTES).decode("utf-8", "replace").splitlines(keepends=True)
    except OSError as error:
        raise ToolcribError(f"--log: {log} cannot be read: {error.strerror or error}") from error
    if begin:  # half a line may hold half a secret, which the redactor can't recognise
        del lines[:1]
    if lines and not lines[-1].endswith("\n"):
        lines[-1] = "(an incomplete line)\n"
    return "".join(lines[-_LINES:])
