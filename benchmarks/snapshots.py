"""Snapshots of a project of 50,000 files, against a walk that only reads each file's metadata, and an undo against ``cp -a``."""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.core import Figure, once
from tools.undo.snapshots.project import Project

_WALK = "a walk that reads each file's metadata"


def measure(*, quick: bool) -> list[Figure]:
    """Return times in ms, but snapshot.disk in MB."""
    with tempfile.TemporaryDirectory(prefix="toolcrib-snapshots-") as made:
        root = Path(made, "project")
        _make(root, 2_000 if quick else 50_000)
        return asyncio.run(_measure(root, 1 if quick else 7))


async def _measure(root: Path, rounds: int) -> list[Figure]:
    _walk(root)
    first, walks = [], []
    for number in range(min(rounds, 3)):
        walks.append(once(lambda: _walk(root))() * 1000)
        project = Project.open(str(root), str(root.parent / f"store{number}"))
        first.append(await _ms(project.take("first")))
        project.close()
    size, kept = _size(root), _size(root.parent / "store0")
    project = Project.open(str(root), str(root.parent / "store0"))
    await project.take("begin")
    none, ten, undo, copy = [], [], [], []
    for _ in range(rounds):
        none.append(await _ms(project.take("none")))
        for file in _files(root, 10):
            file.write_bytes(b"ten" * 1000)
        ten.append(await _ms(project.take("ten")))
    files, spare = _files(root, 1000), root.parent / "spare"
    copying = ["cp", "-a", "--parents", "-t", str(spare), *(str(file.relative_to(root)) for file in files)]
    spare.mkdir()
    subprocess.run(copying, cwd=root, check=True)
    bringing = ["cp", "-a", f"{spare}/.", str(root)]
    for _ in range(min(rounds, 3)):
        taken = await project.take("before")
        _rewrite(files)
        changes = await project.changed(taken, await project.take("after"))
        undo.append(await _ms(project.restore(changes)))
        _rewrite(files)
        copy.append(once(lambda: subprocess.run(bringing, check=True))() * 1000)
        await project.take("again")
    project.close()
    walk, best = statistics.median(walks), statistics.median
    return [
        Figure("snapshot.first", best(first), "ms", walk, 15.0, "ratio", _WALK),
        Figure("snapshot.later", best(ten), "ms", walk, 30.0, "value", _WALK),
        Figure("snapshot.none", best(none), "ms", walk, 5.0, "value", _WALK),
        Figure("undo.restore", best(undo), "ms", best(copy), 3.0, "ratio", "cp -a of the same 1,000 files over the changed ones"),
        Figure("snapshot.disk", kept, "MB", size, 1.2, "ratio", "the files' content"),
    ]


async def _ms(work: object) -> float:
    begin = time.perf_counter()
    await work  # type: ignore[misc]  # any coroutine
    return (time.perf_counter() - begin) * 1000


def _make(root: Path, number: int) -> None:
    chance = random.Random(1)
    for folder in range(number // 25):
        inner = root / str(folder % 50) / str(folder)
        inner.mkdir(parents=True)
        for file in range(25):
            (inner / f"{file}.py").write_bytes(chance.randbytes(chance.randint(100, 8000)))


def _files(root: Path, number: int) -> list[Path]:
    return [root / str(at // 25 % 50) / str(at // 25) / f"{at % 25}.py" for at in range(number)]


def _rewrite(files: list[Path]) -> None:
    for file in files:
        file.write_bytes(b"changed" * 600)


def _walk(folder: Path | str) -> None:
    with os.scandir(folder) as found:
        for one in found:
            one.stat(follow_symlinks=False)
            if one.is_dir(follow_symlinks=False):
                _walk(one.path)


def _size(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
