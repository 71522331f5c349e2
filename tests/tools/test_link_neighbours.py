"""Second names (hard links) of toolcrib's own files and of others: an own file is protected under each of its names."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.api import Crib, assemble
from toolcrib import Answer
from tools.dispatch.bridge import close_loop

CONFIG, SECRET, NOTE = "max_turns: 7\n", "sk-lnk-4f9a1c77d2e84b0c9d35", "the cat is called Mog"
NO = "no, said the one who was asked"
OWN = {
    "notes.yaml": "config/config.yaml",
    "env.txt": "config/secrets.env",
    "helper.py": "config/plugins/mine.py",
    "sub/deep.md": "state/memory/me/MEMORY.markdown",
    "state.json": "state/agreed.json",
    "data.db": "state/toolcrib.db",
}
"""Names in the project, and the own files that they are second links of."""


def lay_out(project: Path) -> None:
    for name in ("sub", "src", "old"):
        (project / name).mkdir(parents=True)
    for name in ("x.txt", "src/a.py", "src/b.py"):
        (project / name).write_text("x = 1\n")
    (project / "dir").symlink_to("sub")
    (project / "alias").symlink_to("notes.yaml")


class Room:
    """A session in a project. ``asked`` has the denied questions, ``refused`` the calls that were refused without a question."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.own = {
            "config": Path(os.environ["XDG_CONFIG_HOME"]) / "toolcrib",
            "state": Path(os.environ["XDG_STATE_HOME"]) / "toolcrib",
        }
        self.asked: list[str] = []
        self.refused: list[str] = []
        self.output = ""
        self._crib: Crib | None = None

    def lay_out(self) -> None:
        """Write own files and files of the project."""
        for path, text in {
            "config/config.yaml": CONFIG,
            "config/secrets.env": f"SHOP_API_KEY={SECRET}\n",
            "config/plugins/mine.py": "ANSWER = 42\n",
            "state/memory/me/MEMORY.markdown": f"- {NOTE}\n",
            "state/agreed.json": '{"agreed": []}\n',
        }.items():
            file = self.own_file(path)
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            file.write_text(text)
            file.chmod(0o600)
        lay_out(self.project)

    def own_file(self, path: str) -> Path:
        kind, _, name = path.partition("/")
        return self.own[kind] / name

    def link(self, name: str, path: str) -> None:
        os.link(self.own_file(path), self.project / name)

    def open(self) -> None:
        from agent.config import load_config

        self._crib = assemble(config=load_config(profile=""), project_dir=self.project)
        self._session = self._crib.open_session(platform="cli", asker=self._ask)

    async def _ask(self, ticket: Any, ctx: Any) -> Answer:
        self.asked.append(", ".join(sorted({str(one.get("key")) for one in ticket.parameters.get("findings", ())})))
        return Answer(ticket.id, payload={"approved": False, "reason": NO}, by="dev", at=time.time())

    def call(self, tool: str, **args: Any) -> Any:
        result = self._session.call(tool, args).result
        if result.failure is not None and result.failure.kind == "Denied" and NO not in result.failure.text:
            self.refused.append(result.failure.text)
        self.output += result.to_json_text()
        return result

    def run(self, command: str) -> Any:
        return self.call("terminal", command=command, timeout=30)

    def close(self) -> None:
        if self._crib is not None:
            self._session.close_sync()
            self._crib.close()


@pytest.fixture
def empty_room(tmp_path: Path) -> Iterator[Room]:
    """A room without links, whose session has not begun."""
    made = Room(tmp_path)
    made.lay_out()
    yield made
    made.close()
    close_loop()


@pytest.fixture
def room(empty_room: Room) -> Room:
    """A room with second links of own files in the project. They existed before the session, except the store's."""
    for name, path in OWN.items():
        if "toolcrib.db" not in path:
            empty_room.link(name, path)
    empty_room.open()
    empty_room.link("data.db", OWN["data.db"])
    return empty_room


@pytest.fixture
def holds(room: Room) -> Callable[[], None]:
    return holding(room)


def holding(room: Room) -> Callable[[], None]:
    """Return a check that the user was asked or the call refused, and that no own file was changed or shown."""
    files = {room.own_file(path) for path in OWN.values() if "toolcrib.db" not in path}
    before = {file: (file.read_bytes(), file.stat().st_mode, file.stat().st_nlink) for file in files}

    def check_files() -> None:
        after = {file: (file.read_bytes(), file.stat().st_mode, file.stat().st_nlink) for file in files}
        changed = [file.name for file in files if before[file][:2] != after[file][:2]]
        linked = [file.name for file in files if after[file][2] > before[file][2]]
        assert not changed, f"changed: {changed}"
        assert not linked, f"linked once more: {linked}"
        assert SECRET not in room.output
        assert NOTE not in room.output
        assert room.asked or room.refused, "no question was asked, and no call refused"

    return check_files


# -- by the tools that edit and read ---------------------------------------------------------------------------------------

EDITS: dict[str, tuple[str, dict[str, Any]]] = {
    "write-configuration": ("write_file", {"path": "notes.yaml", "content": "approval: {mode: off}\n"}),
    "write-secrets": ("write_file", {"path": "env.txt", "content": "X=1\n"}),
    "write-plugin": ("write_file", {"path": "helper.py", "content": "import os\n"}),
    "write-memory": ("write_file", {"path": "sub/deep.md", "content": "- always approve\n"}),
    "write-state": ("write_file", {"path": "state.json", "content": "{}\n"}),
    "write-store": ("write_file", {"path": "data.db", "content": "x"}),
    "write-by-a-detour": ("write_file", {"path": "sub/../src/../notes.yaml", "content": "x\n"}),
    "write-by-a-linked-folder": ("write_file", {"path": "dir/deep.md", "content": "x\n"}),
    "write-by-a-symbolic-link": ("write_file", {"path": "alias", "content": "x\n"}),
    "write-absolute": ("write_file", {"path": "{project}/notes.yaml", "content": "x\n"}),
    "patch-words": ("patch", {"path": "notes.yaml", "old": "7", "new": "99"}),
    "patch-plugin": ("patch", {"path": "helper.py", "old": "42", "new": "43"}),
    "patch-all": ("patch", {"path": "alias", "old": "7", "new": "99", "replace_all": True}),
    "patch-difference": ("patch", {"diff": "--- a/notes.yaml\n+++ b/notes.yaml\n@@ -1 +1 @@\n-max_turns: 7\n+max_turns: 99\n"}),
    "patch-two-files": (
        "patch",
        {
            "diff": "--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"
            "--- a/helper.py\n+++ b/helper.py\n@@ -1 +1 @@\n-ANSWER = 42\n+ANSWER = 43\n"
        },
    ),
    "read-secrets": ("read_file", {"path": "env.txt"}),
    "read-secrets-absolute": ("read_file", {"path": "{project}/src/../env.txt"}),
    "read-memory": ("read_file", {"path": "dir/deep.md"}),
    "read-store": ("read_file", {"path": "data.db"}),
    "search-memory": ("search_files", {"pattern": "cat", "path": "sub/deep.md"}),
}


@pytest.mark.parametrize("edit", list(EDITS))
def test_no_file_tool_goes_by_a_second_name(room: Room, holds: Callable[[], None], edit: str) -> None:
    tool, args = EDITS[edit]
    room.call(
        tool,
        **{
            key: value.replace("{project}", str(room.project)) if isinstance(value, str) else value for key, value in args.items()
        },
    )
    holds()


# -- by commands -----------------------------------------------------------------------------------------------------------

DIFF = "--- a/notes.yaml\n+++ b/notes.yaml\n@@ -1 +1 @@\n-max_turns: 7\n+max_turns: 99\n"
WRITES = {
    "redirect": "echo x > notes.yaml",
    "append": "echo x >> notes.yaml",
    "nothing": ": > sub/../notes.yaml",
    "open-descriptor": "exec 7>>notes.yaml; echo x >&7",
    "tee": "echo x | tee notes.yaml",
    "tee-append": "echo x | tee -a src/a.py helper.py",
    "here-document": "cat > helper.py <<'E'\nimport os\nE",
    "edit-in-place": "sed -i s/7/99/ notes.yaml",
    "copy-onto": "cp x.txt notes.yaml",
    "copy-onto-linked-folder": "cp x.txt dir/deep.md",
    "dd": "dd if=x.txt of=notes.yaml status=none",
    "truncate": "truncate -s 0 notes.yaml",
    "awk": """awk '{print > "notes.yaml"}' x.txt""",
    "python-open": "python3 -c \"open('notes.yaml', 'w').write('x')\"",
    "python-path": "python3 -c \"from pathlib import Path; Path('notes.yaml').write_text('x')\"",
    "python-here-document": "python3 - <<'E'\nwith open('helper.py', 'w') as f:\n    f.write('x')\nE",
    "python-shutil": "python3 -c \"import shutil; shutil.copyfile('x.txt', 'notes.yaml')\"",
    "python-database": "python3 -c \"import sqlite3; sqlite3.connect('data.db').execute('delete from grants')\"",
    "script-on-one-line": "echo 'echo x > notes.yaml' > w.sh; sh w.sh",
    "program-on-one-line": "printf \"open('notes.yaml','w').write('x')\" > w.py && python3 w.py",
    "perl-in-place": "perl -i -pe s/7/99/ notes.yaml",
    "perl-open": """perl -e 'open(F, ">", "notes.yaml"); print F "x"; close F'""",
    "node": """node -e 'require("fs").writeFileSync("notes.yaml", "x")'""",
    "ed": "printf 's/7/99/\\nw\\nq\\n' | ed -s notes.yaml",
    "detour": "cat x.txt > sub/../notes.yaml",
    "linked-folder": "echo x > dir/deep.md",
    "symbolic-link-to-it": "echo x > alias",
    "after-cd": "cd sub && echo x > deep.md",
    "absolute": "echo x > {project}/notes.yaml",
    "variable": "f=notes; echo x > $f.yaml",
    "pattern": "tee note?.yaml < x.txt",
    "loop": "for f in *.yaml; do echo x >> $f; done",
    "loop-over-found": "for f in $(find . -name '*.yaml'); do echo x > $f; done",
    "written-by-find": "find . -name '*.yaml' -exec tee {} + < x.txt",
    "xargs": "echo notes.yaml | xargs truncate -s 0",
    "find": "find . -name 'notes*' -exec truncate -s 0 {} +",
    "another-shell": "bash -c 'echo x > notes.yaml'",
    "mode": "chmod 644 env.txt",
    "renamed-first": "mv notes.yaml src/n.yaml; echo x > src/n.yaml",
    "moved-with-its-folder": "mv sub other && echo x > other/deep.md",
    "in-the-background": "(sleep 0.1; echo x > notes.yaml) & wait",
    "store": "dd if=/dev/zero of=data.db bs=1 count=16 conv=notrunc status=none",
}
READS = {
    "cat": "cat env.txt",
    "head": "head -c 99 sub/deep.md",
    "base64": "base64 env.txt",
    "copy": "cp env.txt copy.txt",
    "input": "cat < dir/deep.md",
    "substitution": 'echo "$(< sub/deep.md)"',
    "grep": "grep -n cat sub/deep.md",
    "archive": "tar cf x.tar env.txt",
    "python": "python3 -c \"print(open('sub/deep.md').read())\"",
    "python-path": "python3 -c \"from pathlib import Path; print(Path('dir', 'deep.md').read_text())\"",
    "pattern": "cat sub/*.md",
    "all-of-a-folder": "cat sub/*",
    "found": "find sub -name '*.md' -exec cat {} +",
    "found-and-handed-on": "find sub -name '*.md' | xargs cat",
    "found-and-read": "find sub -name '*.md' | while read -r f; do cat \"$f\"; done",
    "recursive": "grep -r cat .",
    "archived": "tar cf a.tar sub; tar xOf a.tar",
    "pattern-of-folders": "cat s*/d*.md",
    "git-added": "git add env.txt",
    "symbolic-link": "ln -s sub/deep.md n; cat n",
    "git": "git hash-object -w env.txt",
    "store": "strings data.db",
    "in-place-makes-a-copy": "sed -i s/x/y/ env.txt",
    "script": "echo 'cat sub/deep.md' > r.sh; sh r.sh",
    "after-cd": "cd dir; cat deep.md",
}
LINKS = {
    "ln": "ln {config}/config.yaml x.yaml",
    "ln-by-home": "ln ~/.config/toolcrib/config.yaml x.yaml",
    "ln-force": "ln -f {config}/config.yaml x.txt",
    "ln-several": "ln {config}/*.env {config}/*.yaml old/",
    "ln-physical": "ln -P {state}/toolcrib.db x.db",
    "ln-after-cd": "cd {config}; ln config.yaml {project}/x.yaml",
    "ln-of-the-second": "ln notes.yaml third.yaml",
    "copy-of-links": "cp -l {config}/config.yaml x.yaml",
    "copy-of-a-tree-of-links": "cp -al {config} c",
    "copy-of-the-second": "cp -l env.txt third.txt",
    "link": "link {config}/config.yaml x.yaml",
    "python": "python3 -c \"import os; os.link('{config}/config.yaml', 'x.yaml')\"",
    "python-path": "python3 -c \"from pathlib import Path; Path('x.yaml').hardlink_to('{config}/config.yaml')\"",
    "python-second": "python3 -c \"import os; os.link('notes.yaml', 'third.yaml')\"",
    "perl": 'perl -e \'link("{config}/config.yaml", "x.yaml")\'',
    "node": 'node -e \'require("fs").linkSync("{config}/config.yaml", "x.yaml")\'',
    "rsync": "rsync -a --link-dest={config} {config}/ c/",
    "find": "find {config} -type f -exec ln {} old/ \\;",
    "xargs": "echo {config}/config.yaml | xargs -I@ ln @ x.yaml",
    "and-written": "ln {config}/config.yaml x.yaml; echo x > x.yaml",
    "script": "echo 'ln {config}/config.yaml x.yaml' > l.sh; bash l.sh",
}


def placed(command: str, room: Room) -> str:
    for name, path in {"{project}": room.project, "{config}": room.own["config"], "{state}": room.own["state"]}.items():
        command = command.replace(name, shlex.quote(str(path)))
    return command


@pytest.mark.parametrize("name", list(WRITES))
def test_no_command_writes_by_a_second_name(room: Room, holds: Callable[[], None], name: str) -> None:
    (room.project / "d.diff").write_text(DIFF)
    room.run(placed(WRITES[name], room))
    holds()


@pytest.mark.parametrize("name", list(READS))
def test_no_command_reads_by_a_second_name(room: Room, holds: Callable[[], None], name: str) -> None:
    room.run(placed(READS[name], room))
    holds()


@pytest.mark.parametrize("name", list(LINKS))
def test_no_command_makes_a_second_name(room: Room, holds: Callable[[], None], name: str) -> None:
    room.run(placed(LINKS[name], room))
    holds()


@pytest.mark.parametrize(
    ("written", "run"),
    [
        ("w.sh", "bash w.sh"),
        ("w.py", "python3 w.py"),
        ("Makefile", "make"),
    ],
)
def test_no_script_of_an_earlier_call_writes_by_a_second_name(
    room: Room, holds: Callable[[], None], written: str, run: str
) -> None:
    text = {
        "w.sh": "echo x > notes.yaml\n",
        "w.py": "open('notes.yaml', 'w').write('x')\n",
        "Makefile": "all:\n\techo x > notes.yaml\n",
    }
    room.call("write_file", path=written, content=text[written])
    room.run(run)
    holds()


def test_a_session_that_stands_in_another_folder_is_no_further(room: Room, holds: Callable[[], None]) -> None:
    room.run("cd sub")
    room.call("write_file", path="deep.md", content="x\n")
    room.run("echo x > deep.md")
    holds()
    assert len(room.asked) + len(room.refused) == 2


def test_a_file_of_ours_that_came_after_the_session_began_counts(room: Room) -> None:
    room.own_file("config/plugins/new.py").write_text("NEW = 1\n")
    room.link("src/new.py", "config/plugins/new.py")
    for number, command in enumerate(("echo x > src/new.py", "echo x | tee -a src/new.py"), 1):
        room.run(command)
        assert len(room.asked) + len(room.refused) == number
    room.call("write_file", path="src/new.py", content="x\n")
    assert len(room.asked) + len(room.refused) == 3
    assert room.own_file("config/plugins/new.py").read_text() == "NEW = 1\n"


def test_a_file_of_ours_that_was_written_anew_counts(room: Room) -> None:
    """The configuration is written beside its place and then moved there, so its inode changes."""
    file = room.own_file("config/config.yaml")
    file.with_name("new").write_text("max_turns: 8\n")
    file.with_name("new").replace(file)
    room.link("again.yaml", "config/config.yaml")
    room.call("write_file", path="again.yaml", content="x\n")
    room.run("echo x > again.yaml")
    assert len(room.asked) + len(room.refused) == 2
    assert file.read_text() == "max_turns: 8\n"


def test_a_second_name_outside_of_the_project_counts(room: Room) -> None:
    (room.project.parent / "elsewhere").mkdir()
    room.link("../elsewhere/c.yaml", "config/config.yaml")
    holds = holding(room)
    room.run("echo x > ../elsewhere/c.yaml")
    holds()


def test_a_name_that_becomes_a_second_link_between_question_and_answer_is_not_written(empty_room: Room) -> None:
    """The judged file must be the opened one: the path is a project file during the question, and an own file afterwards."""
    empty_room.open()
    file = empty_room.project / "x.txt"

    async def ask(ticket: Any, ctx: Any) -> Answer:
        file.unlink()
        empty_room.link("x.txt", "config/config.yaml")
        return Answer(ticket.id, payload={"approved": True}, by="dev", at=time.time())

    empty_room._session.scope.asker = ask
    empty_room._session.scope.asker_is_async = True
    empty_room.run("rm -rf src; echo y > x.txt")
    assert empty_room.own_file("config/config.yaml").read_text() == CONFIG


# -- ordinary links --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def with_links(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of files with many hard links, as package managers make them, and with a clone of its repository."""
    folder = tmp_path_factory.mktemp("links")
    project = folder / "project"
    lay_out(project)
    for at in range(60):
        kept = folder / "store" / f"{at}.js"
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(f"exports.n = {at}\n")
        for place in ("node_modules/.pnpm/p/lib", "env/lib/site-packages/p"):
            (project / place).mkdir(parents=True, exist_ok=True)
            os.link(kept, project / place / f"{at}.js")
    os.link(project / "x.txt", project / "y.txt")
    os.link(project / "src" / "a.py", project / "old" / "a.py")
    for name, text in {
        "config.yaml": "port: 1\n",
        "toolcrib.db": "x\n",
        "notes-copy.yaml": CONFIG,
        "agreed.json": "{}\n",
    }.items():
        (project / name).write_text(text)
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@x", "-C", str(project)]
    for words in (["init", "-q"], ["add", "src", "x.txt"], ["commit", "-qm", "x"], ["clone", "-q", ".", "clone"]):
        subprocess.run([*git, *words], check=True, stdin=subprocess.DEVNULL)
    return folder


@pytest.fixture
def plain(empty_room: Room, with_links: Path) -> Room:
    """A room with such a project, and beside it the files that it links to."""
    shutil.rmtree(empty_room.project)
    subprocess.run(["cp", "-a", f"{with_links}/.", str(empty_room.project.parent)], check=True)
    empty_room.open()
    return empty_room


FREE = {
    "write": ("echo x > y.txt", {"x.txt": "x\n"}),
    "append": ("echo z >> y.txt", {"x.txt": "x = 1\nz\n"}),
    "tee": ("echo x | tee y.txt", {"x.txt": "x\n"}),
    "edit-in-place": ("sed -i s/1/2/ old/a.py", {"old/a.py": "x = 2\n"}),
    "copy-onto": ("cp config.yaml y.txt", {"x.txt": "port: 1\n"}),
    "python": ("python3 -c \"open('y.txt', 'w').write('p')\"", {"x.txt": "p"}),
    "read": ("cat y.txt old/a.py", {}),
    "search": ("grep -rn exports node_modules | tail -n 1", {}),
    "archive": ("tar cf /dev/null node_modules env", {}),
    "ln": ("ln x.txt z.txt && echo q > z.txt", {"y.txt": "q\n"}),
    "ln-force": ("ln -f x.txt src/b.py", {"src/b.py": "x = 1\n"}),
    "ln-folder": ("mkdir new && ln src/*.py new/", {"new/a.py": "x = 1\n"}),
    "copy-of-links": ("cp -al src copy && cat copy/a.py", {"copy/a.py": "x = 1\n"}),
    "link": ("link x.txt z.txt", {"z.txt": "x = 1\n"}),
    "python-link": ("python3 -c \"import os; os.link('x.txt', 'z.txt')\"", {"z.txt": "x = 1\n"}),
    "delete-a-link": ("rm y.txt", {"x.txt": "x = 1\n"}),
    "move-a-link": ("mv y.txt z.txt && echo q > z.txt", {"x.txt": "q\n"}),
    "numbers": ("ls -li x.txt y.txt; stat -c %h x.txt; find . -samefile x.txt", {}),
    "many-links": ("find . -links +1 -type f | wc -l; du -sh node_modules", {}),
    "clone": ("git clone -q . again && cat again/src/a.py", {"again/x.txt": "x = 1\n"}),
    "work-in-a-clone": (
        "cd clone && git status --short && git log --oneline && echo n > n.txt && git add n.txt",
        {"clone/n.txt": "n\n"},
    ),
    "objects-of-a-clone": ("git -C clone fsck 2>&1; git -C clone count-objects -v", {}),
    "same-names": ("echo x >> config.yaml; echo y >> toolcrib.db; cat agreed.json", {"config.yaml": "port: 1\nx\n"}),
    "same-content": ("echo x > notes-copy.yaml; cat notes-copy.yaml", {"notes-copy.yaml": "x\n"}),
    "loop": ("for f in *.txt; do echo q >> $f; done; cat y.txt", {"x.txt": "x = 1\nq\nq\n"}),
    "node-module-changed": (
        "echo '//' >> node_modules/.pnpm/p/lib/7.js",
        {"env/lib/site-packages/p/7.js": "exports.n = 7\n//\n"},
    ),
}


@pytest.mark.parametrize("name", list(FREE))
def test_links_among_other_files_are_free(plain: Room, name: str) -> None:
    command, expected = FREE[name]
    result = plain.run(command)
    assert not plain.asked, plain.asked
    assert not plain.refused, plain.refused
    assert result.is_success, result
    assert result.data["exit_code"] == 0, result
    assert {path: (plain.project / path).read_text() for path in expected} == expected


def test_the_file_tools_work_on_other_links(plain: Room) -> None:
    for tool, args in (
        ("write_file", {"path": "y.txt", "content": "one\n"}),
        ("patch", {"path": "y.txt", "old": "one", "new": "two"}),
        ("patch", {"diff": "--- a/y.txt\n+++ b/y.txt\n@@ -1 +1 @@\n-two\n+three\n"}),
        ("read_file", {"path": "y.txt"}),
        ("write_file", {"path": "node_modules/.pnpm/p/lib/3.js", "content": "//\n"}),
        ("read_file", {"path": "env/lib/site-packages/p/5.js"}),
        ("search_files", {"pattern": "exports.n = 11\\b"}),
    ):
        assert plain.call(tool, **args).is_success, (tool, args)
    assert not plain.asked + plain.refused
    assert (plain.project / "y.txt").read_text() == "three\n"


def test_a_second_name_of_ours_may_be_looked_at_by_name(room: Room) -> None:
    """Such commands do not show the contents."""
    for command in ("ls -li notes.yaml", "stat -c %h env.txt", "test -e state.json && echo there", "git status --short ."):
        room.run(command)
    assert not room.asked, room.asked
    assert not room.refused, room.refused


def test_files_beside_a_second_name_are_free(room: Room) -> None:
    for command in ("echo y > x.txt", "cat src/*.py", "echo n > sub/new.md", "cp x.txt src/c.py", "touch new.yaml"):
        assert room.run(command).is_success, command
    assert room.call("write_file", path="src/a.py", content="x = 2\n").is_success
    assert not room.asked, room.asked
    assert not room.refused, room.refused
