"""Files that run later without a command of the session: by the user's own tools, outside any sandbox."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from fnmatch import fnmatchcase

_RULES: tuple[tuple[str, str], ...] = (
    ("make", "Makefile makefile GNUmakefile *.mk justfile .justfile Justfile Taskfile.yml Taskfile.yaml Rakefile"),
    (
        "the build",
        "CMakeLists.txt *.cmake build.gradle build.gradle.kts settings.gradle gradlew build.rs build.xml pom.xml meson.build",
    ),
    (
        "the build",
        "BUILD BUILD.bazel WORKSPACE SConstruct configure build.zig flake.nix shell.nix default.nix Dockerfile compose.yaml",
    ),
    ("the build", "docker-compose.yml docker-compose.yaml Vagrantfile Jenkinsfile"),
    ("npm", "package.json .npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs *.config.js *.config.ts *.config.mjs *.config.cjs"),
    (
        "Python tools",
        "pyproject.toml setup.py setup.cfg conftest.py sitecustomize.py usercustomize.py *.pth noxfile.py tox.ini fabfile.py",
    ),
    ("Python tools", "tasks.py dodo.py .pdbrc"),
    ("other package managers", "Gemfile *.gemspec composer.json Cargo.toml .cargo/config.toml mix.exs Podfile Package.swift"),
    (
        "the shell",
        ".envrc .env .bashrc .bash_profile .profile .zshrc .zshenv .zprofile .bash_aliases .inputrc .tmux.conf .mise.toml",
    ),
    ("the shell", "mise.toml .tool-versions"),
    ("an editor", ".vscode/tasks.json .vscode/launch.json .vscode/settings.json .vscode/extensions.json .idea/*.xml"),
    (
        "an editor",
        ".idea/*/*.xml *.code-workspace .vimrc .exrc .nvim.lua .nvimrc .dir-locals.el .zed/tasks.json .zed/settings.json",
    ),
    ("an editor", ".devcontainer/devcontainer.json .devcontainer.json"),
    ("CI", ".github/workflows/* .github/actions/*/* .gitlab-ci.yml .circleci/config.yml azure-pipelines.yml .travis.yml"),
    ("CI", "bitbucket-pipelines.yml .drone.yml .woodpecker/* .woodpecker.yml appveyor.yml .buildkite/*"),
    (
        "git",
        ".pre-commit-config.yaml .pre-commit-hooks.yaml lefthook.yml .lefthook.yml .husky/* .githooks/* .gitmodules",
    ),
    ("git", "hooks/pre-* hooks/post-* hooks/commit-msg .git/config .lintstagedrc .lintstagedrc.json"),
    ("an agent", ".mcp.json .claude/* .cursor/mcp.json .toolcrib/*"),
)
"""Pairs of a runner and the patterns of the files it runs. A pattern is matched against the last parts of a path."""
_PATTERNS = [(tuple(pattern.split("/")), by) for by, patterns in _RULES for pattern in patterns.split()]
_SCRIPTS = (".sh", ".bash", ".zsh", ".fish", ".ps1", ".command", ".desktop", ".service", ".timer")


def later_run(changed: Iterable[tuple[str, int | None]]) -> list[tuple[str, str]]:
    """Return the changed files that run later, each with its runner, sorted by path.

    ``changed``: pairs of an absolute path and the permission bits, None if unknown.
    """
    found = ((path, _run_by(path, mode)) for path, mode in changed)
    return sorted({(path, by) for path, by in found if by})


def _run_by(path: str, mode: int | None) -> str:
    parts = path.split("/")
    for pattern, by in _PATTERNS:
        if len(pattern) < len(parts) and all(map(fnmatchcase, parts[-len(pattern) :], pattern)):
            return by
    if mode is not None and mode & 0o111:
        return "its name: it is executable"
    return "the shell" if posixpath.splitext(path)[1] in _SCRIPTS else ""
