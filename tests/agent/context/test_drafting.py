"""A draft of AGENTS.md from a project's files, and the request for a draft by a model."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.context.drafting import draft, existing, look_at, missing, request

FILES = {
    "uv": {"pyproject.toml": "[tool.pytest.ini_options]\n[tool.ruff]\n[tool.mypy]\n", "uv.lock": ""},
    "poetry": {"pyproject.toml": "[tool.poetry]\n", "poetry.lock": "", "tests/one": ""},
    "plain": {"pyproject.toml": "[project]\nname = 'x'\n"},
    "node": {"package.json": '{"scripts": {"test": "vitest", "lint": "eslint .", "odd": "x"}}', "pnpm-lock.yaml": ""},
    "make": {"Makefile": "VAR := 1\n.PHONY: test\nbuild: src\n\tcc\ntest:\n\t./t\n", "scripts/test": "#!/bin/sh\n"},
    "just": {"justfile": "test *args:\n  cargo test\nfmt:\n  cargo fmt\n", "Cargo.toml": ""},
    "go": {"go.mod": "module x\n"},
}
COMMANDS = {
    "uv": ["uv sync", "uv run pytest", "uv run ruff check .", "uv run ruff format .", "uv run mypy"],
    "poetry": ["poetry install", "poetry run pytest"],
    "plain": ["pip install -e ."],
    "node": ["pnpm install", "pnpm run test", "pnpm run lint"],
    "make": ["scripts/test", "make build", "make test"],
    "just": ["just test", "just fmt", "cargo build", "cargo test", "cargo clippy", "cargo fmt"],
    "go": ["go build ./...", "go test ./...", "gofmt -w ."],
}


def made(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize("kind", FILES)
def test_commands_are_those_of_the_build_files(tmp_path: Path, kind: str) -> None:
    facts = look_at(made(tmp_path, FILES[kind]))
    assert [command for _, command in facts.commands] == COMMANDS[kind]
    text = draft(facts)
    assert all(f"`{command}`" in text for command in COMMANDS[kind])
    assert missing(facts, text) == ""
    assert missing(facts, "").count("\n") == len(COMMANDS[kind])


@pytest.mark.parametrize("text", ["{", "[]", '{"scripts": 3}', "\x00\xff"])
def test_a_broken_build_file_says_little_and_breaks_nothing(tmp_path: Path, text: str) -> None:
    facts = look_at(made(tmp_path, {"package.json": text, "pyproject.toml": "]["}))
    assert [command for _, command in facts.commands] == ["npm install"]


def test_nothing_outside_of_the_project_is_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("# Secret\n")
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "node_modules").mkdir()
    (root / "README.md").symlink_to(tmp_path / "secret")
    facts = look_at(root)
    assert (facts.name, facts.folders, facts.commands) == ("project", ["src"], [])
    assert "no build file was found" in draft(facts)


def test_the_heading_names_the_project(tmp_path: Path) -> None:
    assert draft(look_at(made(tmp_path, {"README.md": "text\n# The Shop #\n"}))).startswith("# Working on The Shop\n")


def test_a_file_that_is_there_is_found(tmp_path: Path) -> None:
    assert existing(tmp_path) is None
    (tmp_path / "CLAUDE.md").write_text("x")
    assert existing(tmp_path) == tmp_path / "CLAUDE.md"


def test_a_model_is_asked_to_write_or_to_propose(tmp_path: Path) -> None:
    facts = look_at(made(tmp_path, FILES["go"]))
    write, propose, either = (request("AGENTS.md", facts, is_there=there, wishes="the CI") for there in (False, True, None))
    assert write.startswith("Draft AGENTS.md for this project.\n\n")
    assert "write the file once, with write_file" in write
    assert propose.startswith("Propose improvements to AGENTS.md.")
    assert "Change nothing." in propose
    assert "If the file exists already, do not change it" in either
    for text in (write, propose, either):
        assert "- Test: go test ./..." in text
        assert text.endswith("Besides: the CI")
