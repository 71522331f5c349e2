"""Load all code that decides about calls before the first call acts, so that no file that a call writes can change it."""

from __future__ import annotations

import functools
import importlib
import pkgutil

PACKAGES = (
    *("toolcrib.contract", "tools.judge", "tools.approval", "tools.dispatch"),
    *("tools.files", "tools.processes", "tools.terminals", "tools.undo"),
)
"""Packages that judge, gate and dispatch calls. Many of their modules are imported on first use."""
ELSEWHERE = (
    "bz2",
    "difflib",
    "importlib.util",
    "lzma",
    "mimetypes",
    "shutil",
    "jsonschema_rs",
    "tools.availability",
    "tools.clip",
    "tools.redact",
    "tools.schedules.preview",
)
"""Modules that those packages import on first use."""


@functools.cache
def load_all() -> None:
    """Import every module that decides about calls, once per process. Raises ImportError if the installation is damaged."""
    for name in PACKAGES:
        _load(name)
    for name in ELSEWHERE:
        importlib.import_module(name)


def _load(package: str) -> None:
    module = importlib.import_module(package)
    for info in pkgutil.iter_modules(module.__path__, f"{package}."):
        if info.ispkg:
            _load(info.name)
        else:
            importlib.import_module(info.name)
