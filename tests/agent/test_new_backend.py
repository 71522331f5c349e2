"""Backends that are added to a copy of the sources, as CONTRIBUTING.md describes, work everywhere: no other file names them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.compiled import copy_sources
from tests.docs.snippets import Block, blocks

Run: TypeAlias = Callable[..., subprocess.CompletedProcess[str]]

ENVIRONMENT = '''
import tempfile

from toolcrib.contract.dataclass import replace
from tools.environments.local import LocalEnvironment


class ScratchEnvironment(LocalEnvironment):
    """A folder that is deleted at the end."""

    def __init__(self, label):
        self._folder = tempfile.TemporaryDirectory(prefix=f"toolcrib-{label}-")
        super().__init__(self._folder.name)

    @property
    def identity(self):
        return "scratch"

    async def execute(self, request):
        return replace(await super().execute(request), where=self.identity)

    async def close(self):
        await super().close()
        self._folder.cleanup()


def open_scratch(*, label, cwd=None):
    return ScratchEnvironment(label)
'''
ROW = """
    BackendRow(
        name="scratch",
        opener="scratch:open_scratch",
        about="a folder that is deleted",
        manual="Commands run in a folder that is deleted at the end.",
        section="scratch",
        named="scratches",
        needs=NeededSetting(key="label", metavar="TEXT", help="a part of the folder's name", question="the label"),
    ),
"""
KIND = """
from agent.backends.base import Backend
from tools.environments import open_environment


class ScratchBackend(Backend):
    __slots__ = ()

    @property
    def shown(self):
        return f"a folder named {self.options['label'] or 'nothing'}"

    def open(self, opening):
        return open_environment(self.kind, **self.options)


KIND = ScratchBackend
"""
SETTINGS = '''
@dataclass(frozen=True, slots=True)
class ScratchConfig:
    """A folder, with terminal.backend: scratch"""

    label: str = setting("", "A part of its name.", expect="text")


'''
SECTIONS = """
    scratch: ScratchConfig = field(default_factory=ScratchConfig)
    scratches: Mapping[str, ScratchConfig] = setting(dict, "More folders.", expect="names", check=_chosen_names)
"""


IMPORTS = {
    "from toolcrib import EnvironmentFailed, hookimpl": "from toolcrib.contract.errors import EnvironmentFailed",
    "from toolcrib.backends import": "from tools.environments.remote.program import",
}
"""Import line of a plugin -> the equivalent in toolcrib's own modules."""


def documented(root: Path) -> tuple[str, str]:
    """Return the backend of docs/backends.md as a part of toolcrib: its module, without the hook, and its row."""
    found = blocks((root / "docs/backends.md").read_text("utf-8"))

    def text_of(wanted: Callable[[Block], bool]) -> str:
        return next(block.text for block in found if wanted(block))

    module = text_of(lambda block: block.file.endswith("offline.py")).partition("@hookimpl")[0]
    for before, after in IMPORTS.items():
        assert before in module
        module = module.replace(before, after)
    return module, text_of(lambda block: block.text.startswith("BackendRow(")).rstrip()


def put(file: Path, before: str, text: str) -> None:
    source = file.read_text()
    assert source.count(before) == 1
    file.write_text(source.replace(before, text + before))


@pytest.fixture(scope="module")
def tree(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources with two added backends: a complete one, and the documented one with only a module and a row."""
    tree = tmp_path_factory.mktemp("tree")
    copy_sources(("agent", "tools", "toolcrib", "plugins", "docs", "model_tools.py", "toolsets.py"), root, tree)
    folder = tree / "tools" / "environments"
    (folder / "scratch").mkdir()
    (folder / "scratch" / "__init__.py").write_text(ENVIRONMENT)
    (tree / "agent" / "backends" / "scratch.py").write_text(KIND)
    module, row = documented(root)
    (folder / "offline").mkdir()
    (folder / "offline" / "__init__.py").write_text(module)
    put(folder / "rows.py", ')}\n"""The table', f",{ROW}    {row},\n")
    put(tree / "agent" / "config" / "_environments.py", "@dataclass(frozen=True, slots=True)\nclass EnvironmentsConfig", SETTINGS)
    put(tree / "agent" / "config" / "_environments.py", "    sandboxes: Mapping", SECTIONS)
    return tree


@pytest.fixture
def toolcrib(tree: Path, tmp_path: Path) -> Run:
    """Return ``toolcrib("env", ...)``, which runs the copy's program in a project; it must exit with ``expect``."""
    project = tmp_path / "project"
    project.mkdir()

    def run(*words: str, expect: int = 0, code: str = "from agent.cli import main; sys.exit(main(sys.argv[1:]))") -> Any:
        env = {**os.environ, "PYTHONPATH": str(tree), "PYTHONPYCACHEPREFIX": ""}
        argv = [sys.executable, "-c", f"import sys; {code}", *words]
        done = subprocess.run(
            argv, cwd=project, env=env, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, check=False
        )
        assert done.returncode == expect, done.stdout + done.stderr
        return done

    return run


def test_it_is_configured_listed_and_run(toolcrib: Run) -> None:
    listed = {one["name"]: one for one in json.loads(toolcrib("env", "--json").stdout)["places"]}
    assert listed["scratch"] == {
        "name": "scratch", "kind": "scratch", "where": "a folder named nothing", "default": False, "configured": False,
        "state": "not configured: set environments.scratch.label",
    }  # fmt: skip
    toolcrib("config", "set", "environments.scratch.label", "one")
    assert "✓ scratch  scratch  open" in toolcrib("env", "test", "scratch").stdout
    assert "✓ backend scratch: scratch" in toolcrib("doctor").stdout
    done = json.loads(toolcrib("call", "terminal", '{"command": "pwd"}', "--backend", "scratch").stdout)
    assert "/toolcrib-one-" in done["output"]
    assert done["where"] == "scratch"
    assert not Path(done["output"].strip()).exists()
    code = (
        "import model_tools as m; m.set_task_environment('t', backend='scratch', label='two');"
        """print(m.handle_function_call('terminal', {'command': 'pwd'}, 't')); m.end_task('t')"""
    )
    assert "/toolcrib-two-" in toolcrib(code=code).stdout


def test_its_kind_takes_names(toolcrib: Run) -> None:
    toolcrib("config", "set", "environments.scratches.mine.label", "three")
    assert "✓ mine  scratch" in toolcrib("env", "test", "mine").stdout
    assert "expected names" in toolcrib("config", "set", "environments.scratches.scratch.label", "x", expect=2).stderr


def test_help_completion_and_the_manual_name_it(toolcrib: Run) -> None:
    assert "scratch" in toolcrib("completion", "--names", "backends").stdout.split()
    assert "scratch" in toolcrib("completion", "--names", "values", "--key", "terminal.backend").stdout.split()
    assert "environments.scratch.label" in toolcrib("completion", "--names", "keys").stdout.split()
    assert "ssh, scratch, offline ..." in " ".join(toolcrib("chat", "--help").stdout.split())
    assert "scratch (a folder that is deleted)" in toolcrib("env", "--help").stdout
    page = toolcrib("docs", "reference/backends/scratch").stdout
    assert "Commands run in a folder that is deleted at the end." in page
    assert "scratch" in toolcrib("docs", "reference/backends/index").stdout


def test_setup_asks_for_what_it_needs(toolcrib: Run) -> None:
    words = ("setup", "--provider", "manual", "--ports", "1", "--backend", "scratch")
    assert "--label TEXT scratch: a part of the folder's name" in " ".join(toolcrib("setup", "--help").stdout.split())
    assert "use --label TEXT" in toolcrib(*words, expect=2).stderr
    done = toolcrib(*words, "--label", "four").stdout
    assert "✓ scratch  scratch  open" in done
    assert 'environments.scratch.label: "" -> "four"' in done
    assert "commands may be unrestricted" in done  # its row does not declare containment
    assert "--label x is for scratch" in toolcrib(*words[:-1], "local", "--label", "x", expect=2).stderr


def test_what_its_row_does_not_say_is_not_so(toolcrib: Run) -> None:
    """Users of a bot get no tools in it, and its sessions take no snapshots of this machine."""
    code = """
from agent.backends import Backends
from agent.config import load_config
backend = Backends(load_config(), ()).get("scratch")
print(backend.row.is_contained, backend.row.runs_here, backend.is_remote, backend.held)
"""
    assert toolcrib(code=code).stdout == "False False True none\n"


@pytest.mark.xdist_group("offline")
def test_one_that_its_row_describes_needs_no_class(toolcrib: Run) -> None:
    """The backend is that of docs/backends.md: commands and files of this machine, and no network."""
    listed = {one["name"]: one for one in json.loads(toolcrib("env", "--json").stdout)["places"]}
    assert listed["offline"]["where"] == "this machine without a network"
    assert "✓ offline  offline  open" in toolcrib("env", "test", "offline").stdout
    command = "pwd; tail -n +3 /proc/net/dev | cut -d: -f1; echo ${TOOLCRIB_SECRET-none}; grep -c TOOLCRIB_SECRET /proc/1/environ"
    code = """
import asyncio, os
from toolcrib import ExecRequest
from tools.environments import open_environment
os.environ["TOOLCRIB_SECRET"] = "key"
async def main():
    env = open_environment("offline", cwd=os.getcwd())
    print((await env.execute(ExecRequest(sys.argv[1]))).stdout.head.decode())
    await env.close()
asyncio.run(main())
"""
    folder, *said = toolcrib(command, code=code).stdout.split()
    assert Path(folder).name == "project"
    assert said == ["lo", "none", "0"]
    done = json.loads(toolcrib("call", "terminal", '{"command": "pwd"}', "--backend", "offline").stdout)
    assert (done["output"].strip(), done["where"]) == (folder, "offline")
    code = """
from agent.backends import Backends
from agent.config import load_config
backend = Backends(load_config(), ()).get("offline")
print(type(backend).__name__, backend.model_description, backend.row.is_contained, backend.is_remote)
"""
    assert toolcrib(code=code).stdout == "Backend offline: this machine without a network. False False\n"
