"""Hard links of toolcrib's own files are judged as the files themselves; other files with several names are free."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolcrib import Containment
from tools.environments.local import LocalEnvironment
from tools.environments.own_files import OwnFiles
from tools.judge.own_code import Installed
from tools.judge.setting import Setting

Floors = Callable[..., Any]

OWN = {
    "settings": ".config/toolcrib/config.yaml",
    "keys": ".config/toolcrib/secrets.env",
    "allowlist": ".config/toolcrib/allowlist.json",
    "plugin": ".config/toolcrib/plugins/mine/plugin.toml",
    "store": ".local/state/toolcrib/toolcrib.db",
    "log of the store": ".local/state/toolcrib/toolcrib.db-wal",
    "memory": ".local/state/toolcrib/memory/1/MEMORY.markdown",
    "old contents": ".local/state/toolcrib/undo/contents.db",
}
CODE = {
    "package": "tool/site-packages/toolcrib/__init__.py",
    "library": "tool/site-packages/pluggy/_hooks.py",
    "program": "tool/bin/toolcrib",
}
LINKS = {
    "beside": "notes.txt",
    "in a folder": "src/a/notes.txt",
    "behind a linked folder": "linked/notes.txt",
    "behind a linked name": "name.txt",
    "outside": "../other/outside.txt",
}


class Place:
    """A home with toolcrib's own files and a project that has links of them."""

    def __init__(self, home: Path, floors: Floors, kind: type[LocalEnvironment] = LocalEnvironment) -> None:
        self.home, self.work = home, home / "work"
        for name in (*OWN.values(), *CODE.values()):
            self.file(name).parent.mkdir(parents=True, exist_ok=True)
            self.file(name).write_text(f"display: {name}\n")
        (self.work / "src" / "a").mkdir(parents=True)
        (home / "other").mkdir()
        (self.work / "linked").symlink_to(home / "other")
        (self.work / "name.txt").symlink_to(home / "other" / "named.txt")
        kept, code = (str(home / ".config" / "toolcrib"), str(home / ".local" / "state" / "toolcrib")), (str(home / "tool"),)
        setting = Setting(protected=kept, home=str(home), installed=Installed(closed=code))
        self.environment = kind(str(self.work), own=OwnFiles(kept, code))
        self.floor = floors(self.environment, setting=setting, project_root=str(self.work))

    def file(self, name: str) -> Path:
        return self.home / name

    def link(self, own: str, name: str) -> Path:
        """Link an own file to a name in the project. Return the own file."""
        at = Path(os.path.realpath(self.work / name))
        at.unlink(missing_ok=True)
        at.hardlink_to(self.file(own))
        return self.file(own)


@pytest.fixture
def place(floors: Floors, tmp_path: Path) -> Place:
    return Place(tmp_path / "home", floors)


@pytest.mark.parametrize("own", [*OWN.values(), *CODE.values()], ids=[*OWN, *CODE])
def test_no_file_tool_changes_an_own_file_by_another_name(place: Place, own: str) -> None:
    """003-24"""
    for name in LINKS.values():
        file = place.link(own, name)
        before = file.read_text()
        diff = f"--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-{before}+x\n"
        assert place.floor.call("write_file", {"path": name, "content": "x"}) == "refused"
        assert place.floor.call("patch", {"path": name, "old": "display", "new": "x"}) == "refused"
        assert place.floor.call("patch", {"diff": diff}) == "refused"
        assert place.floor.call("patch", {"diff": f"--- a/{name}\n+++ /dev/null\n@@ -1 +0,0 @@\n-{before}"}) == "refused"
        assert file.read_text() == before


@pytest.mark.parametrize("own", OWN.values(), ids=OWN)
def test_no_file_tool_reads_keys_or_state_by_another_name(place: Place, own: str) -> None:
    for name in LINKS.values():
        place.link(own, name)
        assert place.floor.call("read_file", {"path": name}) == "refused"


@pytest.mark.parametrize("own", CODE.values(), ids=CODE)
def test_installed_code_is_read_by_another_name(place: Place, own: str) -> None:
    for name in LINKS.values():
        place.link(own, name)
        assert place.floor.call("read_file", {"path": name}) == "ran"
        assert place.floor.do(f"cat {name}") == "ran"


WRITES = [
    "echo x > {}",
    "echo x >> ./{}",
    "cat src/b >| {}",
    "echo x | tee -a {}",
    "sed -i s/a/b/ {}",
    "cp src/b {}",
    "dd if=src/b of={}",
    "truncate -s 0 {}",
    "n={}; echo x > $n",
    "for f in {}; do echo x > $f; done",
    "exec 5>> {}; echo x >&5",
    "python3 -c \"open('{}', 'w').write('x')\"",
    "python3 -c \"import pathlib; pathlib.Path('{}').write_text('x')\"",
    "perl -e 'open F, \">{}\"; print F 1'",
    "node -e \"require('fs').writeFileSync('{}', 'x')\"",
    'ruby -e \'File.write("{}", "x")\'',
    "chmod 777 {}",
    "ln -s {} $PWD/m && echo x > m",
    "echo 'echo x > {}' > go.sh; sh go.sh",
]


@pytest.mark.parametrize("own", [OWN["settings"], OWN["store"], CODE["library"]], ids=["settings", "store", "code"])
def test_no_command_writes_to_an_own_file_by_another_name(place: Place, own: str) -> None:
    for name in ("notes.txt", "linked/notes.txt"):
        file = place.link(own, name)
        before = file.read_text()
        through = [line for line in WRITES if place.floor.do(line.format(name)) == "ran"]
        assert through == []
        assert file.read_text() == before


@pytest.mark.parametrize(
    "command", ["cat {}", "rev < {}", "cp {} copy", "grep display {}", "python3 -c \"print(open('{}').read())\"", "base64 ./{}"]
)
@pytest.mark.parametrize("own", [OWN["keys"], OWN["memory"]], ids=["keys", "memory"])
def test_no_command_reads_keys_or_state_by_another_name(place: Place, own: str, command: str) -> None:
    for name in LINKS.values():
        place.link(own, name)
        assert place.floor.do(command.format(name)) == "refused"


def test_files_that_share_nothing_with_ours_are_free(place: Place) -> None:
    """Package managers make such trees: all of their files have several names."""
    store = place.home / "store"
    store.mkdir()
    for number in range(30):
        (store / str(number)).write_text(f"x = {number}\n")
        (place.work / "src" / f"{number}.py").hardlink_to(store / str(number))
    floor = place.floor
    assert floor.call("read_file", {"path": "src/1.py"}) == "ran"
    assert floor.call("write_file", {"path": "src/2.py", "content": "x = 3\n"}) == "ran"
    assert (store / "2").read_text() == "x = 3\n"
    assert floor.call("patch", {"path": "src/3.py", "old": "= 3", "new": "= 4"}) == "ran"
    for command in ("cat src/*.py", "echo '#' >> src/4.py", "sed -i s/x/y/ src/5.py", "cp src/6.py src/7.py", "rm src/8.py"):
        assert floor.do(command) == "ran", command


def test_a_name_of_an_own_file_may_be_removed(place: Place) -> None:
    """Removing a hard or symbolic link keeps toolcrib's own file."""
    file = place.link(OWN["settings"], "notes.txt")
    assert place.floor.do("rm notes.txt") == "ran"
    assert file.exists()
    assert place.floor.call("write_file", {"path": "notes.txt", "content": "x"}) == "ran"


class Racing(LocalEnvironment):
    """The local environment; an own file is linked right before a judged file is opened."""

    before: Callable[[], object] = staticmethod(lambda: None)

    async def read_file(self, path: str, *, limit: int | None = None) -> bytes:
        self.before()
        return await super().read_file(path, limit=limit)

    async def replace_file(self, path: str, data: bytes, *, mode: int | None = None, mtime_ns: int | None = None) -> Any:
        self.before()
        return await super().replace_file(path, data, mode=mode, mtime_ns=mtime_ns)


@pytest.mark.parametrize("own", [OWN["keys"], OWN["store"], CODE["package"]], ids=["keys", "store", "code"])
def test_a_link_that_is_put_there_after_the_judgement_is_seen_when_it_is_opened(floors: Floors, tmp_path: Path, own: str) -> None:
    place = Place(tmp_path / "home", floors, Racing)
    (place.work / "notes.txt").write_text("notes\n")
    place.environment.before = lambda: place.link(own, "notes.txt")  # type: ignore[attr-defined]  # Racing's
    for tool, args in (
        ("read_file", {"path": "notes.txt"}),
        ("write_file", {"path": "notes.txt", "content": "x"}),
        ("patch", {"path": "notes.txt", "old": "notes", "new": "x"}),
    ):
        (place.work / "notes.txt").unlink()
        (place.work / "notes.txt").write_text("notes\n")
        result = place.floor.run(tool, args).result
        assert result.failure is not None, tool
        assert "another name of toolcrib's own" in result.failure.text or "was replaced by a link" in result.failure.text
        assert place.file(own).read_text() == f"display: {own}\n"


class Masked(LocalEnvironment):
    """An environment that claims a sandbox that masks toolcrib's own files."""

    def containment(self) -> Containment:
        home = str(Path(self.cwd).parent)
        masked = (f"{home}/.config/toolcrib", f"{home}/.local/state/toolcrib")
        return Containment("workspace", writable=(home,), ephemeral=(), masked=masked, read_only=(), network="none")


@pytest.mark.parametrize("command", ["grep -rn display {}", "cd {} && rg --hidden x", "tar cf /dev/null {}"])
def test_a_read_of_the_home_is_free_in_a_sandbox_until_an_own_file_has_another_name(
    floors: Floors, tmp_path: Path, command: str
) -> None:
    """The mask hides a path, not the file."""
    place = Place(tmp_path / "home", floors, Masked)
    command = command.format(place.home)
    assert place.floor.do(command) == "ran"
    assert "settings and state are hidden in the sandbox" in place.floor.last.result.data["notice"]
    place.link(OWN["keys"], "notes.txt")
    assert place.floor.do(command) == {"self.above"}
