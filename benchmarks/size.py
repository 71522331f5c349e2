"""Size of an installation, measured in an environment of its own. Needs a minute and a package index."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.core import Figure

ROOT = Path(__file__).resolve().parent.parent
NOT_OURS = {"pip", "setuptools"}


def measure(*, quick: bool) -> list[Figure]:
    """Return the number of distributions, and the MB (10^6 bytes) of site-packages with compiled files."""
    with tempfile.TemporaryDirectory(prefix="toolcrib-bench-") as folder:
        venv = Path(folder, "venv")
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        site = next(venv.glob("lib/python3*/site-packages"))
        empty = _bytes(site)
        install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(ROOT)]
        subprocess.run([str(venv / "bin" / "python"), *install], check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr)
        names = {distribution.name.lower() for distribution in importlib.metadata.distributions(path=[str(site)])}
        grown = _bytes(site) - empty
    ours = len(names - NOT_OURS)
    declared = sum("extra ==" not in line for line in importlib.metadata.requires("toolcrib") or ())
    return [
        Figure("size.distributions", ours, "dists", declared, 36, "value", "the packages in pyproject.toml"),
        Figure("size.mb", grown / 1e6, "MB", empty / 1e6, 100, "value", "an empty environment (pip)"),
    ]


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
