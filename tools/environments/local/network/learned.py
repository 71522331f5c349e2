"""Learn the hosts of the user's package managers from their own configuration. No host is hard-coded."""

from __future__ import annotations

import contextlib
import functools
import glob
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from toolcrib.contract.regex import Regex
from tools.environments.local.programs import is_in_any, program, search_path

_URL = Regex(r"\b(https?|git|ssh)://(?:[^\s/\"'@]*@)?(\[[0-9A-Fa-f:]+\]|[\w.-]+)(:\d+)?")
_SCHEMELESS = Regex(r"(?m)^([\w-]+(?:\.[\w-]+)+)$")
_COMMENT = Regex(r"(?m)^\s*(?:[#;]|//).*$")
_VARIABLE = Regex(
    r"(?i)(?:PIP|UV|NPM_CONFIG|YARN|CARGO|RUSTUP|GEM|BUNDLE)_\w*(?:INDEX|URL|LINKS|REGISTRY|SERVER|HOST|ROOT)\w*|GOPROXY|GOSUMDB"
)
_OWN_INDEX = Regex(r"(?i)(?<!extra[-_])\bindex[-_]url\b|PIP_INDEX_URL")
_FILES = """
    /etc/pip.conf /etc/xdg/pip/pip.conf {config}/pip/pip.conf {home}/.pip/pip.conf {config}/uv/uv.toml
    /etc/npmrc {home}/.npmrc {home}/.yarnrc.yml {home}/.gemrc /etc/gitconfig {home}/.gitconfig {config}/git/config
    {cargo}/config.toml {cargo}/config {cargo}/registry/index/*/config.json
    /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources
""".split()
_SIZE = 262144
_LIMIT = "8"
"""Seconds after which a hanging package manager and its children are killed. All are asked at the same time."""
_PIP = "from pip._internal.models.index import PyPI as index; print(index.url, 'https://' + index.file_storage_domain)"
_NOWHERE = {"CARGO_HTTP_PROXY": "http://127.0.0.1:1", "CARGO_NET_RETRY": "0"}
"""Variables that keep cargo from contacting any host; its error message names the index."""
_MANAGERS = {
    "npm": ("config", "get", "registry"),
    "go": ("env", "GOPROXY", "GOSUMDB"),
    "gem": ("sources", "--list"),
    "cargo": ("search", "toolcrib"),
    "python3": ("-I", "-c", _PIP),
}


def learned_hosts(environment: Mapping[str, str], home: str, *projects: str) -> list[str]:
    """Return rules for the hosts that package managers are configured to use, with ports if their addresses have some.

    The hosts are read from the variables, the user's and the system's files, and from the managers, which are run outside the
    projects for at most a few seconds. Files and programs inside the projects are ignored: a repository may not add a host.
    Cached for the life of the process.
    """
    return list(_learned(tuple(sorted(environment.items())), home, projects))


@functools.lru_cache(maxsize=32)
def _learned(environment: tuple[tuple[str, str], ...], home: str, projects: tuple[str, ...]) -> tuple[str, ...]:
    variables = dict(environment)
    texts = [f"{name}={value}" for name, value in environment if _VARIABLE.fullmatch(name)]
    texts += [_COMMENT.sub("", text) for text in _files(variables, home, projects)]
    asked = {name: argv for name, argv in _MANAGERS.items() if name != "python3" or not any(map(_OWN_INDEX.search, texts))}
    texts += _answers(asked, variables, home, projects)
    return tuple(dict.fromkeys(rule for text in texts for rule in _rules(text)))


def _rules(text: str) -> Iterator[str]:
    for scheme, host, port in _URL.findall(text):
        local = host in ("localhost", "[::1]") or host.startswith("127.")
        if local or "." in host or host.startswith("["):
            yield host.lower() + (port or ({"http": ":80", "https": ":443"}.get(scheme, ":22") if local else ""))


def _files(variables: Mapping[str, str], home: str, projects: Sequence[str]) -> Iterator[str]:
    folders = {
        "home": home,
        "config": variables.get("XDG_CONFIG_HOME") or f"{home}/.config",
        "cargo": variables.get("CARGO_HOME") or f"{home}/.cargo",
    }
    folders = {name: glob.escape(folder) for name, folder in folders.items()}
    named = [variables[name] for name in ("PIP_CONFIG_FILE", "NPM_CONFIG_USERCONFIG", "UV_CONFIG_FILE") if variables.get(name)]
    found = [path for pattern in _FILES for path in sorted(glob.glob(pattern.format(**folders)))]  # noqa: PTH207 - absolute patterns
    for path in map(Path, (*found, *named)):
        with contextlib.suppress(OSError):  # it is missing or unreadable
            if path.is_file() and not is_in_any(path, projects):
                with path.open(encoding="utf-8", errors="replace") as file:
                    yield file.read(_SIZE)


def _answers(
    managers: Mapping[str, tuple[str, ...]], variables: Mapping[str, str], home: str, projects: Sequence[str]
) -> list[str]:
    path = search_path(variables.get("PATH", os.defpath), projects)
    environment = {**variables, **_NOWHERE, "PATH": path, "HOME": home}
    limiter = shutil.which("timeout") or "timeout"
    running: list[tuple[str, subprocess.Popen[str]]] = []
    for name, arguments in managers.items():
        if found := program(name, path, projects):
            errors = subprocess.STDOUT if name == "cargo" else subprocess.DEVNULL  # cargo's answer is its error message
            with contextlib.suppress(OSError):  # it cannot run: nothing is learned from it
                process = subprocess.Popen(
                    [limiter, "--signal=KILL", _LIMIT, found, *arguments], cwd="/", env=environment, start_new_session=True,
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True, errors="replace",
                )  # fmt: skip
                running.append((name, process))
    texts = [(name, process.communicate()[0]) for name, process in running]
    return [text if name != "go" else _SCHEMELESS.sub(r"https://\1", text) for name, text in texts]
