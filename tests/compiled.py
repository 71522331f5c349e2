"""Compiled code for the processes and copies of tests, which would otherwise compile the whole project again."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path


def compiled_code() -> dict[str, str]:
    """Return variables that make a process read the compiled code of this process, and write none."""
    return {"PYTHONDONTWRITEBYTECODE": "1", **({"PYTHONPYCACHEPREFIX": sys.pycache_prefix} if sys.pycache_prefix else {})}


def copy_sources(names: Iterable[str], source: Path, target: Path) -> None:
    """Copy files and folders to another folder, each module with its compiled form, if it has one.

    Python compiles a copy again once it changes. A process reads the compiled forms if PYTHONPYCACHEPREFIX is empty.
    """
    for name in names:
        for file in sorted((source / name).rglob("*")) if (source / name).is_dir() else [source / name]:
            if file.is_file() and "__pycache__" not in file.parts:
                copy = target / file.relative_to(source)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file, copy)
                if file.suffix == ".py":
                    _copy_compiled(file, copy)


def _copy_compiled(source: Path, copy: Path) -> None:
    compiled = Path(importlib.util.cache_from_source(str(source)))
    if compiled.is_file():
        cache = copy.parent / "__pycache__"
        cache.mkdir(exist_ok=True)
        shutil.copy2(compiled, cache / f"{copy.stem}.{sys.implementation.cache_tag}.pyc")
