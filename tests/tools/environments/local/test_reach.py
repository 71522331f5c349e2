"""A sandbox of this machine that reaches only allowed hosts: real commands, and servers on this machine's loopback."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.compiled import compiled_code
from toolcrib import EnvironmentFailed, ExecRequest
from tools.environments.local.contained import SandboxedEnvironment
from tools.environments.local.holding import sandbox_here
from tools.environments.local.network import learned

ROOT = Path(__file__).parents[4]
CURL = "curl -sS -m 60"
pytestmark = [
    pytest.mark.xdist_group("bubblewrap"),
    pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed"),
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def site(tmp_path: Path) -> Iterator[ThreadingHTTPServer]:
    """A web server on loopback over the folder ``tmp_path/"site"``."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "hello").write_text("hello from outside\n")

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), lambda *args: Quiet(*args, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


class Inside:
    """An environment with a sandbox, and its commands."""

    def __init__(self, environment: SandboxedEnvironment) -> None:
        self.environment = environment

    def run(self, command: str, *hosts: str) -> str:
        """Return a command's output and its notice. It may reach ``hosts``."""

        async def run() -> str:
            with self.environment.allowing(hosts):
                outcome = await self.environment.execute(ExecRequest(command, timeout=100))
            return (outcome.stdout.head + outcome.stderr.head).decode() + outcome.notice

        return asyncio.run(run())

    def unknown(self, *hosts: str) -> list[str]:
        return list(asyncio.run(self.environment.unknown_hosts(hosts)))


@pytest.fixture
def inside(project: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Inside]:
    monkeypatch.setattr(learned, "learned_hosts", lambda *_: [])  # querying each package manager takes a second
    if (held := sandbox_here("workspace")).mode != "workspace":
        pytest.skip(f"no sandbox can be made here: {held.why_not_more}")
    hosts = getattr(request, "param", ["allowed.example"])
    environment = SandboxedEnvironment(str(project), masked=(), caches="shared", hosts=hosts)
    yield Inside(environment)
    asyncio.run(environment.close())


def test_only_allowed_hosts_are_reached(inside: Inside, site: ThreadingHTTPServer) -> None:
    port, address = site.server_port, "http://localhost"
    assert inside.environment.containment().network == "hosts"
    began = time.time()
    shown = inside.run(f"{CURL} {address}:{port}/hello; {CURL} http://new.example/x; {CURL} --noproxy '*' {address}:{port}/hello")
    assert shown.startswith(f"toolcrib: localhost:{port} is not an allowed host")
    assert "toolcrib: new.example is not an allowed host" in shown
    assert "hello" not in shown.replace(f"{port}/hello", "")
    denied = [(one.host, one.port) for one in inside.environment.denied_hosts(began)]
    assert denied == [("localhost", port), ("new.example", 80)]
    assert list(inside.environment.denied_hosts(time.time() + 1)) == []


def test_a_host_is_reached_while_a_command_runs_that_may(inside: Inside, site: ThreadingHTTPServer) -> None:
    """The host is reached through the proxy, and at its own port by programs that know no proxy; afterwards by neither."""
    host = f"localhost:{site.server_port}"
    fetch = f"{CURL} http://{host}/hello"
    direct = f"until (exec 3<>/dev/tcp/127.0.0.1/{site.server_port}) 2>/dev/null; do sleep 0.05; done; {CURL} --noproxy '*' http://{host}/hello"
    assert inside.run(f"{fetch}; {direct}", host) == "hello from outside\n" * 2
    assert "is not an allowed host" in inside.run(fetch)
    assert "hello from outside" not in inside.run(f"{CURL} --noproxy '*' http://{host}/hello")


def test_two_calls_may_need_the_same_host(inside: Inside, site: ThreadingHTTPServer) -> None:
    host = f"localhost:{site.server_port}"
    inside.run("true")
    with inside.environment.allowing([host]):
        assert inside.run(f"{CURL} http://{host}/hello", host) == "hello from outside\n"
        assert inside.run(f"{CURL} http://{host}/hello") == "hello from outside\n"
    assert inside.unknown(host) == [host]


@pytest.mark.parametrize("inside", [[]], indirect=True)
def test_it_has_hosts_while_a_host_is_allowed(inside: Inside) -> None:
    assert not inside.environment.containment().has_hosts
    with inside.environment.allowing(["lent.example"]):
        assert inside.environment.containment().has_hosts
    assert not inside.environment.containment().has_hosts


@pytest.mark.parametrize("inside", [["*.allowed.example", "10.1.2.3", "localhost:5432"]], indirect=True)
def test_unknown_hosts_are_told_as_a_user_is_asked_about_them(inside: Inside) -> None:
    known = ["a.allowed.example:443", "10.1.2.3", "LOCALHOST:5432", "127.0.0.1:5432"]
    assert inside.unknown(*known) == []
    assert inside.unknown("B.example.:8443", "localhost:80", "[::1]:81") == ["b.example", "localhost:80", "localhost:81"]


@pytest.mark.parametrize("host", ["*.example", "localhost", "a b", "169.254.169.254", "fd00:ec2::254", "x.example:99999", ""])
def test_what_no_user_can_be_asked_about(inside: Inside, host: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        inside.unknown(host)


def test_a_port_of_the_session_is_forwarded_and_said_once(inside: Inside) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    shown = inside.run(f"{sys.executable} -m http.server -b 127.0.0.1 {port} >/dev/null 2>&1 &")
    give_up = time.monotonic() + 100
    while "can be reached on this machine" not in shown and time.monotonic() < give_up:
        shown += inside.run("sleep 0.2")
    assert f"Port {port} of this session can be reached on this machine at 127.0.0.1:{port}" in shown
    with socket.create_connection(("127.0.0.1", port), timeout=60) as made:
        made.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert made.recv(15).startswith(b"HTTP/1.0 200")
    assert "can be reached" not in inside.run("true")
    assert "<html" in inside.run(f"{CURL} http://localhost:{port}/").lower()  # the sandbox's own port needs no approval


@pytest.mark.full
@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_and_pip_work_through_the_proxy(inside: Inside, project: Path, site: ThreadingHTTPServer, tmp_path: Path) -> None:
    folder, host = tmp_path / "site", f"localhost:{site.server_port}"
    me = "git -c user.name=me -c user.email=me@example"
    made = (
        f"git init -q work && {me} -C work commit -q --allow-empty -m first && git clone -q --bare work work.git &&"
        " git -C work.git update-server-info"
    )
    subprocess.run(made, shell=True, cwd=folder, check=True)  # noqa: S602 - a line of this test
    assert "is not an allowed host" in inside.run(f"git clone -q http://{host}/work.git copy 2>&1; {CURL} http://{host}/hello")
    assert not (project / "copy").exists()
    inside.run(f"git clone -q http://{host}/work.git copy", host)
    assert (project / "copy" / ".git" / "HEAD").is_file()
    wheel = folder / "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr("tiny.py", "")
        packed.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        packed.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        packed.writestr("tiny-1.0.dist-info/RECORD", "")
    pip = f"{sys.executable} -m pip --isolated --disable-pip-version-check --no-cache-dir download -q --no-deps --no-index"
    if importlib.util.find_spec("pip") is None:
        pytest.skip("pip is not installed here")
    inside.run(f"{pip} -d wheels http://{host}/{wheel.name}", host)
    assert (project / "wheels" / wheel.name).is_file()


def test_the_sandbox_after_this_one_has_its_guard_too(inside: Inside, site: ThreadingHTTPServer) -> None:
    host = f"localhost:{site.server_port}"
    inside.run("sleep 1000 & kill -9 -1")  # ends the keeper, and the sandbox with it
    shown = inside.run(f"{CURL} http://{host}/hello", host)
    assert shown.startswith("hello from outside\n")
    assert "only through the proxy" not in shown
    assert asyncio.run(inside.environment.release_idle())
    assert inside.run(f"{CURL} http://{host}/hello", host) == "hello from outside\n"


def test_variables_of_the_proxy_stay_inside(inside: Inside) -> None:
    assert inside.run("echo $HTTP_PROXY").startswith("http://127.0.0.1:")
    outcome = asyncio.run(inside.environment.outside().execute(ExecRequest('echo "<$HTTP_PROXY$https_proxy$NO_PROXY>"')))
    assert outcome.stdout.head == b"<>\n"
    assert "HTTP_PROXY" not in asyncio.run(inside.environment.portable_state()).variables


def test_a_rule_that_is_none_is_refused(project: Path) -> None:
    with pytest.raises(EnvironmentFailed, match=r"sandbox\.hosts: .*localhost:5432"):
        SandboxedEnvironment(str(project), masked=(), caches="shared", hosts=["localhost"])
    with pytest.raises(EnvironmentFailed, match="hosts takes a list"):
        SandboxedEnvironment(str(project), masked=(), caches="shared", hosts="a.example")


def _guards() -> list[str]:
    """Return this process's threads and programs of guards."""
    programs = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # the process has just ended
            if status.read_text().rpartition(")")[2].split()[1] == str(os.getpid()):
                programs.append(status.with_name("cmdline").read_bytes())
    threads = [one.name for one in threading.enumerate() if one.name == "toolcrib-network"]
    return threads + [line.decode() for line in programs if b"_launch" in line]


def test_nothing_of_a_guard_is_left(project: Path, inside: Inside) -> None:
    """No thread or program is left after close, or after an environment was dropped without it."""
    inside.run("true")
    assert len(_guards()) == 2
    asyncio.run(inside.environment.close())
    assert _guards() == []
    dropped = SandboxedEnvironment(str(project), masked=(), caches="shared", hosts=[])
    asyncio.run(dropped.unknown_hosts(["a.example"]))
    assert len(_guards()) == 1
    del dropped
    gc.collect()
    give_up = time.monotonic() + 60
    while _guards() and time.monotonic() < give_up:
        time.sleep(0.05)
    assert _guards() == []


def test_commands_do_not_hold_the_connection_to_the_guard(inside: Inside) -> None:
    assert "socket:" not in inside.run("ls -l /proc/[0-9]*/fd")


def test_a_sandbox_without_its_guard_runs_nothing(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.environments.local.network.inside.PROXY_PORT", 1)
    with pytest.raises(EnvironmentFailed, match=r"network .*Set sandbox\.network to none or on"):
        inside.run("true")


def test_an_ordinary_user_has_it_too(site: ThreadingHTTPServer) -> None:
    """The sandbox of an ordinary user has a user namespace, which the guard's program enters."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("this account is an ordinary user, or can't become one")
    python = next((path for path in (os.path.realpath(sys.executable), "/usr/bin/python3") if _runs(path)), "")
    if not python or not os.access(ROOT, os.X_OK):
        pytest.skip("no Python of this machine can be started by an ordinary user")
    import tempfile

    program = f"""
import asyncio
from tests.tools.environments.local.test_reach import Inside, SandboxedEnvironment
inside = Inside(SandboxedEnvironment(".", masked=(), hosts=[]))
try:
    print(inside.run("id -u"), inside.run("{CURL} http://localhost:{site.server_port}/hello"),
          inside.run("{CURL} http://localhost:{site.server_port}/hello", "localhost:{site.server_port}"))
finally:
    asyncio.run(inside.environment.close())
"""
    with tempfile.TemporaryDirectory(prefix=".tc-reach-", dir=ROOT) as home:
        os.chown(home, 1000, 1000)
        packages = next(path for path in sys.path if path.endswith("site-packages"))
        env = {"HOME": home, "PATH": "/usr/bin:/bin", "PYTHONPATH": f"{ROOT}:{packages}", **compiled_code()}
        argv = ["setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups", python, "-c", program]
        done = subprocess.run(argv, cwd=home, env=env, capture_output=True, text=True, timeout=200, check=False)
    if "unshare" in done.stderr:
        pytest.skip(f"no user namespaces: {done.stderr}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1000\n toolcrib: localhost:")
    assert done.stdout.endswith("hello from outside\n\n")


def _runs(python: str) -> bool:
    argv = ["setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups", python, "-c"]
    # setpriv starts programs that root may start; this account may not be able to start them again.
    again = "import subprocess, sys; subprocess.run([sys.executable, '-c', ''], check=True); sys.exit(sys.version_info < (3, 11))"
    return subprocess.run([*argv, again], cwd="/", capture_output=True, check=False).returncode == 0
