"""A sandbox without a route, and its guard: real namespaces, real curl, git and pip, servers on this machine's loopback."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.compiled import compiled_code
from toolcrib import EnvironmentFailed

pytestmark = pytest.mark.full
NAMESPACE = ["unshare", "-Urnpf", "--kill-child", "--mount-proc"]
ROOT = Path(__file__).parents[5]
needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")


def until(holds: Callable[[], Any], seconds: float = 60.0) -> Any:
    give_up = time.monotonic() + seconds
    while not (found := holds()) and time.monotonic() < give_up:
        time.sleep(0.02)
    return found


def _fetched(port: int) -> bytes | None:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as made:
            return made.recv(100)
    except OSError:
        return None


@needs_curl
def test_an_allowed_service_is_reached_by_http_connect_and_socks(sandbox: Any, website: Any) -> None:
    port = website.server_port
    shown = sandbox(f"localhost:{port}").run(
        f"curl -sS http://localhost:{port}/hello; curl -sSp http://127.0.0.1:{port}/hello;"
        f" curl -sS -x socks5h://127.0.0.1:3128 http://localhost:{port}/hello;"
        f" curl -sS -x socks5://127.0.0.1:3128 http://127.0.0.1:{port}/hello;"
        f" curl -sS --noproxy '*' http://localhost:{port}/hello"
    )
    assert shown == "hello from outside\n" * 5


def test_there_is_no_other_way_out(sandbox: Any, website: Any) -> None:
    box = sandbox()
    port = website.server_port
    connect = f"(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo connected"
    assert box.run(f"cat /proc/net/route | tail -n +2; tail -n +3 /proc/net/dev | cut -d: -f1; {connect}; true").split() == ["lo"]
    assert website.seen == []


@needs_curl
def test_a_refusal_names_the_host_and_is_recorded(sandbox: Any, website: Any) -> None:
    box = sandbox()
    begin = time.time()
    shown = box.run(
        "curl -sS http://registry.example/x; curl -sSv https://registry.example/x 2>&1 | grep '< HTTP';"
        f" curl -sS http://localhost:{website.server_port}/hello;"
        " curl -sS -x socks5h://127.0.0.1:3128 http://other.example/; echo $?"
    )
    why = "is not an allowed host; ask the user to allow it, or to run the command outside the sandbox"
    lines = shown.replace("\r", "").splitlines()
    assert lines[0] == f"toolcrib: registry.example {why}"
    assert lines[1] == "< HTTP/1.1 403 toolcrib: registry.example is not an allowed host"
    assert lines[2] == f"toolcrib: localhost:{website.server_port} {why}; nothing in this session listens on that port"
    assert lines[-1] == "97"  # curl: the proxy refused
    denied = box.guard.denials(begin)
    assert [(one.host, one.port) for one in denied] == [
        ("registry.example", 80),
        ("registry.example", 443),
        ("localhost", website.server_port),
        ("other.example", 80),
    ]
    assert {one.why for one in denied if one.port == 443} == {f"toolcrib: registry.example {why}"}
    assert begin <= denied[0].when <= time.time()
    assert box.guard.denials(time.time() + 1) == []
    assert website.seen == []


@needs_curl
def test_what_is_allowed_meanwhile_holds_at_once(sandbox: Any, website: Any) -> None:
    box = sandbox()
    fetch = f"curl -sS http://localhost:{website.server_port}/hello"
    process = box.start(f"{fetch}; read -r line; {fetch}")
    assert "is not an allowed host" in process.stdout.readline()
    box.guard.allow(f"localhost:{website.server_port}")
    assert process.communicate("go on\n", timeout=120)[0] == "hello from outside\n"


def test_ports_of_the_session_are_forwarded_and_said_once(sandbox: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.environments.local.network.mover.LOOK", 0.05)
    box = sandbox()
    serve = (
        "import socket,sys; s=socket.create_server((sys.argv[1],int(sys.argv[2])))\nwhile 1: s.accept()[0].send(b'from inside')"
    )
    # also test that the sandbox does not use "localhost" of a service that listens only at ::1
    has_six = socket.has_dualstack_ipv6()
    six = socket.create_server(("::1", 0), family=socket.AF_INET6) if has_six else socket.create_server(("127.0.0.1", 0))
    with six, socket.create_server(("127.0.0.1", 0)) as held, socket.create_server(("127.0.0.1", 0)) as other:
        taken, free, named = held.getsockname()[1], other.getsockname()[1], six.getsockname()[1]
        other.close()
        script = (
            f'serve() {{ {sys.executable} -I -S -c "$SERVE" $1 $2 & }}; serve 127.0.0.1 {taken};'
            f" serve 127.0.0.1 {named}; serve 0.0.0.0 80;"
            f" while read line; do serve 127.0.0.1 {free}; read line; kill $!; done"
        )
        process = box.start(script, SERVE=serve)
        assert process.stdin is not None
        with process:
            assert until(lambda: len(box.said) == 3), box.said
            outer = {int(text.split()[1]): int(text.split("127.0.0.1:")[1].split(",")[0].strip(".")) for text in box.said}
            assert outer.keys() == {taken, named, 80}
            assert all(port >= 1024 and port not in (taken, named, 80) for port in outer.values())
            assert [_fetched(port) for port in outer.values()] == [b"from inside"] * 3
            for _ in range(2):
                print("start", file=process.stdin, flush=True)
                assert until(lambda: _fetched(free)) == b"from inside"
                print("stop", file=process.stdin, flush=True)
                assert until(lambda: _fetched(free) is None)
            assert box.said[3:] == [f"Port {free} of this session can be reached on this machine at 127.0.0.1:{free}."]
            process.stdin.close()
    assert until(lambda: all(_fetched(port) is None for port in outer.values()))


@needs_curl
def test_a_port_of_the_session_is_reached_by_the_session(sandbox: Any) -> None:
    serve = f"{sys.executable} -I -m http.server 8123 -b 127.0.0.1 >/dev/null 2>&1 &"
    box = sandbox()
    shown = box.run(
        f"{serve} until curl -sS http://localhost:8123/ | grep 'Directory listing' >/dev/null; do sleep 0.05; done; echo served"
    )
    assert shown == "served\n"


@needs_curl
def test_the_next_sandbox_takes_the_place_of_the_one_before(sandbox: Any, website: Any) -> None:
    """Afterwards the first sandbox reaches no host, and neither sees the guard's processes."""
    box = sandbox(f"localhost:{website.server_port}")
    fetch = f"curl -sS --max-time 60 http://localhost:{website.server_port}/hello"
    with box.start(
        f"{fetch}; read line; {fetch} >/dev/null 2>&1 || echo refused; grep -l _inner[.]py /proc/[0-9]*/cmdline"
    ) as first:
        assert first.stdout.readline() == "hello from outside\n"
        assert box.run(fetch) == "hello from outside\n"
        first.stdin.close()
        assert first.stdout.read() == "refused\n"


def test_a_process_without_a_network_of_its_own_is_not_joined(sandbox: Any) -> None:
    guard = sandbox().guard
    with pytest.raises(EnvironmentFailed, match="has this machine's network"):
        guard.join(os.getpid())
    gone = subprocess.Popen(["true"])
    gone.wait()
    with pytest.raises(
        EnvironmentFailed, match=r"the sandbox's network is unavailable, so nothing runs in it: FileNotFoundError"
    ):
        guard.join(gone.pid)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_and_pip_work_through_it(sandbox: Any, website: Any, tmp_path: Path) -> None:
    site, port = tmp_path / "site", website.server_port
    made = [
        "git init -q work", "git -C work -c user.name=a -c user.email=a@b.example commit -q --allow-empty -m first",
        "git clone -q --bare work site/work.git", "git -C site/work.git update-server-info",
    ]  # fmt: skip
    for command in made:
        subprocess.run(command.split(), cwd=tmp_path, check=True, capture_output=True)
    (site / "simple" / "tinypackage").mkdir(parents=True)
    wheel = "tinypackage-1.0-py3-none-any.whl"
    with zipfile.ZipFile(site / "simple" / "tinypackage" / wheel, "w") as archive:
        archive.writestr("tinypackage.py", "")
        archive.writestr("tinypackage-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tinypackage\nVersion: 1.0\n")
        archive.writestr("tinypackage-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("tinypackage-1.0.dist-info/RECORD", "")
    box = sandbox(f"localhost:{port}")
    out = tmp_path / "out"
    script = f"git clone -q http://localhost:{port}/work.git {out}/clone && git -C {out}/clone log --format=%s"
    assert box.run(script, HOME=str(tmp_path)) == "first\n"
    if importlib.util.find_spec("pip") is None:
        pytest.skip("git works; pip is not in this environment")
    shown = box.run(
        f"{sys.executable} -m pip download -q --no-deps --no-cache-dir -i http://localhost:{port}/simple -d {out} tinypackage",
        HOME=str(tmp_path), PIP_CONFIG_FILE="/dev/null", PIP_FIND_LINKS="",
    )  # fmt: skip
    assert (out / wheel).is_file(), shown


_AS_A_USER = """
import os, subprocess, sys, time
from pathlib import Path
from tools.environments.local.network import NetworkGuard

guard = NetworkGuard([f"localhost:{sys.argv[1]}"])
script = "read line; exec 3<>/dev/tcp/127.0.0.1/3128;"
script += f" printf 'GET http://localhost:{sys.argv[1]}/hello HTTP/1.0\\\\r\\\\n\\\\r\\\\n' >&3; cat <&3"
# Mapped to itself, as the sandbox does it: the commands have no capabilities.
argv = ["unshare", "-Ucnpf", "--kill-child", "--mount-proc", "bash", "-c", script]
process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
while not (first := children.read_text().split()):
    time.sleep(0.01)
guard.join(int(first[0]))
print(os.geteuid(), process.communicate("go", timeout=120)[0])
guard.close()
"""


@pytest.mark.usefixtures("namespaces")
def test_it_works_for_an_ordinary_user(website: Any) -> None:
    program = [sys.executable, "-c", _AS_A_USER, str(website.server_port)]
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("needs setpriv to drop root's rights")
        program = ["setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups", *program]
    with tempfile.TemporaryDirectory(prefix="toolcrib-net-user-") as home:
        Path(home).chmod(0o777)
        environment = {"PATH": os.environ["PATH"], "HOME": home, "TMPDIR": home, **compiled_code()}
        done = subprocess.run(program, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=180, check=False)
    if "Permission denied" in done.stderr and not done.stdout:
        pytest.skip("an ordinary user can't run this environment's Python")
    assert "hello from outside" in done.stdout, done.stdout + done.stderr


def test_many_guards_share_a_thread_that_ends_with_the_last(sandbox: Any) -> None:
    boxes = [sandbox() for _ in range(3)]
    for box in boxes:
        assert asyncio.run(box.guard.unknown(["a.example"])) == ["a.example"]
    assert [thread.name for thread in threading.enumerate()].count("toolcrib-network") == 1
    for box in boxes:
        box.guard.close()
        box.guard.close()
    assert [thread.name for thread in threading.enumerate()].count("toolcrib-network") == 0


def test_rules_that_are_malformed_are_refused(sandbox: Any) -> None:
    guard = sandbox().guard
    with pytest.raises(ValueError, match="'localhost' needs a port"):
        guard.allow("localhost")


@needs_curl
def test_a_sandbox_may_end_while_a_port_is_being_offered(sandbox: Any, website: Any) -> None:
    """The next sandbox is served: the event loop does not watch a descriptor that was closed and reused."""
    box = sandbox()
    process = box.start("read -r line")
    inner = next(pid for pid in _children_of_this_process() if b"local/_inner.py" in Path(f"/proc/{pid}/cmdline").read_bytes())
    os.kill(inner, signal.SIGSTOP)
    with box.guard.allowing([f"localhost:{website.server_port}"]):
        box.guard.leave()
        process.kill()
        process.communicate(timeout=60)
        assert box.run(f"curl -sS -m 60 http://localhost:{website.server_port}/hello") == "hello from outside\n"


def _children_of_this_process() -> list[int]:
    tasks = Path("/proc/self/task").glob("*/children")
    return [int(pid) for children in tasks for pid in children.read_text().split()]
