"""Random scripts over trees with odd files, each undone: ``python -m tests.fuzz.undo_scripts --count 500`` or ``--kills 200``.

Afterwards the tree must be the same in contents, modes, times, links, owners and extended attributes. ``--kills N`` kills N
processes (SIGKILL) at random moments while they take a snapshot or restore; the store must not lose or double anything.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import os
import random
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tools.undo.snapshots.entries import ProjectSnapshot, SnapshotFailed
from tools.undo.snapshots.packs import digests_of
from tools.undo.snapshots.project import Project
from tools.undo.snapshots.store import SnapshotStore

_TREE = r"""
mkdir -p src/deep/er .git/objects empty 'odd names' nested/.git ro
printf 'one\ntwo\n' > src/a.py; printf 'two\n' > src/b.py; : > src/none; head -c 3000000 /dev/zero > src/big.bin
printf 'x' > 'odd names/new
line'; printf 'y' > "odd names/$(printf 'caf\351')"; printf 'z' > 'odd names/ -rf *'
printf 'ref: refs/heads/main\n' > .git/HEAD; printf 'obj' > .git/objects/ab; chmod 444 .git/objects/ab
printf 'ref' > nested/.git/HEAD; printf 'h' > src/hard1; ln src/hard1 src/deep/hard2
ln -s a.py src/link; ln -s /nowhere/at/all src/dangling; ln -s deep src/folderlink; mkfifo src/fifo
printf '#!/bin/sh\n' > src/run.sh; chmod 4755 src/run.sh; printf 'r' > ro/file; chmod 555 ro
printf 'KEY=1\n' > .env; chmod 600 .env
touch -d '2001-02-03 04:05:06.789' src/a.py src/deep .git/HEAD; touch -h -d '2002-01-01' src/dangling
"""
_PATHS = (
    "src/a.py src/b.py src/none src/big.bin src/deep src/deep/er empty .git/HEAD .git nested src/hard1 src/deep/hard2 src/link"
    " src/dangling src/folderlink src/fifo src/run.sh ro ro/file .env src new new/dir"
).split()
_COMMANDS = (
    "rm -rf {a}",
    "mv {a} {b}",
    "cp -a {a} {b}",
    "mkdir -p {a}/x/y; echo n > {a}/x/y/f",
    "echo changed >> {a}",
    "echo replaced > {a}.tmp && mv {a}.tmp {a}",
    "printf 'same size' | dd of={a} conv=notrunc status=none",
    "chmod 700 {a}",
    "chmod 4711 {a}",
    "touch {a}",
    "touch -h -d 2010-10-10 {a}",
    "ln -sfn {b} {a}",
    "ln -f {a} {a}.hard",
    "sed -i s/o/0/ {a}",
    "truncate -s 5 {a}",
    "find {a} -type f -delete",
    "mv {a} x; mkdir {a}; mv x {a}",
    "tar cf t.tar {a}; rm -rf {a}; tar xf t.tar",
    "mkfifo {a}2",
    "rm -rf ./* .git",
    "git init -q {a}",
    'printf q > "odd names/$(printf new)"',
    "chmod -R a-w {a}",
    "[ -p {a} ] || cat > {a} < src/big.bin",
)


def make_tree(root: Path) -> None:
    """Make a small project with odd files."""
    root.mkdir()
    subprocess.run(["bash", "-ec", _TREE], cwd=root, check=True)
    if hasattr(os, "setxattr"):
        os.setxattr(root / "src/a.py", "user.note", b"\0kept")
        os.setxattr(root / "src/deep", "user.folder", b"too")


def script(chance: random.Random, length: int = 0) -> str:
    """Return a random script; its commands may fail."""
    lines = []
    for _ in range(length or chance.randint(1, 8)):
        a, b = chance.choice(_PATHS), chance.choice(_PATHS)
        lines.append(chance.choice(_COMMANDS).format(a=a, b=b))
    return "\n".join(lines)


def run_script(root: Path, text: str) -> None:
    """Run a script in the project. None of its commands waits."""
    subprocess.run(["timeout", "5", "bash", "-c", f"exec 2>/dev/null </dev/null\n{_without_fifos(text)}"], cwd=root, check=False)


def _without_fifos(text: str) -> str:
    """Open a FIFO for reading too, because writing into it would wait for a reader."""
    return f'shopt -s nullglob; for f in $(find . -type p); do exec {{fd}}<>"$f"; done\n{text}'


def picture(root: Path) -> dict[str, tuple[Any, ...]]:
    """Return all that a restore must bring back, by path."""
    found: dict[str, tuple[Any, ...]] = {}
    inodes: dict[tuple[int, int], list[str]] = {}
    for folder, folders, files in os.walk(os.fsencode(root)):
        for path in [folder, *(folder + b"/" + name for name in (*folders, *files))]:
            facts = os.lstat(path)
            content: Any = b""
            if stat.S_ISREG(facts.st_mode):
                content = hashlib.sha256(Path(os.fsdecode(path)).read_bytes()).hexdigest()
                inodes.setdefault((facts.st_dev, facts.st_ino), []).append(os.fsdecode(path))
            elif stat.S_ISLNK(facts.st_mode):
                content = os.readlink(path)  # noqa: PTH115 - its name may not be valid text
            names = os.listxattr(path, follow_symlinks=False) if hasattr(os, "listxattr") else []
            kept = tuple((name, os.getxattr(path, name, follow_symlinks=False)) for name in sorted(names))
            found[os.fsdecode(path)] = (facts.st_mode, facts.st_mtime_ns, facts.st_uid, facts.st_gid, content, kept)
    for paths in inodes.values():
        for shown in paths:
            found[shown] = (*found[shown], tuple(sorted(paths)))
    return found


def differing(one: dict[str, tuple[Any, ...]], other: dict[str, tuple[Any, ...]]) -> dict[str, tuple[Any, Any]]:
    """Return the paths that differ between two pictures. Hard links are not compared, because two
    names of a file may have become two equal files.
    """
    pairs = ((path, one.get(path), other.get(path)) for path in one.keys() | other.keys())
    return {path: (old, new) for path, old, new in pairs if not old or not new or old[:6] != new[:6]}


async def undone(folder: Path, text: str) -> dict[str, tuple[Any, Any]]:
    """Run a script in a new project, undo it, and return the differences."""
    root = folder / "project"
    make_tree(root)
    before = picture(root)
    project = Project.open(str(root), str(folder / "store"))
    try:
        taken = await project.take("before")
        run_script(root, text)
        report = await project.restore(await project.changed(taken))
        assert not report.conflicts, report
        assert not [one for one in report.failed if "can't be created again" not in one[1]], report
        assert not await project.changed(taken)
    finally:
        project.close()
    return differing(before, picture(root))


def killed(folder: Path, text: str, chance: random.Random) -> tuple[dict[str, tuple[Any, Any]], int]:
    """Return the differences as ``undone`` does, with processes that are killed while they take a snapshot and while they
    restore, and their number.
    """
    root, store = folder / "project", folder / "store"
    make_tree(root)
    before = picture(root)
    kills = int(_child(root, store, "take", chance))
    taken = asyncio.run(_take(root, store))
    run_script(root, text)
    kills += _child(root, store, "take", chance)
    after = asyncio.run(_take(root, store))
    for _ in range(2):
        kills += _child(root, store, f"restore {taken.id} {after.id}", chance)
        _check_store(root, store)
    project = Project.open(str(root), str(store))
    try:
        report = asyncio.run(_restored(project, taken, after))
        assert not report.conflicts, report
    finally:
        project.close()
    _check_store(root, store)
    return differing(before, picture(root)), kills


def _check_store(root: Path, store: Path) -> None:
    """Check that the store has each path once in each snapshot, and all contents that its entries name."""
    folder = Project.folder(str(root), str(store))
    kept = SnapshotStore(folder, 1 << 40)
    try:
        with kept.locked():
            for digest in {one for entry in kept.current().values() if entry.kind == "file" for one in digests_of(entry.content)}:
                kept.packs.get(digest)
    finally:
        kept.close()
    with contextlib.closing(sqlite3.connect(folder / "entries.db")) as index:
        assert index.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        doubled = "a.path = b.path AND a.born < b.born AND (a.died IS NULL OR a.died > b.born)"
        assert not index.execute(f"SELECT a.path FROM entries a JOIN entries b ON {doubled}").fetchall()  # noqa: S608 - no value


async def _take(root: Path, store: Path) -> ProjectSnapshot:
    project = Project.open(str(root), str(store))
    try:
        return await project.take("child")
    finally:
        project.close()


async def _restored(project: Project, taken: ProjectSnapshot, after: ProjectSnapshot) -> Any:
    return await project.restore(await project.changed(taken, after))


def _child(root: Path, store: Path, what: str, chance: random.Random) -> bool:
    """Start a process that works on the store, and kill it at a random moment. Return whether it still ran."""
    command = [sys.executable, "-m", "tests.fuzz.undo_scripts", "--child", str(root), str(store), what]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(chance.random() * chance.choice((0.002, 0.02, 0.06)))
        child.send_signal(signal.SIGKILL)
    return child.returncode == -signal.SIGKILL


def _work(root: str, store: str, what: str) -> None:
    project = Project.open(root, store)
    print("ready", flush=True)
    if what == "take":
        asyncio.run(project.take("child"))
    else:
        _, before, after = what.split()
        asyncio.run(_restored(project, ProjectSnapshot(int(before), 0), ProjectSnapshot(int(after), 0)))


def main() -> int:
    """Run the series, and return 1 if anything was not undone."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--child", nargs=3)
    options = parser.parse_args()
    if options.child:
        _work(*options.child)
        return 0
    wrong = kills = done = 0
    while done < options.count if not options.kills else kills < options.kills:
        seed = options.seed + done
        chance = random.Random(seed)  # noqa: S311 - the same scripts for the same seed
        folder = Path(tempfile.mkdtemp(prefix="toolcrib-undo-"))
        text = script(chance)
        done += 1
        try:
            if options.kills:
                left, killed_now = killed(folder, text, chance)
                kills += killed_now
            else:
                left = asyncio.run(undone(folder, text))
        except (AssertionError, SnapshotFailed) as error:
            left = {"error": (str(error), "")}
        finally:
            subprocess.run(["chmod", "-R", "u+rwx", str(folder)], check=False)
            shutil.rmtree(folder)
        if left:
            wrong += 1
            print(f"seed {seed}:\n{text}\n -> {left}\n", flush=True)
    print(f"{done} scripts, {kills} kills, {wrong} not undone exactly")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
