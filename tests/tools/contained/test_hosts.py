"""Hosts that a sandboxed command requests, through the dispatcher and the real approval gate."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import tools.terminal_tool  # noqa: F401 - registers the tool
from toolcrib import Answer, Containment, Environment, LimitsHosts, RunIdentity, SuspendTicket, ToolCall, ToolRegistry
from toolcrib.contract.session import ExecutedCall
from toolcrib.testing import FakeContained
from tools.approval.gate import APPROVAL, ApprovalGate
from tools.approval.grants import MemoryGrants
from tools.contained.hosts import addressed_hosts
from tools.dispatch.hooks import new_manager
from tools.dispatch.pipeline import Dispatcher
from tools.dispatch.scope import CallScope
from tools.environments.local.contained import SandboxedEnvironment
from tools.environments.local.holding import sandbox_here
from tools.environments.local.network import DeniedHost, learned
from tools.judge.setting import Setting
from tools.registry import registry as known

HOLDS = Containment("workspace", ("/project",), ("/tmp",), (), (), "hosts")


class FakeHosts(FakeContained):
    """A sandbox that reaches the ``allowed`` hosts.

    ``lent`` has the hosts of each command, ``denied`` the hosts that it refuses.
    """

    def __init__(self, *allowed: str, holds: Containment = HOLDS, denied: Sequence[DeniedHost] = ()) -> None:
        super().__init__(holds, commands=lambda request: self._ran())
        self.allowed, self.denied = allowed, denied
        self.lent: list[list[str]] = []
        self._now: list[str] = []

    def _ran(self) -> tuple[int, bytes]:
        self.lent.append(list(self._now))
        return 0, b"ran"

    async def unknown_hosts(self, hosts: Sequence[str]) -> Sequence[str]:
        if "no host" in hosts:
            raise ValueError("'no host' is not a host's name or address")
        return [host for host in hosts if host not in self.allowed]

    @contextlib.contextmanager
    def allowing(self, hosts: Sequence[str]) -> Iterator[None]:
        self._now = list(hosts)
        yield
        self._now = []

    def denied_hosts(self, since: float) -> Sequence[DeniedHost]:
        return [one._replace(when=time.time()) for one in self.denied] if since <= time.time() else []


def _conforms(fake: FakeHosts) -> LimitsHosts:
    return fake


class Floor:
    """A session with one terminal. ``yes`` is the scope that the user approves, "" denies."""

    def __init__(self, environment: Environment, yes: str = "once", *, present: bool = True, root: str = "/project") -> None:
        self.yes = yes
        self.asked: list[SuspendTicket] = []
        registry, hooks = ToolRegistry(), new_manager()
        entry = known.get("terminal")
        assert entry is not None
        registry.put(entry)
        hooks.register(ApprovalGate(MemoryGrants(), setting=Setting(home="/home/me"), project_root=root), APPROVAL)
        self.dispatcher = Dispatcher(registry, hooks)
        self.scope = CallScope(
            identity=RunIdentity("s"),
            open_environment=lambda: environment,
            asker=self._ask if present else None,
            settings={"sandbox.outside": "ask"},
        )

    def _ask(self, ticket: SuspendTicket, ctx: Any) -> Answer:
        self.asked.append(ticket)
        return Answer(ticket.id, "resume", {"approved": bool(self.yes), "scope": self.yes}, by="me")

    def call(self, command: str, **args: Any) -> ExecutedCall:
        return self.dispatcher.call_sync(ToolCall(ToolCall.new_id(), "terminal", {"command": command, **args}), self.scope)

    def data(self, command: str, **args: Any) -> Mapping[str, Any]:
        result = self.call(command, **args).result
        assert result.is_success, result.message
        assert isinstance(result.data, Mapping)
        return result.data

    @property
    def keys(self) -> list[list[str]]:
        return [[finding["key"] for finding in ticket.parameters["findings"]] for ticket in self.asked]


@pytest.fixture
def floors() -> Iterator[type[Floor]]:
    """Return a function that makes sessions, which end with the test."""
    made: list[Floor] = []

    class Ended(Floor):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            made.append(self)

    yield Ended
    for one in made:
        asyncio.run(one.scope.close())


def test_a_host_that_is_not_allowed_is_asked_about_by_name(floors: type[Floor]) -> None:
    sandbox = FakeHosts("known.example")
    floor = floors(sandbox)
    assert floor.data("make fetch", hosts=["new.example", "known.example"])["output"] == "ran"
    assert floor.keys == [["net.host@new.example"]]
    assert "reaches new.example, which the sandbox does not allow yet" in floor.asked[0].message
    assert sandbox.lent == [["new.example"]]
    floor.data("make fetch", hosts=["known.example"])
    floor.data("make fetch")
    assert len(floor.asked) == 1
    assert sandbox.lent[1:] == [[], []]


def test_once_is_for_one_call_and_a_session_asks_once(floors: type[Floor]) -> None:
    sandbox = FakeHosts()
    floor = floors(sandbox)
    for _ in range(2):
        floor.data("make", hosts=["a.example"])
    assert len(floor.asked) == 2
    assert "always" not in floor.asked[0].parameters["scopes"]
    floor.yes = "session"
    for _ in range(3):
        floor.data("make", hosts=["b.example"])
    assert floor.keys[2:] == [["net.host@b.example"]]
    floor.data("make", hosts=["b.example", "c.example"])  # a grant covers only its own host
    assert floor.keys[3:] == [["net.host@c.example"]]
    assert sandbox.lent[-1] == ["b.example", "c.example"]


@pytest.mark.parametrize("present", [True, False])
def test_no_and_nobody_to_ask_run_nothing(floors: type[Floor], present: bool) -> None:
    sandbox = FakeHosts()
    floor = floors(sandbox, "", present=present)
    assert floor.call("make", hosts=["new.example"]).result.is_error
    assert sandbox.lent == []


def test_addresses_of_network_clients_are_asked_about_before_they_fail(floors: type[Floor]) -> None:
    sandbox = FakeHosts("known.example")
    floor = floors(sandbox, "session")
    for _ in range(2):
        floor.data("curl -sS https://new.example/x https://known.example/y")
    assert floor.keys == [["net.host@new.example"]]
    assert sandbox.lent == [["new.example"]] * 2


def test_one_question_covers_an_upload_and_its_host(floors: type[Floor]) -> None:
    floor = floors(FakeHosts())
    floor.data("curl -d @notes https://new.example/")
    assert floor.keys == [["net.upload@new.example", "net.host@new.example"]]
    floor = floors(FakeHosts("new.example"))
    floor.data("curl -d @notes https://new.example/")
    assert floor.keys == [["net.upload@new.example"]]


def test_an_answer_for_a_command_without_hosts_is_none_with_them(floors: type[Floor]) -> None:
    """A command that was judged harmless without hosts is judged again."""
    floor = floors(FakeHosts())
    for _ in range(2):
        floor.data("ls")
    floor.data("ls", hosts=["new.example"])
    assert floor.keys == [["net.host@new.example"]]


@pytest.mark.parametrize(
    ("hosts", "says"), [(["no host"], "hosts: 'no host' is not a host's name"), ([f"{n}.example" for n in range(9)], "at most 8")]
)
def test_what_is_no_list_of_hosts_is_refused(floors: type[Floor], hosts: list[str], says: str) -> None:
    sandbox = FakeHosts()
    assert says in str(floors(sandbox).call("ls", hosts=hosts).result.message)
    assert sandbox.lent == []


@pytest.mark.parametrize("network", ["none", "on"])
def test_hosts_mean_nothing_in_another_sandbox(floors: type[Floor], network: Any) -> None:
    sandbox = FakeHosts(holds=Containment("workspace", ("/project",), (), (), (), network))
    floor = floors(sandbox)
    assert "stopped" not in floor.data("curl https://new.example", hosts=["new.example"])
    assert (floor.keys, sandbox.lent) == ([], [[]])


def test_a_refused_host_is_named_with_what_can_be_done(floors: type[Floor]) -> None:
    denied = [DeniedHost("a.example", 443, 0, "no"), DeniedHost("a.example", 80, 0, "no"), DeniedHost("localhost", 5432, 0, "no")]
    told = floors(FakeHosts(denied=denied)).data("make")
    assert told["stopped"] == (
        "The sandbox stopped this: a.example:443 can't be reached from it; a.example:80 can't be reached from it; "
        "localhost:5432 can't be reached from it. The user can allow the host in each session (sandbox.hosts). "
        'To reach it, call again with hosts: ["a.example", "localhost:5432"]; the user is asked unless they agreed in '
        "this session. To run this one command outside, call again with outside: true; the user is asked."
    )
    assert "stopped" not in floors(FakeHosts()).data("make")


@pytest.mark.parametrize(
    ("command", "hosts"),
    [
        ("curl -sS https://a.example/x", ["a.example"]),
        ("wget http://b.example:8080/x -O -", ["b.example"]),
        ("curl 'https://me:pass@a.example/x?u=http://c'", ["a.example"]),
        ("git clone https://a.example/x.git && cd x", ["a.example"]),
        ("timeout 5 env A=1 curl https://a.example", ["a.example"]),
        ("H=a.example; curl https://$H/x | tar xz", ["a.example"]),
        ("for h in a b; do curl https://$h.example; done", ["a.example", "b.example"]),
        ("pip install https://a.example/x.whl", ["a.example"]),
        ("curl https://[fd00::1]:80/", ["[fd00::1]"]),
        ("curl --url=https://a.example/ -H 'Referer: https://b.example'", ["a.example"]),
        ("pip install git+https://a.example/x", ["a.example"]),
        ("echo https://a.example", []),
        ("git remote add origin https://a.example/x", []),
        ("git commit -m 'see https://a.example'", []),
        ("grep -r https://a.example .", []),
        ("pip config set global.index-url https://a.example", []),
        ("curl a.example", []),
        ("curl --unix-socket ./dev.sock http://a/", []),
        ("make", []),
    ],
)
def test_addresses_that_a_command_connects_to(command: str, hosts: list[str]) -> None:
    assert addressed_hosts(command) == hosts


class _Page(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        pass

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"from outside")


@pytest.fixture
def page() -> Iterator[int]:
    """Return the port of a web server on loopback."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.xdist_group("bubblewrap")
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_a_real_sandbox_asks_for_a_service_of_this_machine(
    floors: type[Floor], page: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first call is refused and explains what to do, the second one asks, and the third one needs no question."""
    if (held := sandbox_here("workspace")).mode != "workspace":
        pytest.skip(f"no sandbox can be made here: {held.why_not_more}")
    monkeypatch.setattr(learned, "learned_hosts", lambda *_: [])  # querying each package manager takes a second
    sandbox = SandboxedEnvironment(str(tmp_path), masked=(), caches="shared", hosts=[])
    floor = floors(sandbox, "session", root=str(tmp_path))
    told = floor.data(f"curl -sS -m 60 http://localhost:{page}/")
    assert told["output"].startswith(f"toolcrib: localhost:{page} is not an allowed host")
    assert f'call again with hosts: ["localhost:{page}"]' in told["stopped"]
    assert not floor.asked
    for _ in range(2):
        data = floor.data(f"curl -sS -m 60 http://localhost:{page}/", hosts=[f"localhost:{page}"])
        assert (data["output"], "stopped" in data) == ("from outside", False)
    assert floor.keys == [[f"net.host@localhost:{page}"]]
