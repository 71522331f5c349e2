"""Commands outside the sandbox, through the dispatcher and the real approval gate."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

import tools.terminal_tool  # noqa: F401 - registers the tool
from toolcrib import Answer, Containment, RunIdentity, ShellState, SuspendTicket, ToolCall, ToolRegistry
from toolcrib.contract.session import ExecutedCall
from toolcrib.testing import FakeContained, FakeEnvironment
from tools.approval.gate import APPROVAL, ApprovalGate
from tools.approval.grants import MemoryGrants
from tools.contained.outside import needs_outside, offer
from tools.contained.stopped import Denial
from tools.dispatch.hooks import new_manager
from tools.dispatch.pipeline import Dispatcher
from tools.dispatch.scope import CallScope
from tools.judge.setting import Setting
from tools.registry import registry as known

HOLDS = Containment("workspace", ("/project",), ("/tmp",), ("/home/me/.ssh",), (), "none")
KINDS = {"path", "host", "socket", "privilege", "process"}


OPENED: list[Floor] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while OPENED:
        asyncio.run(OPENED.pop().scope.close())


class Floor:
    """A session with one terminal. ``yes`` is the user's answer to every question; ``asked`` has the questions."""

    def __init__(self, environment: FakeEnvironment, outside: str = "ask") -> None:
        OPENED.append(self)
        self.environment = environment
        self.yes = True
        self.asked: list[SuspendTicket] = []
        registry, hooks = ToolRegistry(), new_manager()
        entry = known.get("terminal")
        assert entry is not None
        self.registry = registry
        registry.put(entry)
        hooks.register(ApprovalGate(MemoryGrants(), setting=Setting(home="/home/me"), project_root="/project"), APPROVAL)
        self.dispatcher = Dispatcher(registry, hooks)
        self.scope = CallScope(
            identity=RunIdentity("s"),
            open_environment=lambda: environment,
            asker=self._ask,
            settings={"sandbox.outside": outside},
        )

    def _ask(self, ticket: SuspendTicket, ctx: Any) -> Answer:
        self.asked.append(ticket)
        return Answer(ticket.id, "resume", {"approved": self.yes, "scope": "always"}, by="me")

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
def contained() -> FakeContained:
    return FakeContained(HOLDS, commands=lambda request: (0, b"inside"))


@pytest.fixture
def floor(contained: FakeContained) -> Floor:
    return Floor(contained)


def test_a_command_runs_inside_unless_it_says_otherwise(floor: Floor, contained: FakeContained) -> None:
    data = floor.data("make install")
    assert (data["output"], data["where"]) == ("inside", "fake-sandbox")
    assert not {"notice", "stopped"} & set(data)
    assert not contained.beyond.executed


def test_outside_is_asked_and_runs_in_the_same_folder(floor: Floor, contained: FakeContained) -> None:
    data = floor.data("ls", outside=True)
    assert (data["output"], data["where"]) == ("outside", "fake")
    assert "do not carry over" in data["notice"]
    assert floor.keys == [["sandbox.outside"]]
    assert [(one.command, one.cwd) for one in contained.beyond.executed] == [("ls", "/project")]
    assert not contained.executed


def test_it_is_asked_every_time(floor: Floor) -> None:
    """An answer "always" grants nothing here, and the same harmless command inside the sandbox is not asked about."""
    for _ in range(2):
        floor.data("ls", outside=True)
        floor.data("ls")
    assert floor.keys == [["sandbox.outside"]] * 2
    assert floor.asked[0].parameters["scopes"] == ["once"]


def test_a_command_known_to_be_harmless_inside_is_still_asked_about_outside(floor: Floor) -> None:
    floor.data("ls")
    floor.data("ls", outside=True)
    assert floor.keys == [["sandbox.outside"]]


def test_it_is_judged_whole(floor: Floor) -> None:
    """The question has the command's other findings too, and refused commands stay refused."""
    floor.data("cd sub && rm -rf build", outside=True)
    assert floor.keys[0][-1] == "sandbox.outside"
    assert len(floor.keys[0]) > 1
    assert floor.call("rm -rf /", outside=True).result.is_error
    assert len(floor.asked) == 1


def test_a_script_is_read_outside(contained: FakeContained) -> None:
    """The judge reads the file outside the sandbox, not the file of the same name inside."""
    contained.files["/project/run.sh"] = b"echo well\n"
    contained.beyond.files["/project/run.sh"] = b"git push --force\n"
    floor = Floor(contained)
    floor.data("bash run.sh", outside=True)
    assert any(key.startswith("git.") for key in floor.keys[0])


def test_the_shell_outside_is_the_one_that_is_judged(floor: Floor, contained: FakeContained) -> None:
    contained.state = ShellState(aliases={"ls": "echo"}, aliases_on=True)
    contained.beyond.state = ShellState(functions={"ls": "git push --force"})
    floor.data("ls", outside=True)
    assert any(key.startswith("git.") for key in floor.keys[0])


def test_no_runs_nothing_anywhere(floor: Floor, contained: FakeContained) -> None:
    floor.yes = False
    assert floor.call("ls", outside=True).result.is_error
    assert not contained.executed
    assert not contained.beyond.executed


def test_a_program_that_can_not_work_inside_is_asked_about_at_once(floor: Floor, contained: FakeContained) -> None:
    floor.data("docker ps")
    assert "sandbox.outside" in floor.keys[0]
    assert contained.beyond.executed
    floor.data("docker ps", outside=False)  # explicitly inside
    assert [one.command for one in contained.executed] == ["docker ps"]


@pytest.mark.parametrize("how", [{"pty": True}, {"background": True}])
def test_it_is_not_asked_about_where_it_would_fail(floor: Floor, how: dict[str, Any]) -> None:
    """003-30: outside, commands run in the foreground only."""
    failed = floor.call("sudo ls", **how)
    assert "try it in the sandbox with outside: false" in str(failed.result.message)
    assert floor.asked == []


@pytest.mark.parametrize("args", [{"outside": True}, {"outside": True, "cwd": "/project"}])
def test_never_refuses_the_parameter(contained: FakeContained, args: dict[str, Any]) -> None:
    floor = Floor(contained, "never")
    assert "sandbox.outside is never" in str(floor.call("ls", **args).result.message)
    assert floor.data("docker ps")["output"] == "inside"
    assert not contained.beyond.executed


def test_without_a_sandbox_the_parameter_means_nothing(contained: FakeContained) -> None:
    """If no sandbox is open, all commands run without one, and are judged as usual."""
    contained.holds = None
    floor = Floor(contained)
    assert floor.data("ls", outside=True)["where"] == "fake-sandbox"
    assert floor.data("docker ps")["output"] == "inside"


def test_a_folder_of_the_sandbox_alone_is_refused(floor: Floor, contained: FakeContained) -> None:
    contained.cwd = "/tmp/work"
    assert "exists only in the sandbox" in str(floor.call("ls", outside=True).result.message)
    assert floor.data("ls", outside=True, cwd="/project")["output"] == "outside"


def test_a_stopped_command_is_offered_what_can_be_done() -> None:
    said = b"mkdir: cannot create directory '/srv/x': Read-only file system\n"
    contained = FakeContained(HOLDS, commands=lambda request: (1, said))
    told = Floor(contained).data("mkdir /srv/x")
    assert told["stopped"] == (
        "The sandbox stopped this: /srv/x can't be used in it. The user can allow the folder (sandbox.write). "
        "To run this one command outside, call again with outside: true; the user is asked."
    )
    assert len(contained.executed) == 1
    assert not contained.beyond.executed
    assert "outside: true" not in Floor(contained, "never").data("mkdir /srv/x")["stopped"]


def test_a_person_sees_the_offer() -> None:
    contained = FakeContained(HOLDS, commands=lambda request: (6, b"curl: (6) Could not resolve host: files.test"))
    shown = Floor(contained).call("curl files.test").result.views
    assert "files.test can't be reached" in str((shown or {})["person"])


def test_the_schema_has_the_parameter_only_where_it_is_asked_for(floor: Floor) -> None:
    shown = floor.registry.get_definitions(["terminal"])[0]["function"]["parameters"]["properties"]
    assert list(shown) == ["command", "timeout", "cwd"]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_of_denial_has_its_words(kind: Any) -> None:
    assert offer([Denial(kind, "", "x")], ask=False).startswith("The sandbox stopped this: ")
    assert offer([], ask=True) == ""


@pytest.mark.parametrize(
    "command",
    [
        "sudo rm x",
        "env A=1 docker ps",
        "bash -c 'sudo id'",
        "ls && /usr/bin/docker compose up -d | cat",
        "x=docker; $x ps",
        "nohup sudo -u me id &",
        "timeout 5 ssh host ls",
        "apt-get install -y x",
        "if true; then systemctl restart a; fi",
        "xargs sudo rm < list",
        "doas id",
        "mount -t tmpfs x /mnt",
    ],
)
def test_programs_that_need_to_run_outside(command: str) -> None:
    assert needs_outside(command, HOLDS)


@pytest.mark.parametrize(
    "command",
    [
        "echo sudo",
        "grep -r docker .",
        "docker --version",
        "ssh -V",
        "apt list",
        "git commit -m 'use sudo'",
        "docker() { echo; }; docker ps",
        "cat docker-compose.yml",
        "gpg --sign f",  # outside the sandbox its keys are not masked
        "git commit -S -m x",
    ],
)
def test_programs_that_stay_inside(command: str) -> None:
    assert not needs_outside(command, HOLDS)


def test_what_signs_needs_the_keys_that_are_masked() -> None:
    holds = Containment("workspace", ("/project",), (), ("/home/me/.gnupg",), (), "none")
    assert needs_outside("git commit -S -m x", holds)
    assert needs_outside("gpg --sign f", holds)
    assert not needs_outside("git log -S add --oneline", holds)


def test_what_is_not_masked_works_inside() -> None:
    own = Containment("own", (), (), (), (), "on")
    assert not needs_outside("ssh host ls", own)
    assert not needs_outside("docker ps", own)
    assert needs_outside("sudo id", own)
