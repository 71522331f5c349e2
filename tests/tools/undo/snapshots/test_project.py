"""Snapshots of a project: the data that they keep, and that a restore brings back or leaves alone."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.fuzz.undo_scripts import differing, killed, make_tree, picture, script, undone
from tools.undo.snapshots.entries import ProjectSnapshot, RestoreReport, SnapshotFailed, SnapshotRefused
from tools.undo.snapshots.project import Project
from tools.undo.snapshots.scan import TreeScanner


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    make_tree(tmp_path / "project")
    yield tmp_path / "project"
    subprocess.run(["chmod", "-R", "u+rwx", str(tmp_path)], check=True)


@pytest.fixture
def project(root: Path) -> Iterator[Project]:
    opened = Project.open(str(root), str(root.parent / "store"))
    yield opened
    opened.close()


def _take(project: Project, label: str = "", *, thorough: bool = False) -> ProjectSnapshot:
    return asyncio.run(project.take(label, thorough=thorough))


def _undo(project: Project, before: ProjectSnapshot, after: ProjectSnapshot | None = None) -> RestoreReport:
    async def work() -> RestoreReport:
        return await project.restore(await project.changed(before, after))

    return asyncio.run(work())


def _paths(project: Project, before: ProjectSnapshot, after: ProjectSnapshot | None = None) -> list[str]:
    return [one.path for one in asyncio.run(project.changed(before, after)) if not one.is_minor]


def _bash(root: Path, command: str) -> None:
    subprocess.run(["bash", "-ec", command], cwd=root, check=True)


def test_everything_is_brought_back_after_the_project_was_emptied(project: Project, root: Path) -> None:
    """Contents, modes, times, links, FIFOs, odd names, .git, hard links and extended attributes are as before."""
    before = picture(root)
    taken = _take(project)
    shutil.rmtree(root)
    report = _undo(project, taken)
    assert (report.conflicts, report.failed) == ([], [])
    assert picture(root) == before
    assert asyncio.run(project.changed(taken)) == []


def test_a_snapshot_waits_for_the_first_one(project: Project, root: Path) -> None:
    project.begin()
    asyncio.run(project.take("call", turn=3, call_id="c1", session_id="s"))
    assert project.covers(str(root / "src/a.py"))
    found = asyncio.run(project.snapshots("s"))
    assert [(one.label, one.turn, one.call_id) for one in found] == [("call", 3, "c1")]


def test_contents_of_entries_are_read(project: Project, root: Path) -> None:
    taken = _take(project)
    (root / "src/a.py").write_text("new")
    (change,) = [one for one in asyncio.run(project.changed(taken)) if not one.is_minor]
    assert (change.path, change.kind) == ("src/a.py", "modified")
    assert change.before is not None
    assert change.after is not None
    assert asyncio.run(project.content(change.before)) == b"one\ntwo\n"
    assert asyncio.run(project.content(change.after)) == b"new"


def test_hard_links_are_joined_again(project: Project, root: Path) -> None:
    before = picture(root)
    taken = _take(project)
    _bash(root, "sed -i s/h/H/ src/hard1; echo both >> src/deep/hard2")
    _undo(project, taken)
    assert picture(root) == before
    taken = _take(project)
    _bash(root, "echo through one name >> src/hard1")
    assert {"src/hard1", "src/deep/hard2"} <= set(_paths(project, taken))
    _undo(project, taken)
    assert differing(picture(root), before) == {}


@pytest.mark.parametrize("seed", range(12))
def test_random_scripts_are_undone_exactly(tmp_path: Path, seed: int) -> None:
    """`python -m tests.fuzz.undo_scripts` runs 500 of them."""
    try:
        assert asyncio.run(undone(tmp_path, script(random.Random(seed)))) == {}  # noqa: S311 - the same scripts each time
    finally:
        subprocess.run(["chmod", "-R", "u+rwx", str(tmp_path)], check=True)


@pytest.mark.parametrize("seed", range(2))
def test_killed_snapshots_and_restores_lose_nothing(tmp_path: Path, seed: int) -> None:
    """Processes are killed while they take a snapshot and while they restore; the restore is then repeated.

    `python -m tests.fuzz.undo_scripts --kills 200` is the long series.
    """
    chance = random.Random(seed)  # noqa: S311 - the same scripts each time
    try:
        assert killed(tmp_path, script(chance), chance)[0] == {}
    finally:
        subprocess.run(["chmod", "-R", "u+rwx", str(tmp_path)], check=True)


def test_an_ordinary_user_gets_everything_back() -> None:
    """The restore writes into the user's own read-only folders, which are read-only again afterwards."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root and setpriv to become another user")
    code = (
        "import asyncio, sys; from pathlib import Path; from tests.fuzz.undo_scripts import undone\n"
        "sys.exit(bool(asyncio.run(undone(Path(sys.argv[1]), sys.argv[2]))))"
    )
    text = "chmod u+w ro; rm -rf ro src; chmod -R a-w nested; echo x > .env"
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # other accounts can't enter the folders of tests
        Path(folder).chmod(0o777)
        user = ["setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups", "env", f"HOME={folder}/home"]
        if subprocess.run([*user, sys.executable, "-B", "-c", "import tests.fuzz.undo_scripts"], check=False).returncode:
            pytest.skip("the other user can't read Python or the checkout here")
        command = [*user, sys.executable, "-B", "-c", code, folder, text]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_what_changed_later_is_a_conflict_and_left_alone(project: Project, root: Path) -> None:
    first = _take(project)
    _bash(root, "echo command > src/a.py; rm src/b.py; mkdir made; echo m > made/m")
    second = _take(project)
    _bash(root, "echo person > src/a.py; echo mine > src/b.py; echo p > made/person")
    report = _undo(project, first, second)
    assert dict(report.conflicts).keys() == {"src/a.py", "src/b.py", "made"}
    assert ((root / "src/a.py").read_text(), (root / "src/b.py").read_text()) == ("person\n", "mine\n")
    assert [one.name for one in (root / "made").iterdir()] == ["person"]


def test_a_restore_goes_on_after_it_removed_what_stood_in_its_way(project: Project, root: Path) -> None:
    """The restore was killed before it created the file or the folder again."""
    before = picture(root)
    first = _take(project)
    _bash(root, "rm src/a.py; mkdir src/a.py; rm -r nested; touch nested")
    second = _take(project)
    _bash(root, "rmdir src/a.py; rm nested")
    assert not _undo(project, first, second).conflicts
    assert differing(before, picture(root)) == {}


def test_a_restore_is_itself_restored(project: Project, root: Path) -> None:
    taken = _take(project)
    _bash(root, "rm -rf src; echo new > file")
    changed = picture(root)
    report = _undo(project, taken)
    assert not (root / "file").exists()
    _undo(project, report.before, report.after)
    assert picture(root) == changed


def test_rebuildable_folders_that_git_ignores_are_left_out(project: Project, root: Path) -> None:
    _bash(root, "mkdir node_modules target dist src/dist; touch package.json node_modules/a target/b dist/c src/dist/d")
    (root / ".gitignore").write_text("node_modules/\n/dist\n")
    (root / "target/CACHEDIR.TAG").write_text("Signature: 8a477f597d28d172789f06886806bc55")
    _bash(root, "truncate -s 101M node_modules/large target/large dist/large")
    taken = _take(project, thorough=True)
    paths = ("", "node_modules", "node_modules/a", "dist/c", "target/b", "src", "src/dist/d")
    assert all(project.covers(str(root / path)) for path in paths)
    assert [path for path in paths if project.covers(str(root / path), rebuildable=False)] == ["src", "src/dist/d"]
    _bash(root, "rm -rf node_modules dist src/dist")
    report = _undo(project, taken)
    assert {path for path, _ in report.failed} == {"node_modules", "dist"}
    assert (root / "src/dist/d").exists()


def test_a_small_folder_that_a_tool_makes_again_is_kept(project: Project, root: Path) -> None:
    _bash(root, "mkdir -p node_modules/a/dist target; touch package.json node_modules/a/dist/b target/c")
    (root / ".gitignore").write_text("node_modules\ndist\ntarget\n")
    taken = _take(project, thorough=True)
    assert project.covers(str(root), rebuildable=False)
    _bash(root, "echo evil > node_modules/a/dist/b; rm -r target")
    assert not _undo(project, taken).failed
    assert (root / "node_modules/a/dist/b").read_text() == ""
    assert (root / "target/c").exists()


def test_rebuildable_folders_are_kept_until_together_they_are_large(project: Project, root: Path) -> None:
    _bash(root, "for one in a b c; do mkdir -p $one/dist; truncate -s 40M $one/dist/large; done; touch Makefile")
    (root / ".gitignore").write_text("dist\n")
    _take(project, thorough=True)
    assert sum(project.covers(str(root / f"{one}/dist"), rebuildable=False) for one in "abc") == 2
    assert not project.covers(str(root), rebuildable=False)
    _bash(root, "rm -r a/dist")
    _take(project, thorough=True)
    assert project.covers(str(root), rebuildable=False), "what is gone leaves room for the others"


def test_a_folder_of_many_files_or_a_deep_one_is_not_small(project: Project, root: Path) -> None:
    _bash(root, "mkdir -p many/dist deep/dist; touch Makefile; cd many/dist; seq 5001 | xargs touch")
    (root / "deep/dist" / "/".join("d" * 100)).mkdir(parents=True)
    (root / ".gitignore").write_text("dist\n")
    _take(project, thorough=True)
    assert not any(project.covers(str(root / f"{one}/dist"), rebuildable=False) for one in ("many", "deep"))


def test_a_cache_is_left_out_and_counts_as_covered(project: Project, root: Path) -> None:
    _bash(root, "mkdir __pycache__; touch __pycache__/a.pyc; echo '__pycache__/' > .gitignore")
    taken = _take(project, thorough=True)
    assert project.covers(str(root), rebuildable=False)
    _bash(root, "rm -r __pycache__")
    assert [path for path, _ in _undo(project, taken).failed] == ["__pycache__"]


def test_modules_that_python_compiled_since_a_time_are_deleted(project: Project, root: Path) -> None:
    _bash(root, "mkdir src/__pycache__; touch src/__pycache__/{a.pyc,a.txt}; echo '__pycache__/' > .gitignore; sleep 0.1")
    since = time.time()
    _take(project, thorough=True)
    _bash(root, "sleep 0.1; touch src/__pycache__/{b.pyc,b.txt}")
    project.drop_compiled(since)
    assert sorted(one.name for one in (root / "src/__pycache__").iterdir()) == ["a.pyc", "a.txt", "b.txt"]


def test_an_ignored_folder_is_kept_if_nothing_makes_it_again(project: Project, root: Path) -> None:
    _bash(root, "mkdir -p out sub/dist; touch out/results sub/dist/b sub/Makefile")
    (root / ".gitignore").write_text("out/\ndist\n")
    _bash(root, "truncate -s 101M out/large sub/dist/large")
    taken = _take(project, thorough=True)
    paths = ("out/results", "sub/dist/b")
    assert [path for path in paths if project.covers(str(root / path), rebuildable=False)] == ["out/results"]
    _bash(root, "rm -rf out")
    assert not _undo(project, taken).failed
    assert (root / "out/results").exists()


def test_a_folder_that_was_kept_is_not_left_out_when_git_ignores_it(project: Project, root: Path) -> None:
    _bash(root, "mkdir out; touch out/results")
    taken = _take(project, thorough=True)
    _bash(root, "echo out > .gitignore; touch Makefile; truncate -s 101M out/large")
    _take(project, thorough=True)
    assert project.covers(str(root / "out"), rebuildable=False)
    _bash(root, "rm -rf out")
    assert not _undo(project, taken).failed
    assert (root / "out/results").exists()


def test_a_folder_that_is_kept_from_now_on_is_not_deleted_by_an_undo(project: Project, root: Path) -> None:
    _bash(root, "mkdir node_modules; touch package.json node_modules/a; echo node_modules > .gitignore")
    _bash(root, "truncate -s 101M node_modules/large")
    taken = _take(project)
    _bash(root, "echo > .gitignore; touch node_modules/b")
    after = _take(project, thorough=True)
    report = _undo(project, taken, after)
    assert (report.conflicts, report.failed) == ([], [])
    assert (root / "node_modules/a").exists()
    assert (root / ".gitignore").read_text() == "node_modules\n"


def test_what_is_covered(project: Project, root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("o")
    os.link(outside, root / "shared")
    (root / "leads-out").symlink_to(tmp_path)
    assert not project.covers(str(root / "src/a.py")), "the first snapshot has not begun"
    _take(project)
    covered = ["src/a.py", ".git/HEAD", "src/new", "new/deep/file", "src/hard1", "src", "", "src/link", ".env"]
    assert [path for path in covered if not project.covers(str(root / path))] == []
    left_out = ["shared", "src/fifo", "leads-out/outside", "src/../../outside", "src/dangling"]
    assert [path for path in left_out if project.covers(str(root / path))] == []
    assert not project.covers(str(outside))


def test_nothing_outside_is_read_or_written_through_links(project: Project, root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.py").write_text("outside")
    taken = _take(project)
    _bash(root, f"mv src old; ln -s {outside} src")
    report = _undo(project, taken)
    assert report.conflicts == []
    assert (outside / "a.py").read_text() == "outside"
    assert [one.name for one in outside.iterdir()] == ["a.py"]
    assert not (root / "src").is_symlink()


@pytest.mark.parametrize("where", ["/", "home", "above home"])
def test_home_and_what_holds_it_are_refused(tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "up" / "me"
    home.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    place = {"/": "/", "home": str(home), "above home": str(home.parent)}[where]
    with pytest.raises(SnapshotRefused, match="home folder"):
        Project.open(place, str(tmp_path / "store"))


def test_a_project_that_is_too_large_is_refused_until_it_is_smaller(root: Path, tmp_path: Path) -> None:
    project = Project.open(str(root), str(tmp_path / "store"), max_mb=2)
    try:
        with pytest.raises(SnapshotRefused, match=r"snapshots\.max_mb"):
            _take(project)
        assert not project.covers(str(root / "src/a.py"))
        (root / "src/big.bin").unlink()
        _take(project)
        assert project.covers(str(root / "src/a.py"))
    finally:
        project.close()


def test_a_full_disk_fails_the_snapshot_and_keeps_the_others(root: Path, tmp_path: Path) -> None:
    """The limit on the size of files stands for the disk: writing beyond it fails as on a full one."""
    before = picture(root)
    project = Project.open(str(root), str(tmp_path / "store"))
    taken = _take(project)
    project.close()
    for number in range(40):
        (root / f"more{number}").write_bytes(os.urandom(200_000))
    code = (
        "import asyncio, resource, signal, sys\n"
        "from tools.undo.snapshots.project import Project\n"
        "project = Project.open(sys.argv[1], sys.argv[2])\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4_000_000, 4_000_000))\n"
        "try:\n    asyncio.run(project.take('full'))\n"
        "except Exception as error:\n    print(type(error).__name__, project.covers(sys.argv[1] + '/.env'))\n"
    )
    command = [sys.executable, "-c", code, str(root), str(tmp_path / "store")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "SnapshotFailed False\n"
    project = Project.open(str(root), str(tmp_path / "store"))
    try:
        assert _undo(project, taken).failed == []
        assert picture(root) == before
    finally:
        project.close()


def test_an_almost_full_disk_is_not_filled(tmp_path: Path) -> None:
    """Old snapshots are deleted. A project that does not fit is refused, and none of its data stays in the store."""
    code = (
        "import asyncio, os, shutil, subprocess, sys; from pathlib import Path\n"
        "from tests.fuzz.undo_scripts import make_tree, picture\n"
        "from tools.undo.snapshots.entries import SnapshotRefused; from tools.undo.snapshots.project import Project\n"
        "root, store = Path(sys.argv[1], 'project'), Path(sys.argv[1], 'store')\nmake_tree(root); store.mkdir()\n"
        "subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=100m', 'tmpfs', str(store)], check=True)\n"
        "project = Project.open(str(root), str(store))\n"
        "for number in range(40):\n    (root / 'src/a.py').write_bytes(os.urandom(4_000_000))\n"
        "    last = asyncio.run(project.take(''))\n    assert shutil.disk_usage(store).free > 2_000_000\n"
        "before = picture(root)\nsubprocess.run(['rm', '-rf', root / 'src'])\n"
        "assert not asyncio.run(project.restore(asyncio.run(project.changed(last)))).failed\nassert picture(root) == before\n"
        "(root / 'huge').write_bytes(os.urandom(100_000_000))\nfree = shutil.disk_usage(store).free\n"
        "try:\n    asyncio.run(project.take(''))\nexcept SnapshotRefused as error:\n    print('the disk is full' in str(error))\n"
        "assert shutil.disk_usage(store).free >= free\nproject.close()\n"
    )
    command = ["unshare", "-Urm", sys.executable, "-c", code, str(tmp_path)]
    if subprocess.run([*command[:2], "mount", "-t", "tmpfs", "tmpfs", "/mnt"], check=False, capture_output=True).returncode:
        pytest.skip("no file system can be mounted in a user namespace here")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr


def test_a_damaged_content_is_never_restored(project: Project, root: Path) -> None:
    taken = _take(project)
    pack = next((root.parent / "store").glob("*/*.pack"))
    with pack.open("r+b") as file:
        file.write(b"damage")
    _bash(root, "rm -rf .env .git src nested 'odd names'")
    report = _undo(project, taken)
    assert len(report.failed) == 1
    assert "damaged" in report.failed[0][1]


def test_old_snapshots_are_deleted_and_the_rest_is_kept(root: Path, tmp_path: Path) -> None:
    project = Project.open(str(root), str(tmp_path / "store"), max_mb=8)
    try:
        first = _take(project)
        for number in range(120):
            (root / "rewritten").write_bytes(os.urandom(300_000) + b"%d" % number)
            last = _take(project, str(number))
        assert sum(path.stat().st_size for path in (tmp_path / "store").glob("*/*.pack")) < 2 * 8 * 2**20
        with pytest.raises(SnapshotFailed, match="not kept any more"):
            _paths(project, first, last)
        kept = picture(root)
        shutil.rmtree(root)
        assert _undo(project, last).failed == []
        assert picture(root) == kept
    finally:
        project.close()


def test_two_processes_share_a_store(project: Project, root: Path) -> None:
    first = _take(project)
    code = (
        "import asyncio, sys\nfrom tools.undo.snapshots.project import Project\n"
        "project = Project.open(sys.argv[1], sys.argv[2])\nprint(asyncio.run(project.take('other')).id)\nproject.close()\n"
    )
    (root / "src/a.py").write_text("theirs")
    other = subprocess.run(
        [sys.executable, "-c", code, str(root), str(root.parent / "store")], capture_output=True, text=True, check=True
    )
    (root / "src/b.py").write_text("ours")
    last = _take(project)
    assert first.id < int(other.stdout) < last.id
    assert _paths(project, first, last) == ["src/a.py", "src/b.py"]
    assert _paths(project, ProjectSnapshot(int(other.stdout), 0), last) == ["src/b.py"]


def test_closing_ends_a_snapshot_that_is_being_taken(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began, read = threading.Event(), TreeScanner.read
    project = Project.open(str(root), str(tmp_path / "store"))

    def slow(scan: TreeScanner) -> None:
        began.set()
        while not scan._stopped():
            time.sleep(0.01)
        read(scan)

    with monkeypatch.context() as patched:
        patched.setattr(TreeScanner, "read", slow)
        project.begin()
        began.wait()
        project.close()
    again = Project.open(str(root), str(tmp_path / "store"))
    try:
        assert _take(again).id == 1, "nothing was committed"
    finally:
        again.close()


def test_a_reader_goes_on_while_another_process_deletes_old_snapshots(root: Path, tmp_path: Path) -> None:
    code = (
        "import asyncio, sys\nfrom tools.undo.snapshots.project import Project\n"
        "project = Project.open(sys.argv[1], sys.argv[2], max_mb=8)\ntaken = asyncio.run(project.take('reader'))\n"
        "print(taken.id, flush=True)\nsys.stdin.readline()\nlater = asyncio.run(project.take('reader'))\n"
        "open(sys.argv[1] + '/src/b.py', 'w').write('lost')\n"
        "print(len(asyncio.run(project.restore(asyncio.run(project.changed(later)))).failed))\nproject.close()\n"
    )
    command = [sys.executable, "-c", code, str(root), str(tmp_path / "store")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        first = int(reader.stdout.readline())
        project = Project.open(str(root), str(tmp_path / "store"), max_mb=8)
        try:
            for _ in range(80):
                (root / "rewritten").write_bytes(os.urandom(300_000))
                last = _take(project)
            with pytest.raises(SnapshotFailed, match="not kept any more"):
                _paths(project, ProjectSnapshot(first, 0), last)
        finally:
            project.close()
        assert reader.communicate("go on\n")[0] == "0\n"
    assert (root / "src/b.py").read_text() == "two\n"


def test_the_store_is_private_and_left_out_of_its_own_snapshots(root: Path) -> None:
    project = Project.open(str(root), str(root / "state" / "snapshots"))
    try:
        first = _take(project)
        assert not project.covers(str(root / "state" / "snapshots" / "x"))
        assert _paths(project, first) == []
        (folder,) = (root / "state" / "snapshots").iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700
        assert {path.stat().st_mode & 0o077 for path in folder.iterdir()} == {0}
    finally:
        project.close()


# -- the watch -----------------------------------------------------------------------------------------------------------------


def _found_after(project: Project, root: Path, commands: Sequence[str]) -> None:
    """Assert that each command's change is found, and that all of them are undone."""
    before = picture(root)
    first = taken = _take(project)
    for command in commands:
        _bash(root, command)
        taken, earlier = _take(project), taken
        assert taken.changes > 0, command
        assert _paths(project, earlier, taken), command
    assert _take(project).changes == 0
    _undo(project, first)
    assert differing(picture(root), before) == {}


_MOVES = (
    "mv src elsewhere; mkdir src; echo n > src/n",
    "echo x >> elsewhere/deep/er/file",
    "echo y >> src/n",
    "mkdir -p a/b/c; mv a/b/c nested/c; echo z > nested/c/z",
    "echo z >> nested/c/z",
    "mv nested swap; mv elsewhere nested; mv swap elsewhere; echo s > nested/deep/s",
    "echo t > elsewhere/c/t",
    "rm -rf nested/deep; mkdir nested/deep; touch nested/deep/new",
    "echo u > nested/deep/new",
    "chmod 700 nested/deep",
)


@pytest.mark.parametrize(
    "change", ["mv ro/file src/deep/hard2", "rm src/deep/hard2", "rm -r src/deep", "mv src/deep x", "ln -sf x src/deep/hard2"]
)
def test_a_file_is_found_that_was_written_to_by_a_name_which_is_gone(project: Project, root: Path, change: str) -> None:
    """src/hard1 is the file's other name, and inotify reports nothing about it."""
    first = _take(project)
    _bash(root, f"echo more >> src/deep/hard2; {change}")
    assert "src/hard1" in _paths(project, first, _take(project))


def test_a_file_is_found_that_was_written_to_by_a_new_name(project: Project, root: Path) -> None:
    """inotify does not report that a file has one more name."""
    _take(project)
    _bash(root, "mkdir more; ln src/a.py more/x")
    first = _take(project)
    _bash(root, "echo more >> more/x")
    assert "src/a.py" in _paths(project, first, _take(project))


def test_changes_are_found_by_their_names_across_moves(project: Project, root: Path) -> None:
    _found_after(project, root, _MOVES)


def test_changes_are_found_after_the_kernel_dropped_events(project: Project, root: Path) -> None:
    first = _take(project)
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    one, other = root / "one", root / "other"
    one.touch()
    other.touch()
    for number in range(most // 2 + 1):  # equal events in a row would count once
        one.chmod(0o600 + number % 2)
        other.chmod(0o600 + number % 2)
    (root / "src/deep/unseen").write_text("behind the overflow")
    assert "src/deep/unseen" in _paths(project, first, _take(project))
    (root / "src/deep/unseen").write_text("again")
    assert _take(project).changes == 1


@pytest.mark.parametrize(("limit", "most"), [("watches", 3), ("instances", 0)])
def test_changes_are_found_at_a_limit_of_inotify(tmp_path: Path, limit: str, most: int) -> None:
    """Each user has a limit of watches and a limit of watching programs. A user namespace has its own limits."""
    code = (
        "import asyncio, sys; from pathlib import Path\n"
        f"Path('/proc/sys/user/max_inotify_{limit}').write_text('{most}')\n"
        "from tests.fuzz.undo_scripts import make_tree\n"
        "from tests.tools.undo.snapshots.test_project import _found_after, _MOVES\n"
        "from tools.undo.snapshots.project import Project\nroot = Path(sys.argv[1])\nmake_tree(root)\n"
        "project = Project.open(str(root), str(root.parent / 'store'))\n"
        "_found_after(project, root, _MOVES)\nproject.close()\nprint('found')\n"
    )
    if subprocess.run(["unshare", "-Ur", "true"], check=False, capture_output=True).returncode:
        pytest.skip("no user namespaces here")
    command = ["unshare", "-Ur", sys.executable, "-c", code, str(tmp_path / "project")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "found\n", done.stderr


def test_a_thorough_snapshot_finds_writes_through_memory_maps(project: Project, root: Path) -> None:
    import mmap

    with (root / "src/a.py").open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), 0)
    first = _take(project)
    mapped[:3] = b"ONE"
    mapped.flush()
    mapped.close()
    assert _paths(project, first, _take(project, thorough=True)) == ["src/a.py"]


def test_an_index_that_is_no_database_is_named(root: Path, tmp_path: Path) -> None:
    Project.open(str(root), str(tmp_path / "store")).close()
    (folder,) = (tmp_path / "store").iterdir()
    (folder / "entries.db").write_bytes(b"no database" * 1000)
    with pytest.raises(SnapshotFailed, match="Move that folder away") as raised:
        Project.open(str(root), str(tmp_path / "store"))
    assert isinstance(raised.value.__cause__, sqlite3.DatabaseError)


def test_a_file_that_is_too_large_is_left_out_alone(root: Path) -> None:
    """A command can't end a project's snapshots by making a large file, which may be sparse."""
    project = Project.open(str(root), str(root.parent / "store"), max_mb=4)
    try:
        before, taken = picture(root), _take(project)
        _bash(root, "truncate -s 900G pad.img; truncate -s 9M src/a.py")
        _take(project)
        shutil.rmtree(root / "src")
        report = _undo(project, taken)
        assert (report.conflicts, report.failed) == ([], [])
        assert picture(root) == before
    finally:
        project.close()


@pytest.mark.parametrize("left_out", [True, False])
@pytest.mark.parametrize("name", ["src/a.py", "node_modules/x"])
def test_a_file_with_a_name_elsewhere_is_undone_under_that_too(root: Path, tmp_path: Path, name: str, left_out: bool) -> None:
    """One other name is outside the project, and one in a folder that may be left out; writes to either are noticed."""
    outside = tmp_path / "outside"
    (root / "node_modules").mkdir()
    (root / ".gitignore").write_text("node_modules\n")
    if left_out:
        (root / "package.json").write_text("{}")
    os.link(root / "src/a.py", outside)
    os.link(outside, root / "node_modules/x")
    project = Project.open(str(root), str(tmp_path / "store"))
    try:
        before, taken = outside.read_bytes(), _take(project)
        (root / name).write_bytes(b"gone, and longer than it was before" * 9)
        report = _undo(project, taken)
        assert (report.conflicts, report.failed) == ([], [])
        assert outside.read_bytes() == (root / "src/a.py").read_bytes() == before
    finally:
        project.close()


def test_a_folder_that_a_command_closed_is_opened_again(tmp_path: Path) -> None:
    """An ordinary user can't read such a folder, but its contents are still restored."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root with setpriv can become another account")
    work = """
import asyncio, os, shutil, sys
from pathlib import Path
from tools.undo.snapshots.project import Project

async def main(root):
    (root / "notes" / "inner").mkdir(parents=True)
    for name in ("kept", "emptied", "lost", "inner/lost", "../shut"):
        (root / "notes" / name).write_text(name)
    project = Project.open(str(root), str(root.parent / "store"))
    taken = await project.take("before")
    (root / "notes" / "lost").unlink()
    (root / "notes" / "emptied").write_text("")
    (root / "notes" / "emptied").chmod(0)
    shutil.rmtree(root / "notes" / "inner")
    (root / "shut").chmod(0o200)
    (root / "notes").chmod(0)
    report = await project.restore(await project.changed(taken, await project.take("after", thorough=sys.argv[2] == "walk")))
    print(report.conflicts, report.failed, oct((root / "notes").stat().st_mode & 0o777))
    print(*sorted(path.read_text() for path in root.rglob("*") if path.is_file()))
    project.close()

asyncio.run(main(Path(sys.argv[1]) / "project"))
"""
    for how in ("walk", "watch"):
        with tempfile.TemporaryDirectory(dir="/tmp") as folder:
            os.chown(folder, 1000, 1000)
            line = ["setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups", sys.executable, "-c", work, folder, how]
            environment = {**os.environ, "HOME": folder, "PYTHONDONTWRITEBYTECODE": "1"}
            cwd = Path(__file__).parents[4]
            done = subprocess.run(line, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False)
            if "ModuleNotFoundError" in done.stderr or done.returncode == 126:
                pytest.skip("an ordinary account can't read this Python or this code")
            assert done.stdout == "[] [] 0o755\n../shut emptied inner/lost kept lost\n", (how, done)


def test_a_holder_that_does_nothing_is_not_waited_for_without_end(
    project: Project, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that was stopped during a snapshot keeps the store's lock."""
    monkeypatch.setattr("tools.undo.snapshots.store._PATIENCE", 0.2)
    lock = Project.folder(str(root), str(root.parent / "store")) / "lock"
    holder = "import fcntl, sys; file = open(sys.argv[1]); fcntl.flock(file, fcntl.LOCK_EX); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", holder, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(SnapshotFailed, match=r"has .* locked but is stopped: continue it \(fg\) or kill it"):
            _take(project)
        process.kill()
    assert _take(project).id
