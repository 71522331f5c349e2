"""Tests of the backend of a session: from the configuration, by choice, and after a resume (003-29, 003-30)."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.api import Agent, assemble
from agent.cli.render import brief_line
from agent.config import load_config
from agent.process import Crib
from toolcrib import ConfigError, ExecRequest, ToolCallStatus, ToolcribError
from toolcrib.contract.display import NO_DISPLAY
from toolcrib.testing import ScriptedSession
from tools.dispatch.bridge import run_async
from tools.dispatch.json_results import as_json

HERE = pytest.mark.xdist_group("bubblewrap")


def crib_of(folder: Path, text: str) -> Crib:
    file = folder / "config.yaml"
    file.write_text(text)
    project = folder / "project"
    project.mkdir(exist_ok=True)
    return assemble(config=load_config(file, project_dir=project), project_dir=project)


def says(session: Any, command: str) -> str:
    executed = session.call("terminal", {"command": command})
    assert executed.result.is_success, as_json(executed)
    return str(executed.result.data["output"])


@contextmanager
def session_of(crib: Crib, **options: Any) -> Iterator[Any]:
    session = crib.open_session(**options)
    try:
        yield session
    finally:
        session.close_sync()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("terminal: {backend: docker}", "needs an image"),
        ("terminal: {backend: ssh}", "set environments.ssh.host"),
        ("terminal: {backend: ssh}\nenvironments: {ssh: {host: 127.0.0.1, port: 1}}", "refuses connections"),
        ("terminal: {backend: docker}\nenvironments: {docker: {image: x, mounts: [/etc]}}", "belongs to the system"),
        ("terminal: {backend: docker}\nenvironments: {docker: {image: x, host: 'unix:///nowhere'}}", "does not answer"),
        ("terminal: {backend: gpu}\nenvironments: {hosts: {gpu: {user: me}}}", "set environments.hosts.gpu.host"),
        ("terminal: {backend: box}\nenvironments: {sandboxes: {box: {writable: [/nowhere]}}}", "/nowhere does not exist"),
        ("terminal: {backend: box}\nenvironments: {sandboxes: {box: {writable: ['~']}}}", "could reach"),
    ],
)
def test_a_place_that_cannot_be_had_is_an_error_and_nothing_runs_elsewhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str, said: str
) -> None:
    """003-29"""
    with crib_of(tmp_path, text) as crib:
        session = crib.open_session(cwd=str(tmp_path / "project"))
        executed = session.call("terminal", {"command": "touch here"})
        assert executed.status is not ToolCallStatus.SUCCEEDED
        assert said in as_json(executed)
    assert not (tmp_path / "project" / "here").exists()
    assert not caplog.records  # the caller gets the error, and it is no bug of ours


def test_what_is_wrong_in_the_configuration_is_named(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    wrong = "docker: {memory: much, keep: maybe, pids: 0}, local: {sandbox: chroot, writable: [here]}, hosts: {docker: {}}"
    file.write_text(f"environments: {{{wrong}, containers: {{'a b': {{}}}}}}")
    with pytest.raises(ConfigError) as error:
        load_config(file)
    for key in ("docker.memory", "docker.keep", "docker.pids", "local.sandbox", "local.writable", "hosts", "containers"):
        assert f"config.yaml:1: environments.{key}: expected" in str(error.value)


def test_a_name_means_one_place(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"containers\.gpu and environments\.hosts\.gpu have the same name"):
        crib_of(tmp_path, "environments: {hosts: {gpu: {host: h}}, containers: {gpu: {image: i}}}")


def test_a_named_place_that_lacks_what_it_needs_is_among_those_that_were_set_up(tmp_path: Path) -> None:
    """Doctor and the list report such a backend as unavailable."""
    with crib_of(tmp_path, "environments: {hosts: {gpu: {user: me}}, containers: {box: {project: none}}}") as crib:
        found = {backend.name: backend.missing for backend in crib.backends.configured()}
        assert found["gpu"] == "environments.hosts.gpu.host"
        assert found["box"] == "environments.containers.box.image"
        assert not {"bubblewrap", "docker", "ssh"} & set(found)


def test_an_unknown_place_is_told_with_all_that_there_are(tmp_path: Path) -> None:
    """003-29"""
    with crib_of(tmp_path, "terminal:\n  backend: gpo\nenvironments: {hosts: {gpu: {host: h}}}") as crib:
        with pytest.raises(
            ConfigError, match=r"config\.yaml:2: terminal\.backend: there is no backend 'gpo'.*did you mean 'gpu'"
        ):
            crib.open_session()
        with pytest.raises(ConfigError, match=r"there is no backend 'mars' .*known: local, bubblewrap, docker, ssh, gpu"):
            crib.open_session(backend="mars")


@pytest.fixture
def outside() -> Iterator[Path]:
    """A folder outside of the temporary folders, because a sandbox has its own temporary folder."""
    with tempfile.TemporaryDirectory(prefix=".tc-places-", dir=Path(__file__).parents[2]) as folder:
        yield Path(folder).resolve()


@HERE
def test_a_sandbox_by_configuration_hides_our_own_files(outside: Path) -> None:
    """003-29"""
    more = outside / "more"
    more.mkdir()
    (outside / "secrets.env").write_text("SOME_API_KEY=sesame-open-123\n")
    (outside / "secrets.env").chmod(0o600)
    (outside / "other.txt").write_text("seen")
    text = f"environments: {{local: {{sandbox: bubblewrap, writable: [{more}]}}}}\nstore: {{path: {outside}/own.db}}"
    with crib_of(outside, text) as crib, session_of(crib) as session:
        assert session.backend.kind == "bubblewrap"
        assert says(session, f"touch in {more}/in; touch {outside}/out 2>/dev/null || echo refused") == "refused\n"
        assert says(session, f"cat {outside}/other.txt") == "seen"
        run_async(session.say("so that something is in the store"))
        request = ExecRequest(
            f"(cd {outside}; cat secrets.env config.yaml own.db own.db-wal; ls plugins)"
        )  # the judge refuses it
        assert asyncio.run(session.scope.environment.execute(request)).stdout.total == 0
        assert (outside / "own.db-wal").stat().st_size > 0
        executed = session.call("read_file", {"path": f"{more}/in"})
        assert executed.result.is_success
        assert "local:bubblewrap" in as_json(executed)
        prompt = session.prompt.text()
        assert "Tools act on this machine, in a sandbox" in prompt
        assert "no network" in prompt
        assert str(more) in prompt
    assert (more / "in").exists()


def test_a_result_says_where_it_ran(tmp_path: Path) -> None:
    """003-29: results of commands always do; results of files if the backend is not the local machine without isolation."""
    with crib_of(tmp_path, "{}") as crib:
        with session_of(crib) as session:
            executed = session.call("terminal", {"command": "pwd"})
            assert executed.result.data["where"] == "local:workspace"
            assert "local" not in executed.result.views["person"]
            assert "[where" not in as_json(session.call("write_file", {"path": "a", "content": "b"}))
            assert "Tools act on this machine, in a sandbox" in session.prompt.text()
        with session_of(crib, backend="bubblewrap") as session:
            executed = session.call("terminal", {"command": "pwd"})
            assert executed.result.data["where"] == "local:bubblewrap"
            assert "local:bubblewrap]" in executed.result.views["person"]
            assert brief_line(executed, NO_DISPLAY).endswith("ok  local:bubblewrap")
            for call in (("read_file", {"path": "a"}), ("read_file", {"path": "none"}), ("search_files", {"pattern": "b"})):
                assert "[where: local:bubblewrap]" in as_json(session.call(*call))
            assert "[where" not in as_json(session.call("todo", {}))


# -- the choice, and resuming ----------------------------------------------------------------------------------------


@HERE
def test_each_session_has_a_place_and_a_folder_of_its_own(tmp_path: Path) -> None:
    """003-30"""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with (
        crib_of(tmp_path, "environments: {sandboxes: {box: {}}}") as crib,
        session_of(crib, cwd=str(tmp_path / "one")) as one,
        session_of(crib, cwd=str(tmp_path / "two"), backend="box") as two,
    ):
        assert says(one, "pwd") == f"{tmp_path}/one\n"
        assert says(two, "pwd") == f"{tmp_path}/two\n"
        assert two.call("terminal", {"command": "pwd", "cwd": "/usr"}).result.data["output"] == "/usr\n"
        assert (one.backend.name, two.backend.name) == ("local", "box")


@HERE
def test_an_agent_has_a_place_and_a_folder(tmp_path: Path) -> None:
    """003-30"""
    (tmp_path / "sub").mkdir()
    with Agent(project_dir=tmp_path, cwd=str(tmp_path / "sub"), backend="bubblewrap") as agent:
        assert agent.session.call("terminal", {"command": "pwd"}).result.data["output"] == f"{tmp_path}/sub\n"
        assert agent.session.backend.kind == "bubblewrap"


def test_a_session_goes_on_in_its_place(tmp_path: Path) -> None:
    """003-29: a session never silently continues in another backend."""
    named = "environments: {sandboxes: {box: {}}, hosts: {gpu: {host: one}}}"

    def begun(text: str, **options: Any) -> str:
        with crib_of(tmp_path, text) as crib, session_of(crib, **options) as session:
            session.link.use(ScriptedSession("hello"))
            run_async(session.ask("hi"))
            return str(session.id)

    def goes_on(text: str, session: str, **options: Any) -> str:
        with crib_of(tmp_path, text) as crib, session_of(crib, resume=session, **options) as again:
            return str(again.backend.name)

    plain, boxed, far = begun(named), begun(named, backend="box"), begun(named, backend="gpu", cwd="/srv")
    assert goes_on(named, plain) == "local"
    assert goes_on(named, boxed) == "box"
    assert goes_on(f"{named}\nterminal: {{backend: docker}}", boxed) == "box"
    with pytest.raises(ToolcribError, match=r"ran in local, but terminal\.backend is now box: .*--backend"):
        goes_on(f"{named}\nterminal: {{backend: box}}", plain)
    with pytest.raises(ToolcribError, match=r"ran in local, which was local and is now bubblewrap"):
        goes_on("environments: {local: {sandbox: bubblewrap}}", plain)
    with pytest.raises(ToolcribError, match=r"ran in box \(bubblewrap\), which is no longer configured"):
        goes_on("{}", boxed)
    with pytest.raises(ToolcribError, match=r"ran in gpu, which was ssh:one and is now ssh:two"):
        goes_on("environments: {hosts: {gpu: {host: two}}}", far)
    assert goes_on(named, boxed, backend="local") == "local"  # the person's explicit choice
    assert goes_on("{}", boxed) == "local"
    with crib_of(tmp_path, named) as crib:
        run_async(crib.store.sessions.create("older", platform="cli", user="", cwd=str(tmp_path)))
    assert goes_on("{}", "older") == "local"
    with crib_of(tmp_path, named) as crib:
        run_async(crib.store.sessions.create("oldest", platform="cli", user="", cwd=str(tmp_path)))
    with pytest.raises(ToolcribError, match="older than the record of backends"):
        goes_on(f"{named}\nterminal: {{backend: box}}", "oldest")
    with crib_of(tmp_path, named) as crib:
        kept = run_async(crib.store.sessions.get(far))
        assert kept is not None
        project = str(crib.project_dir)
        assert kept.place == {"name": "gpu", "target": "ssh:one", "chosen": "yes", "cwd": "/srv", "project": project}


# -- plugins ---------------------------------------------------------------------------------------------------------

MARS = """
from toolcrib import hookimpl
from toolcrib.testing import FakeEnvironment

@hookimpl
def register_environment(add):
    add("mars", lambda cwd: FakeEnvironment(commands=lambda request: (0, f"red in {cwd}".encode()), cwd=cwd))
"""


def test_a_plugin_adds_a_place(tmp_path: Path) -> None:
    """003-29"""
    plugin = tmp_path / "plugins" / "mars.py"
    plugin.parent.mkdir()
    plugin.write_text(MARS)
    text = "plugins: {enabled: [mars]}\n"
    with crib_of(tmp_path, text + "terminal: {backend: mars}") as crib:
        with session_of(crib) as session:
            assert says(session, "pwd") == f"red in {tmp_path}/project"
        with session_of(crib, cwd="/olympus") as session:
            assert says(session, "pwd") == "red in /olympus"
            assert session.call("terminal", {"command": "pwd"}).result.data["where"] == "fake"
            assert "Tools act on mars" in session.prompt.text()
    with crib_of(tmp_path, "terminal: {backend: mars}") as crib, pytest.raises(ConfigError, match="no backend 'mars'"):
        crib.open_session()  # it was removed with its plugin
    with crib_of(tmp_path, text + "environments: {hosts: {mars: {host: h}}}") as crib:
        assert "defines another backend 'mars'" in crib.plugins[0].error
        assert crib.backends.get("mars").kind == "ssh"


def test_secrets_file_is_not_read_into_any_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sesame-open-456")
    (tmp_path / "secrets.env").write_text("SOME_API_KEY=sesame-open-123\n")
    (tmp_path / "secrets.env").chmod(0o600)
    monkeypatch.setenv("NAMED", "yes")
    with crib_of(tmp_path, "terminal: {pass_env: [NAMED]}") as crib:
        for backend in ("local", "bubblewrap"):
            with session_of(crib, backend=backend) as session:
                seen = says(session, "printenv")
                assert "NAMED=yes" in seen
                assert "sesame" not in seen
                assert "API_KEY" not in seen
                assert os.environ["OPENAI_API_KEY"] not in seen


@HERE
def test_the_sandbox_of_this_machine_by_configuration(outside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """sandbox.mode applies to the backend local; the default is workspace."""
    home = outside / "home"
    for folder in ("project/.git", "project/sub", "sibling", "home/.ssh"):
        (outside / folder).mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("HOME", str(home))
    (home / ".ssh" / "id").write_text("key")
    text = f"sandbox: {{mode: workspace, write: [{outside}/sibling], network: none}}\nstore: {{path: {outside}/own.db}}"
    with crib_of(outside, text) as crib, session_of(crib, cwd=str(outside / "project" / "sub")) as session:
        assert session.backend.kind == "local"
        assert says(session, f"touch ../in {outside}/sibling/in; touch {outside}/out 2>/dev/null || echo refused") == "refused\n"
        environment = session.scope.environment
        seen = asyncio.run(environment.execute(ExecRequest(f"cat ~/.ssh/id {outside}/config.yaml {outside}/own.db")))
        assert seen.stdout.total == 0
        held = environment.containment()
        assert held is not None
        assert (held.mode, held.network) == ("workspace", "none")
        assert {f"{outside}/project", f"{outside}/sibling"} <= set(held.writable)
        assert "only the project" in session.prompt.text()
    assert (outside / "project" / "in").exists()
    with crib_of(outside, "sandbox: {mode: own}") as crib, session_of(crib) as session:
        assert says(session, f"touch {outside}/out && echo done") == "done\n"
        closed = asyncio.run(session.scope.environment.execute(ExecRequest(f"cat {outside}/config.yaml")))
        assert closed.stdout.total == 0
    with crib_of(outside, "sandbox: {mode: none}") as crib, session_of(crib) as session:
        assert says(session, "true") == ""
        assert session.scope.environment.identity == "local"
    with crib_of(outside, "{}") as crib, session_of(crib) as session:
        assert says(session, "true") == ""
        assert session.scope.environment.identity == "local:workspace"


@HERE
def test_keys_behind_links_are_masked(outside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Targets in the project itself are not masked: a person may work on files that the folders of keys link to."""
    home = outside / "home"
    for folder in ("project/.git", "home/.ssh", "home/keys"):
        (outside / folder).mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("HOME", str(home))
    for name, text in (
        ("home/keys/work", "key"),
        ("home/keys/deploy", "key"),
        ("project/config", "IdentityFile ~/keys/deploy\n"),
    ):
        (outside / name).write_text(text)
    (home / ".ssh" / "id").symlink_to("../keys/work")
    (home / ".ssh" / "config").symlink_to(outside / "project" / "config")
    text = "sandbox: {mode: workspace, network: none}"
    with crib_of(outside, text) as crib, session_of(crib, cwd=str(outside / "project")) as session:
        assert says(session, "cat ~/keys/work ~/keys/deploy config") == "IdentityFile ~/keys/deploy\n"


@HERE
def test_hosts_of_the_sandbox_by_configuration(outside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """sandbox.network: hosts lets commands reach only sandbox.hosts, and a call can request more."""
    monkeypatch.setattr("tools.environments.local.network.learned.learned_hosts", lambda *_: [])  # the real one takes a second
    text = "sandbox: {mode: workspace, outside: never, hosts: [known.example]}"
    with crib_of(outside, text) as crib, session_of(crib) as session:
        environment = session.scope.environment
        assert environment.containment().network == "hosts"
        assert asyncio.run(environment.unknown_hosts(["known.example", "new.example"])) == ["new.example"]
        assert says(session, "tail -n +2 /proc/net/route; tail -n +3 /proc/net/dev | cut -d: -f1").split() == ["lo"]
        assert "only hosts that the user allowed" in session.prompt.text()
        assert _parameters(crib, session) == ["command", "timeout", "cwd", "hosts"]
    with crib_of(outside, text.replace("never", "ask")) as crib, session_of(crib) as session:
        assert _parameters(crib, session) == ["command", "timeout", "cwd", "outside", "hosts"]
    with crib_of(outside, text.replace("workspace", "own")) as crib, session_of(crib) as session:
        assert session.scope.environment.containment().network == "hosts"
        assert says(session, "tail -n +2 /proc/net/route; tail -n +3 /proc/net/dev | cut -d: -f1").split() == ["lo"]
        assert _parameters(crib, session) == ["command", "timeout", "cwd", "hosts"]


def _parameters(crib: Any, session: Any) -> list[str]:
    (shown,) = crib.default.definitions(["terminal"], session.backend)
    return list(shown["function"]["parameters"]["properties"])
