"""Fixtures of every test: a home of its own, and a check at the end for leftovers."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib.metadata
import importlib.util
import inspect
import itertools
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from tests.forks import Forks
    from tools.environments.ssh.target import Wish

SAMPLE = "TOOLCRIB_SAMPLE"
"""If this variable is set, as by `scripts/test`, a run without paths tries a sample of the long series (tests/series.py), and
hypothesis 40 examples of a test. Otherwise it tries its usual 100, and in `scripts/soak properties` 500.
"""

# No database: a run leaves no file behind. No deadline: no test here measures time.
for _profile, _examples in {"toolcrib": 40 if os.environ.get(SAMPLE) else 100, "soak": 500}.items():
    settings.register_profile(_profile, database=None, deadline=None, derandomize="CI" in os.environ, max_examples=_examples)
settings.load_profile("toolcrib")

FULL_RUN_FOLDERS = ("e2e", "sdk", "benchmarks", "tools/environments/docker", "tools/environments/ssh")
"""Folders that `scripts/test --fast` skips: their tests need a service, a terminal or the SDKs, or measure."""

FULL_RUN_GROUPS = {"docker", "ssh", "bubblewrap"}
"""Groups of tests (xdist_group) that it skips: each opens a container, another host or a sandbox."""

FULL_RUN_FIXTURES = {
    "engine", "sshd", "root_sshd", "start_sshd", "postgres", "own_postgres", "synapse", "prosody", "ngircd",
    "strict_ngircd", "mail_servers", "toolcrib",
}  # fmt: skip
"""Fixtures that start a service, or the program on a terminal: it skips the tests that use them."""

WITH_DEFAULTS = (
    "e2e", "docs", "house", "agent/cli/setup", "agent/reference", "agent/cli/test_confirming",
    "agent/cli/test_sandbox_checks", "agent/cli/test_sandbox_words", "agent/test_backend", "agent/test_config.",
    "agent/test_config_keys", "agent/test_config_layers", "agent/policy/test_confirmation", "agent/test_sandbox_trial",
    "agent/test_snapshots", "agent/cli/commands/test_call", "agent/cli/commands/test_chat",
    "agent/cli/commands/test_completion", "agent/cli/commands/test_config", "agent/cli/commands/test_docs",
    "agent/cli/commands/test_doctor", "agent/cli/commands/test_env", "agent/cli/commands/test_explain",
    "agent/cli/commands/test_mcp", "agent/mcp",
    "agent/cli/commands/test_run", "agent/cli/commands/test_sandbox", "agent/cli/commands/test_setup",
    "agent/cli/commands/test_undo",
)  # fmt: skip
"""Tests that run with the default configuration, besides tests marked ``defaults`` and all programs that tests start."""

_KEPT = {"TOOLCRIB_CORPORA"}
_HOMES = itertools.count()
_UNTOUCHED: list[Path] = []
"""A home without written files."""
_SECRET_ENDINGS = ("_API_KEY", "_TOKEN", "_SECRET", "_PASSWORD")


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test in its own event loop."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


def _beside(name: str) -> ModuleType:
    """Import ``NAME.py`` below this folder, which is not a package."""
    spec = importlib.util.spec_from_file_location(Path(name).name, Path(__file__).parent / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pytest_configure(config: pytest.Config) -> None:
    if getattr(config.option, "cov_source", None):  # set by pytest-cov; without coverage, a debugger can trace every case
        config.pluginmanager.register(_beside("measuring"))


_FAST = _beside("fast") if os.environ.get("TOOLCRIB_FAST") else None


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out the slow files in the fast run."""
    return True if _FAST and collection_path in _FAST.slow_files() else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Iterator[None]:
    """Exclude objects that live to the end from garbage collection: thousands of tests with their data.

    Each collection would visit a million objects and pause the whole process, and tests and a gateway trigger collections. The
    little garbage among these objects is kept too: a search for it takes half a second in each process.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before xdist's own hook, which reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take samples of long series, and mark as ``full`` the tests that the fast run skips, if they don't have that mark."""
    if os.environ.get(SAMPLE):
        items[:], left = _beside("series").sample(items)
        config.hook.pytest_deselected(items=left)
    if _FAST:
        items[:], left = _FAST.first_cases(items)
        config.hook.pytest_deselected(items=left)
    tests = f"{Path(__file__).parent}/"
    folders = tuple(f"{tests}{name}/" for name in FULL_RUN_FOLDERS)
    for item in items:
        path = str(item.path)
        if path.startswith(f"{tests}house/"):
            item.add_marker(pytest.mark.xdist_group("house"))  # so that one process reads all the sources, not each
        groups = {mark.args[0] for mark in item.iter_markers("xdist_group")}
        fixtures = set(getattr(item, "fixturenames", ()))
        if fixtures & {"synapse", "strict_synapse"}:
            item.add_marker(pytest.mark.xdist_group("synapse"))  # so that one process starts a homeserver, not each
        if "with_sdk" in fixtures:
            item.add_marker(pytest.mark.xdist_group("sdk"))  # so that each SDK runs once for all checks
        if fixtures & {"prosody", "ngircd", "strict_ngircd"}:
            item.add_marker(pytest.mark.xdist_group("prosody" if "prosody" in fixtures else "ngircd"))
        params = item.callspec.params.values() if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ()
        if path.startswith(folders) or groups & FULL_RUN_GROUPS or fixtures & FULL_RUN_FIXTURES or "postgres" in params:
            item.add_marker("full")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Return xdist's own scheduler for groups, changed to forget finished work.

    xdist recounts all work that a worker ever got after each test: for 22,000 tests that takes half a minute of processor time.
    """
    from xdist.scheduler import LoadGroupScheduling

    class Scheduling(LoadGroupScheduling):
        def _reschedule(self, node: Any) -> None:
            work = self.assigned_work[node]
            for scope in [scope for scope, tests in work.items() if all(tests.values())]:
                del work[scope]
            super()._reschedule(node)

    return Scheduling(config, log) if config.getvalue("dist") == "loadgroup" else None


@pytest.fixture(scope="session", autouse=True)
def _leaves_nothing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Put temporary files into a folder of this run, and check at its end that the folder and the list of our processes are
    empty.

    Files that `toolcrib call` keeps because it printed their paths are deleted with the folder.
    """
    base = tmp_path_factory.getbasetemp()
    folder = base / "tmp"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        patch.setattr(tempfile, "tempdir", None)
        patch.setattr(importlib.metadata, "entry_points", _beside("installed").entry_points)
        with _beside("stores").copied(base / "stores"):
            yield
        give_up = time.monotonic() + 3  # the last test's processes may still be ending, and their watchdogs deleting
        while ((running := sorted(_processes_of(base))) or _left_in(folder)) and time.monotonic() < give_up:
            time.sleep(0.05)
        left = _left_in(folder)
    assert not left, f"temporary folders left behind: {left}"
    assert not running, f"processes left behind: {running}"


def _left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("toolcrib") and "-kept-" not in path.name)


def _processes_of(base: Path) -> Iterator[str]:
    """Return living children of this process, and processes that use this run's folders or have them in their environment."""
    mark = os.fsencode(str(base) + os.sep)
    for process in Path("/proc").glob("[0-9]*"):
        try:
            state, parent = (process / "stat").read_text().rpartition(")")[2].split()[:2]
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            traces = (process / "environ").read_bytes() + os.fsencode((process / "cwd").readlink()) + b"/"
        except OSError:
            continue
        if state != "Z" and int(process.name) != os.getpid() and (int(parent) == os.getpid() or mark in traces):
            yield f"{process.name}: {command}"


@pytest.fixture(autouse=True)
def _own_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give each test its own home, so that no test reads or writes the user's files or keys.

    A home that a test wrote to is never used again: Python identifies compiled modules by path, size and the second of their
    last change, and bytecode may be stored elsewhere (PYTHONPYCACHEPREFIX), so a test could get the plugin of an earlier one.
    If a test wrote nothing to its home, as most tests do, the next test gets the same home.
    """
    home = _UNTOUCHED.pop() if _UNTOUCHED else tmp_path_factory.mktemp(f"home{next(_HOMES)}", numbered=False)
    made = home.stat().st_ctime_ns
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if (name.startswith("TOOLCRIB_") and name not in _KEPT) or name.endswith(_SECRET_ENDINGS):
                patch.delenv(name)
        pip_cache = Path.home() / ".cache" / "pip"
        if pip_cache.is_dir():
            patch.setenv("PIP_CACHE_DIR", os.environ.get("PIP_CACHE_DIR", str(pip_cache)))
        patch.setenv("HOME", str(home))
        for name, folder in (
            ("XDG_CONFIG_HOME", ".config"),
            ("XDG_STATE_HOME", ".local/state"),
            ("XDG_DATA_HOME", ".local/share"),
            ("XDG_CACHE_HOME", ".cache"),
        ):
            patch.setenv(name, str(home / folder))
        yield
    if home.is_dir() and home.stat().st_ctime_ns == made and not any(home.iterdir()):
        _UNTOUCHED.append(home)
    else:
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(autouse=True)
def _unprotected(request: pytest.FixtureRequest) -> Iterator[None]:
    """Disable sandbox and snapshots unless the configuration sets them, in tests of other things.

    Most tests check questions, output and stored data and need no sandbox, but each would start one.
    """
    from agent.config import _layers

    _layers._persons.cache_clear()  # homes are used again, so that a default configuration may be that of another test
    below = request.path.relative_to(Path(__file__).parent).as_posix()
    if below.startswith(WITH_DEFAULTS) or request.node.get_closest_marker("defaults") is not None:
        yield
        return
    from agent.config import SandboxSettings, SnapshotsConfig

    with pytest.MonkeyPatch.context() as patch:
        for settings, off in ((SandboxSettings, {"mode": "none"}), (SnapshotsConfig, {"enabled": False})):
            for _ in range(6):  # by then the class is complete, and keeps a patched __init__
                settings()
            patch.setattr(settings, "__init__", _with_values(settings.__init__, off))
        yield


def _with_values(init: Callable[..., None], values: Mapping[str, object]) -> Callable[..., None]:
    def initialize(self: object, *args: Any, **given: Any) -> None:
        init(self, *args, **(given if args else {**values, **given}))

    return initialize


@pytest.fixture(scope="session")
def corpora() -> Path:
    """Return the folder of recorded cases (approval, text, wire)."""
    named = os.environ.get("TOOLCRIB_CORPORA", "")
    if not named or not Path(named).is_dir():
        pytest.skip("set TOOLCRIB_CORPORA to the folder of recorded cases")
    return Path(named)


@pytest.fixture
def no_files() -> Callable[..., contextlib.AbstractContextManager[None]]:
    """Return ``no_files(spare=0)``: within it, this process can open only ``spare`` more files."""

    @contextlib.contextmanager
    def exhausted(spare: int = 0) -> Iterator[None]:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        used = max(int(one.name) for one in Path("/proc/self/fd").iterdir())
        held: list[int] = []
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + 1, hard))
        try:
            with contextlib.suppress(OSError):
                while True:
                    held.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            for _ in range(spare):
                os.close(held.pop())
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for handle in held:
                os.close(handle)

    return exhausted


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the project's folder."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture
def python() -> str:
    """Return the interpreter that runs the tests, for tests that start a new one."""
    return sys.executable


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """Start toolcrib by forks of a process that has loaded it."""
    from tests.forks import Forks

    with Forks() as forks:
        yield forks


@pytest.fixture
def today() -> str:
    """Return today's date. The date stays the same for at least half a minute. Tests request it first."""
    now = time.localtime()
    left = 86_400 - (now.tm_hour * 60 + now.tm_min) * 60 - now.tm_sec
    if left < 30:
        time.sleep(left + 1)
    return time.strftime("%Y-%m-%d")


@pytest.fixture
def agree() -> Callable[[], None]:
    """Return a function that accepts the present configuration as the user."""

    def agree() -> None:
        from agent.config import load_config
        from agent.policy.confirmation import confirm

        confirm(load_config(profile=""))

    return agree


@pytest.fixture
def config(agree: Callable[[], None]) -> Callable[[str], Path]:
    """Return a function that writes the user's configuration; if toolcrib was started before, the user accepts it too."""

    def write(text: str) -> Path:
        from toolcrib import ConfigError

        file = Path(os.environ["XDG_CONFIG_HOME"]) / "toolcrib" / "config.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        if (Path(os.environ["XDG_STATE_HOME"]) / "toolcrib").exists():
            with contextlib.suppress(ConfigError):  # a broken one can't be confirmed
                agree()
        return file

    return write


@pytest.fixture
def user_plugin(config: Callable[[str], Path]) -> Callable[[str, str], Path]:
    """Return a function that writes a plugin to the user's own folder and enables it."""

    def write(name: str, source: str) -> Path:
        file = config(f"plugins: {{enabled: [{name}]}}\n").parent / "plugins" / f"{name}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(source)
        return file

    return write


# -- a docker engine and ssh servers of our own: started when first asked for, ended with the tests ---------------------


@dataclass
class Engine:
    """A docker engine of the tests. ``options`` open an environment in it."""

    process: subprocess.Popen[str]
    host: str
    image: str

    @property
    def options(self) -> dict[str, Any]:
        return {"image": self.image, "host": self.host, "mounts": ["/usr:/usr:ro"]}

    def control(self, word: str) -> None:
        """Send ``kill`` or ``start``."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "ok\n"


@pytest.fixture(scope="session")
def engine(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Fail if the engine should run (root on Debian, as in CI) and can't; skip elsewhere."""
    path = root / "tests" / "infra" / "dockerd.py"
    why = _beside("infra/dockerd").missing()
    if why and (os.geteuid() != 0 or not Path("/etc/debian_version").exists()):
        pytest.skip(f"no docker engine: {why}")
    assert not why, f"no docker engine: {why}"
    process = subprocess.Popen([sys.executable, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        word, _, rest = process.stdout.readline().strip().partition(" ")
        assert word == "ready", f"the docker engine did not start: {rest}"
        host, _, image = rest.partition(" ")
        yield Engine(process, f"unix://{host}", image)
    finally:
        process.communicate(timeout=120)


_SCRIPT = Path(__file__).parent / "infra" / "sshd.py"
_LIMIT = 60.0


class Sshd:
    """A server of tests/infra/sshd.py."""

    def __init__(self, *options: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(_SCRIPT), *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        word, _, rest = self._answer().partition(" ")
        if word != "ready":
            self.close()
            if word == "missing" and (os.geteuid() != 0 or not Path("/etc/debian_version").exists()):
                pytest.skip(f"no ssh server can run here: {rest}")
            pytest.fail(f"the ssh server did not start: {rest or word}")
        folder, self.host, port, self.user = rest.split()
        self.folder, self.port = Path(folder), int(port)

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def control(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        assert self._answer() == "ok"

    @property
    def options(self) -> dict[str, Any]:
        """Options that open an environment on the server."""
        keys = {"identity_file": str(self.folder / "id"), "known_hosts": str(self.folder / "known_hosts")}
        return {"host": self.host, "port": self.port, "user": self.user, **keys}

    def wish(self, **options: object) -> Wish:
        from tools.environments.ssh.target import Wish

        return Wish(**{**self.options, **options})

    def pids(self, command: str = "") -> list[int]:
        """Return the account's running processes whose command line begins with ``command``."""
        uid = (self.folder / "home").stat().st_uid
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, IndexError):
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                alive = (folder / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
                if alive and folder.stat().st_uid == uid and line.startswith(command):
                    found.append(int(folder.name))
        return found

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait(_LIMIT)
        self._process.stdout.close()


@pytest.fixture(scope="session")
def sshd() -> Iterator[Sshd]:
    server = Sshd()
    yield server
    server.close()


@pytest.fixture(scope="session")
def root_sshd() -> Iterator[Sshd]:
    """A server whose files these tests can write from both sides."""
    server = Sshd("--root")
    yield server
    server.close()


@pytest.fixture
def start_sshd() -> Iterator[Callable[..., Sshd]]:
    with contextlib.ExitStack() as stack:

        def start(*options: str) -> Sshd:
            server = Sshd(*options)
            stack.callback(server.close)
            return server

        yield start


class PostgresServer:
    """A server of tests/infra/postgres.py."""

    def __init__(self, *options: str) -> None:
        script = Path(__file__).parent / "infra" / "postgres.py"
        self._process = subprocess.Popen(
            [sys.executable, str(script), *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        word, _, rest = self._answer().partition(" ")
        if word != "ready":
            self.close()
            if word == "missing" and (os.geteuid() != 0 or not Path("/etc/debian_version").exists()):
                pytest.skip(f"no PostgreSQL server can run here: {rest}")
            pytest.fail(f"the PostgreSQL server did not start: {rest or word}")
        self.url, _, _ = rest.partition(" ")
        self._numbers = itertools.count()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def control(self, command: str) -> None:
        """Send ``kill``, ``stop``, ``start``, ``hang`` or ``go on``.  (quoted)"""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        assert self._answer().startswith("ok")

    def new_database(self, more: str = "") -> str:
        """Return the URL of an empty database; ``more`` is SQL for its creation."""
        import psycopg

        name = f"t{next(self._numbers)}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} {more}".encode())
        return f"{self.url.rpartition('/')[0]}/{name}"

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait(_LIMIT)
        self._process.stdout.close()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server for tests that do not change it."""
    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """A server for one test, which may end it."""
    server = PostgresServer()
    yield server
    server.close()


@dataclass(frozen=True)
class ProjectCopy:
    """A copy of the project's sources in ``root``, to change."""

    root: Path

    def insert(self, path: str, before: str, text: str) -> None:
        """Insert ``text`` before ``before``, which must occur once in the file."""
        file = self.root / path
        source = file.read_text("utf-8")
        assert source.count(before) == 1, (path, before, source.count(before))
        file.write_text(source.replace(before, text + before), "utf-8")

    def write(self, path: str, text: str) -> None:
        (self.root / path).write_text(text, "utf-8")

    def run(self, code: str) -> str:
        """Run a program of the copy in a new interpreter, and return its output."""
        env = os.environ | {"PYTHONPATH": str(self.root), "PYTHONPYCACHEPREFIX": "", "PYTHONDONTWRITEBYTECODE": "1"}
        line = [sys.executable, "-c", code]
        done = subprocess.run(line, cwd=self.root.parent, env=env, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def project_copy(root: Path, tmp_path: Path) -> ProjectCopy:
    """A copy of the sources, to try what an addition requires."""
    copy = tmp_path / "copy"
    _beside("compiled").copy_sources(("agent", "tools", "toolcrib", "plugins", "model_tools.py", "toolsets.py"), root, copy)
    return ProjectCopy(copy)
