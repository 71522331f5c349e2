"""Files that run later, by path and mode."""

from __future__ import annotations

import pytest

from tools.contained.later import later_run


@pytest.mark.parametrize(
    ("path", "by"),
    [
        ("/p/Makefile", "make"),
        ("/p/deep/in/rules.mk", "make"),
        ("/p/package.json", "npm"),
        ("/p/vite.config.ts", "npm"),
        ("/p/setup.py", "Python tools"),
        ("/p/tests/conftest.py", "Python tools"),
        ("/p/.envrc", "the shell"),
        ("/p/.vscode/tasks.json", "an editor"),
        ("/p/.idea/runConfigurations/x.xml", "an editor"),
        ("/p/.github/workflows/ci.yml", "CI"),
        ("/p/.gitlab-ci.yml", "CI"),
        ("/p/.husky/pre-commit", "git"),
        ("/p/.git/hooks/pre-push", "git"),
        ("/p/.pre-commit-config.yaml", "git"),
        ("/p/build.rs", "the build"),
        ("/p/run.sh", "the shell"),
    ],
)
def test_files_that_others_run(path: str, by: str) -> None:
    assert later_run([(path, 0o644)]) == [(path, by)]


def test_an_executable_file_runs_by_its_name() -> None:
    assert later_run([("/p/bin/tool", 0o755), ("/p/bin/data", 0o644), ("/p/bin/unknown", None)]) == [
        ("/p/bin/tool", "its name: it is executable")
    ]


@pytest.mark.parametrize(
    "path",
    [
        "/p/src/main.py",
        "/p/README.md",
        "/p/tasks.json",
        "/p/workflows/ci.yml",
        "/p/Makefile.txt",
        "/p/data.json",
        "/Makefile.d/x",
    ],
)
def test_ordinary_files_are_not_listed(path: str) -> None:
    assert later_run([(path, 0o644)]) == []


def test_each_file_is_listed_once_in_order() -> None:
    assert later_run([("/p/b/Makefile", 0o644), ("/p/a.sh", 0o755), ("/p/b/Makefile", 0o644)]) == [
        ("/p/a.sh", "its name: it is executable"),
        ("/p/b/Makefile", "make"),
    ]
