"""A local environment in a folder of its own, real ssh servers, and short ways to use them."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from toolcrib import Environment, ExecOutcome, ExecRequest
from tools.environments import open_environment
from tools.environments.ssh.target import Wish


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Free of links, whatever the system's temporary folder is."""
    folder = tmp_path.resolve() / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def env(folder: Path) -> Iterator[Environment]:
    environment = open_environment("local", cwd=str(folder))
    yield environment
    asyncio.run(environment.close())


@pytest.fixture
def run(env: Environment) -> Callable[..., ExecOutcome]:
    """Run one command in an event loop of its own. A safety limit ends what should have ended by itself."""

    def run(command: str, **options: Any) -> ExecOutcome:
        return asyncio.run(env.execute(ExecRequest(command, **{"timeout": 60.0, **options})))

    return run


@pytest.fixture
def alive() -> Callable[[int], bool]:
    def alive(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            return False

    return alive


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], None]:
    """Waits until something is true; fails after a generous time."""

    def eventually(condition: Callable[[], object]) -> None:
        give_up = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < give_up, "it did not come true"
            time.sleep(0.01)

    return eventually


@pytest.fixture
def open_files() -> Callable[[], int]:
    """How many descriptors this process has open."""
    return lambda: len(list(Path("/proc/self/fd").iterdir()))


@dataclass
class Engine:
    """A docker engine of these tests' own. ``options`` open an environment in it."""

    process: subprocess.Popen[str]
    host: str
    image: str

    @property
    def options(self) -> dict[str, Any]:
        return {"image": self.image, "host": self.host, "mounts": ["/usr:/usr:ro"]}

    def tell(self, word: str) -> None:
        """``kill`` or ``start``."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "ok\n"


@pytest.fixture(scope="session")
def engine(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Fails where it ought to run (root on Debian, as in CI) and cannot; skips elsewhere."""
    path = root / "tests" / "infra" / "dockerd.py"
    spec = importlib.util.spec_from_file_location("dockerd", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    why = module.missing()
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


# -- ssh servers, always stopped, and nothing of them left ----------------------------------------------------------

_SCRIPT = Path(__file__).parents[2] / "infra" / "sshd.py"
_LIMIT = 60.0


class Sshd:
    """A server as tests/infra/sshd.py runs it."""

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

    def tell(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        assert self._answer() == "ok"

    @property
    def options(self) -> dict[str, Any]:
        """They open an environment in it."""
        keys = {"identity_file": str(self.folder / "id"), "known_hosts": str(self.folder / "known_hosts")}
        return {"host": self.host, "port": self.port, "user": self.user, **keys}

    def wish(self, **options: object) -> Wish:
        return Wish(**{**self.options, **options})

    def pids(self, command: str = "") -> list[int]:
        """The account's living processes whose command line begins like this."""
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
    """Where the files of these tests can be written from both sides."""
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
