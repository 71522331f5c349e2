"""Many workspaces and principals in one process: each has its own configuration, policy and grants."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import textwrap
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.api import assemble
from agent.config import config_path, load_config
from agent.explainer import Explainer
from agent.process import Crib
from agent.store.memory import MemoryStore
from agent.store.sqlite import SqliteStore
from agent.workspace import Workspace
from toolcrib import Answer, ConfigError, ExecutedCall, Principal, SuspendTicket, ToolCallContext
from tools.approval.policy import Policy
from tools.dispatch.bridge import close_loop, run_async
from tools.dispatch.scope import Limits

DELETES = {"command": "rm -rf build"}


def configure(text: str, path: Path | None = None) -> Path:
    path = path or config_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    def make(name: str) -> Path:
        folder = tmp_path / name
        (folder / "build").mkdir(parents=True, exist_ok=True)
        return folder.resolve()

    yield make
    close_loop()


@pytest.fixture
def crib(folders: Callable[[str], Path]) -> Iterator[Crib]:
    with assemble(project_dir=folders("home"), store=MemoryStore()) as made:
        yield made


def approve(scope: str) -> Any:
    def asker(ticket: SuspendTicket, ctx: ToolCallContext) -> Answer:
        return Answer(ticket.id, payload={"approved": True, "scope": scope}, by="me")

    return asker


def run(where: Crib | Workspace, name: str, args: Any, **wanted: Any) -> ExecutedCall:
    session = where.open_session(**wanted)
    try:
        return session.call(name, args)
    finally:
        session.close_sync()


# -- workspaces --------------------------------------------------------------------------------------------------------


def test_a_workspace_is_made_once(crib: Crib, folders: Callable[[str], Path]) -> None:
    a = crib.workspace(folders("a"))
    assert crib.workspace(str(folders("a"))) is a
    assert crib.workspace(folders("b")) is not a
    assert crib.workspace() is crib.default
    config = load_config()
    assert crib.workspace(folders("a"), config=config) is crib.workspace(folders("a"), config=load_config())
    assert crib.workspace(config=config).project_dir == crib.project_dir
    alike = dataclasses.replace(config, path=config.path.with_name("other.yaml"))
    assert crib.workspace(folders("a"), config=alike) is not crib.workspace(folders("a"), config=config)


def test_a_session_runs_in_its_workspaces_folder(crib: Crib, folders: Callable[[str], Path]) -> None:
    for name in ("a", "b"):
        (folders(name) / "who").write_text(name)
    told = [run(crib.workspace(folders(name)), "terminal", {"command": "cat who"}).result.data["output"] for name in ("a", "b")]
    assert told == ["a", "b"]


def test_a_folders_own_configuration_narrows_its_workspace_alone(crib: Crib, folders: Callable[[str], Path]) -> None:
    configure("tools: {disabled: [terminal]}\n", folders("a") / ".toolcrib" / "config.yaml")
    assert "terminal" not in crib.workspace(folders("a")).granted("cli")
    assert "terminal" in crib.workspace(folders("b")).granted("cli")
    assert "terminal" in crib.granted("cli")


def test_a_broken_configuration_breaks_its_workspace_alone(crib: Crib, folders: Callable[[str], Path]) -> None:
    configure("tools: [", folders("a") / ".toolcrib" / "config.yaml")
    with pytest.raises(ConfigError):
        crib.workspace(folders("a"))
    assert run(crib.workspace(folders("b")), "terminal", {"command": "true"}).result.is_success


def test_each_workspace_has_its_own_rules_toolsets_and_backends(
    crib: Crib, folders: Callable[[str], Path], tmp_path: Path
) -> None:
    text = """
        approval:
          tools: [{tool: terminal, decision: deny, why: not here}]
          rules: [{key: own.curl, level: block, command: curl, why: no network here, example: [curl http://a.test]}]
        toolsets: {custom: {looks: {description: d, tools: [read_file]}}}
        environments: {sandboxes: {tight: {network: false}}}
    """
    strict = crib.workspace(folders("a"), config=load_config(configure(text, tmp_path / "strict.yaml")))
    refused = run(strict, "terminal", {"command": "true"})
    assert "Denied by the operator's rule for 'terminal': not here." in (refused.result.message or "")
    assert run(crib, "terminal", {"command": "true"}).result.is_success
    assert [strict.catalog.resolve("looks"), "looks" in crib.catalog.names()] == [["read_file"], False]
    assert ("tight" in strict.backends.named, "tight" in crib.backends.named) == (True, False)
    assert [any("own.curl" in key for key in keys(where, "curl http://x.test")) for where in (strict, crib.default)] == [
        True,
        False,
    ]


def keys(where: Workspace, command: str) -> list[str]:
    """Return the keys of the findings for a command in that workspace."""

    async def found() -> list[str]:
        explainer = await Explainer.of_new(where)
        try:
            return [one.key for one in (await explainer.explain(command)).findings]
        finally:
            await explainer.close()

    return run_async(found())


def test_a_grant_of_one_workspace_covers_nothing_in_another(crib: Crib, folders: Callable[[str], Path]) -> None:
    a, b = crib.workspace(folders("a")), crib.workspace(folders("b"))
    assert run(a, "terminal", DELETES, asker=approve("always")).result.is_success
    folders("a")
    assert run(a, "terminal", DELETES).result.is_success
    assert run(b, "terminal", DELETES).result.is_error
    [grant] = a.grants.permanent()
    assert grant.root == str(a.project_dir)
    [read] = crib.workspace(folders("c")).grants.permanent()  # one file, read again for another folder
    assert (read.id, read.root) == (grant.id, grant.root)


def test_no_workspace_writes_the_configuration_of_another(crib: Crib, folders: Callable[[str], Path], tmp_path: Path) -> None:
    """The other workspace may be opened later: an open session protects its configuration from the next run on."""
    session = crib.open_session()
    before = crib.default.setting
    path = configure("max_turns: 3\n", tmp_path / "elsewhere" / "config.yaml")
    other = crib.workspace(folders("a"), config=load_config(path))
    write = {"path": str(path), "content": "tools: {disabled: []}\n"}
    for where in (crib, other):
        assert "regardless of grants" in (run(where, "write_file", write, asker=approve("once")).result.message or "")
    assert session.outfit is not None
    session.outfit(Principal())
    policy = session.scope.policy
    assert isinstance(policy, Policy)
    assert (policy.setting is crib.default.setting, policy.setting is before) == (True, False)
    session.close_sync()
    assert path.read_text() == "max_turns: 3\n"


# -- releasing them ----------------------------------------------------------------------------------------------------


def test_a_workspace_that_nobody_has_is_forgotten(crib: Crib, folders: Callable[[str], Path]) -> None:
    session = crib.workspace(folders("a")).open_session()
    held = [weakref.ref(crib.workspace(folders(name))) for name in ("a", "b")]
    gc.collect()
    a, b = (one() for one in held)
    assert (a is crib.workspace(folders("a")), a is None, b is None) == (True, False, True)
    session.close_sync()
    grants, a, session = weakref.ref(crib.workspace(folders("a")).grants), None, None  # type: ignore[assignment]  # no references are left
    gc.collect()
    assert (held[0](), grants()) == (None, None)
    assert weakref.ref(crib.default)() is crib.workspace()


@pytest.mark.untraced
def test_two_thousand_folders_leave_nothing_behind(folders: Callable[[str], Path], tmp_path: Path) -> None:
    """The folders share the parsed configuration, which is read once."""
    configure("toolsets: {custom: {looks: {description: d, tools: [read_file]}}}\ncommand_allowlist: [make clean]\n")
    with assemble(project_dir=folders("home"), store=MemoryStore()) as crib:
        before = crib.workspace(tmp_path / "first")
        gc.collect()
        objects = len(gc.get_objects())
        for number in range(2_000):
            last = crib.workspace(tmp_path / str(number))
            assert (last.config is before.config, last.setting is before.setting) == (True, True)
        assert last.project_dir == tmp_path / "1999"
        gc.collect()
        assert len(gc.get_objects()) - objects < 1_000


def test_a_projects_file_that_appears_later_counts_once_nobody_has_the_workspace(
    crib: Crib, folders: Callable[[str], Path]
) -> None:
    a = crib.workspace(folders("a"))
    configure("tools: {disabled: [terminal]}\n", folders("a") / ".toolcrib" / "config.yaml")
    assert crib.workspace(folders("a")) is a
    assert ("terminal" in a.granted(), "terminal" in crib.workspace(folders("b")).granted()) == (True, True)
    del a
    gc.collect()
    assert "terminal" not in crib.workspace(folders("a")).granted()
    assert "terminal" in crib.workspace(folders("b")).granted()
    configure("tools: [", folders("a") / ".toolcrib" / "config.yaml")
    gc.collect()
    with pytest.raises(ConfigError):
        crib.workspace(folders("a"))


def test_a_changed_file_is_read_for_folders_that_are_new(folders: Callable[[str], Path]) -> None:
    configure("max_turns: 3\n")
    with assemble(project_dir=folders("home"), store=MemoryStore()) as crib:
        a = crib.workspace(folders("a"))
        configure("max_turns: 4\n")
        assert (crib.workspace(folders("a")) is a, crib.workspace(folders("b")).config.max_turns) == (True, 4)
        configure("max_turns: [")
        with pytest.raises(ConfigError):
            crib.workspace(folders("c"))


def test_after_a_reload_folders_go_by_the_new_file_and_open_sessions_by_the_old(
    crib: Crib, folders: Callable[[str], Path], tmp_path: Path
) -> None:
    path = configure("max_turns: 3\n")
    crib.reconfigure(load_config(path), path.read_bytes())
    session = crib.workspace(folders("a")).open_session()
    before = crib.workspace(folders("a"))
    path.rename(tmp_path / "real.yaml")
    path.symlink_to(tmp_path / "real.yaml")
    crib.reconfigure(load_config(path), path.read_bytes())
    now = crib.workspace(folders("a"))
    assert now is not before
    configure("max_turns: 5\n")  # takes effect after the next reload
    assert [crib.workspace(folders(name)).config.max_turns for name in ("a", "b")] == [3, 3]
    for where in (before, now, crib.default):  # each of them denies writes to the file's real path
        write = {"path": str(tmp_path / "real.yaml"), "content": "x"}
        assert "regardless of grants" in (run(where, "write_file", write, asker=approve("once")).result.message or "")
    crib.reconfigure(load_config(path), path.read_bytes())
    assert [crib.workspace(folders(name)).config.max_turns for name in ("a", "b")] == [5, 5]
    assert session.config.max_turns == 3
    session.close_sync()


def test_old_contents_of_all_folders_lie_in_one_store(folders: Callable[[str], Path], tmp_path: Path) -> None:
    """Each store has its own threads."""
    others = set(threading.enumerate())
    with assemble(project_dir=folders("home"), store=SqliteStore(tmp_path / "store.db")) as crib:
        for name in ("a", "b", "c"):
            (folders(name) / "text").write_text("old")
            session = crib.workspace(folders(name)).open_session()
            written = session.call("write_file", {"path": "text", "content": "new"})
            assert written.result.is_success
            session.close_sync()
        assert [one.name for one in set(threading.enumerate()) - others].count("writes contents.db") == 1
        assert len(run_async(crib.undo(session.id).steps())) == 1


def test_entries_that_nobody_confirmed_are_told_of_once(folders: Callable[[str], Path], caplog: pytest.LogCaptureFixture) -> None:
    path = configure("command_allowlist: [make clean]\n")
    with assemble(project_dir=folders("home"), store=MemoryStore()) as crib:
        assert len(caplog.messages) == 2
        for name in ("a", "b"):
            assert len(crib.workspace(folders(name)).grants.unconfirmed()) == 1
        assert len(caplog.messages) == 2
        a, b = crib.workspace(folders("a")), crib.workspace(folders("b"))
        a.grants.confirm()
        assert len(a.grants.permanent()) == 1
        assert (b.grants.permanent(), len(b.grants.unconfirmed())) == ([], 1)
        [grant] = a.grants.permanent()
        del a, b
        gc.collect()
        assert crib.workspace(folders("a")).grants.permanent() == [grant]
        assert run_async(crib.workspace(folders("a")).grants.revoke(grant.id))
        configure("command_allowlist: [make clean]\n", path)  # a revoked grant does not return with its line
        gc.collect()
        assert [list(crib.workspace(folders(name)).grants.permanent()) for name in ("a", "b")] == [[], []]


# -- principals --------------------------------------------------------------------------------------------------------


def test_lasting_grants_of_others_lie_in_the_store(folders: Callable[[str], Path]) -> None:
    """``command_allowlist`` is the local user's: no other user writes to it, and it covers no other user."""
    home, store = folders("home"), MemoryStore()
    configure("max_turns: 3\n")
    ann = {"platform": "telegram", "user": "ann"}
    with assemble(project_dir=home, store=store) as crib:
        assert run(crib, "terminal", DELETES, asker=approve("always"), **ann).result.is_success
        assert "command_allowlist" not in config_path().read_text()
        assert [(one.principal, one.scope) for one in run_async(store.grants.all())] == [("telegram:ann", "always")]
        outcomes = []
        for who in (
            ann,
            {"platform": "telegram", "user": "bob"},
            {"platform": "api", "user": "ann"},
            {"platform": "telegram"},
            {},
        ):
            folders("home")
            outcomes.append(run(crib, "terminal", DELETES, **who).result.is_success)
        assert outcomes == [True, False, False, False, False]


def test_the_local_persons_allowlist_covers_nobody_else(crib: Crib, folders: Callable[[str], Path]) -> None:
    assert run(crib, "terminal", DELETES, asker=approve("always")).result.is_success
    folders("home")
    for user in ("ann", ""):  # nor a user without an id
        assert run(crib, "terminal", DELETES, platform="telegram", user=user).result.is_error
    assert run(crib, "terminal", DELETES, platform="api").result.is_success


def test_a_session_of_several_people_has_the_tools_of_whom_its_run_is_for(folders: Callable[[str], Path]) -> None:
    configure("users: {bob: {disabled_tools: [terminal]}, 'telegram:eve': {disabled_toolsets: [file]}}\n")
    with assemble(project_dir=folders("home"), store=MemoryStore()) as crib:
        session = crib.open_session(platform="telegram", user="ann")
        assert session.outfit is not None
        given = {}
        for user in ("ann", "bob", "eve", "ann"):
            session.outfit(Principal("telegram", user))
            assert session.scope.granted == frozenset(session.names)
            given[user] = ("terminal" in session.names, "read_file" in session.names)
        assert given == {"ann": (True, True), "bob": (False, True), "eve": (True, False)}
        assert "read_file" in crib.granted("cli", user="eve")
        session.close_sync()


# -- the process -------------------------------------------------------------------------------------------------------

PLUGIN = """
import asyncio, pathlib
from toolcrib import hookimpl

LOG = pathlib.Path({log!r})

@hookimpl
async def on_start():
    with LOG.open("a") as file:
        file.write("start ")
    {does}

@hookimpl
async def on_stop():
    with LOG.open("a") as file:
        file.write("stop ")

@hookimpl
def register_platform(add):
    add({platform!r}, lambda name, **more: None)
"""


def with_plugin(tmp_path: Path, does: str = "await asyncio.sleep(0)", platform: str = "bells") -> Path:
    path, log = configure("plugins: {enabled: [lasting]}\n"), tmp_path / "log"
    folder = path.parent / "plugins"
    folder.mkdir()
    (folder / "lasting.py").write_text(PLUGIN.format(log=str(log), does=does, platform=platform))
    log.touch()
    return log


def test_plugins_start_with_the_first_thing_that_a_session_does(tmp_path: Path, folders: Callable[[str], Path]) -> None:
    log = with_plugin(tmp_path)
    with assemble(project_dir=folders("home"), store=MemoryStore()) as crib:
        crib.granted()
        assert log.read_text() == ""
        for _ in range(2):
            assert run(crib, "terminal", {"command": f"cat {log}"}).result.data["output"] == "start "
        assert list(crib.platforms) == ["bells"]
    assert log.read_text() == "start stop "


def test_a_host_starts_and_closes_in_its_own_loop(tmp_path: Path, folders: Callable[[str], Path]) -> None:
    log = with_plugin(tmp_path)

    async def main() -> None:
        async with assemble(project_dir=folders("home"), store=MemoryStore()) as crib:
            await asyncio.gather(crib.start(), crib.start())
            assert log.read_text() == "start "
        await crib.aclose()

    asyncio.run(main())
    assert log.read_text() == "start stop "


def test_close_from_another_thread_stops_plugins_where_they_were_started(tmp_path: Path, folders: Callable[[str], Path]) -> None:
    log = with_plugin(tmp_path)

    async def main() -> None:
        crib = assemble(project_dir=folders("home"), store=MemoryStore())
        await crib.start()
        await asyncio.to_thread(crib.close)

    asyncio.run(main())
    assert log.read_text() == "start stop "


def test_a_plugin_that_can_not_start_is_reported_and_stays(tmp_path: Path, folders: Callable[[str], Path]) -> None:
    log = with_plugin(tmp_path, does="raise OSError('no line')")
    with assemble(project_dir=folders("home"), store=MemoryStore()) as crib:
        assert run(crib, "terminal", {"command": "true"}).result.is_success
        [info] = crib.plugins
        assert (info.loaded, info.error) == (True, "it could not be started: OSError: no line")
    assert log.read_text() == "start "


def test_doctor_tells_of_a_plugin_that_can_not_start(tmp_path: Path, folders: Callable[[str], Path]) -> None:
    from agent.cli.checks import check_assembled

    with_plugin(tmp_path, does="raise OSError('no line')")
    found = list(check_assembled(load_config(), folders("home")))
    told = [one.text for one in found if one.level == "wrong"]
    assert "plugin lasting (user): it could not be started: OSError: no line" in told


@pytest.mark.parametrize("name", ["cli", "api", "gateway"])
def test_no_plugin_takes_a_platform_of_toolcribs_own(tmp_path: Path, folders: Callable[[str], Path], name: str) -> None:
    with_plugin(tmp_path, platform=name)
    with assemble(project_dir=folders("home"), store=MemoryStore()) as crib:
        [info] = crib.plugins
        assert info.error == f"the platform {name!r} is toolcrib's own; choose another name"
        assert crib.platforms == {}


@pytest.mark.parametrize(
    ("hook", "name", "problem"),
    [
        ("environment", "docker", "the backend 'docker' is toolcrib's own; choose another name"),
        ("environment", "Docker", "the backend 'Docker' is toolcrib's own; choose another name"),
        ("environment", " docker", "the backend name ' docker' is invalid: use letters, digits, '.', '_' and '-'"),
        (
            "environment",
            "local:workspace",
            "the backend name 'local:workspace' is invalid: use letters, digits, '.', '_' and '-'",
        ),
        ("provider", "chat", "the provider 'chat' is toolcrib's own; choose another name"),
        ("provider", "OpenAI", "the provider 'OpenAI' would get the key of another vendor, OPENAI_API_KEY; choose another name"),
        ("provider", "google", "the provider 'google' would get the key of another vendor, GOOGLE_API_KEY; choose another name"),
        ("provider", "hello", ""),
    ],
)
def test_no_plugin_takes_a_name_that_could_pass_for_another(
    folders: Callable[[str], Path], hook: str, name: str, problem: str
) -> None:
    folder = configure("plugins: {enabled: [mine]}\n").parent / "plugins"
    folder.mkdir()
    (folder / "mine.py").write_text(
        f"from toolcrib import hookimpl\n@hookimpl\ndef register_{hook}(add):\n    add({name!r}, lambda **given: None)\n"
    )
    with assemble(project_dir=folders("home"), store=MemoryStore()) as crib:
        assert [info.error for info in crib.plugins] == [problem]


def test_sessions_of_a_plugins_platform_get_a_chats_tools(tmp_path: Path, folders: Callable[[str], Path]) -> None:
    with_plugin(tmp_path)
    with assemble(project_dir=folders("home"), store=MemoryStore()) as crib:
        assert crib.granted("bells") == crib.granted("gateway")
        assert crib.workspace(folders("a")).granted("bells") == crib.granted("bells")


def test_calls_are_bounded_where_the_configuration_says_nothing(crib: Crib) -> None:
    """000-37"""
    limits, standing = crib.default.limits, Limits()
    assert (limits.handler_seconds, limits.gate_seconds) == (standing.handler_seconds, standing.gate_seconds)
    assert (limits.answer_seconds, limits.park_seconds) == (300, 7 * 24 * 3600)
