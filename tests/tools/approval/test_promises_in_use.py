"""Scripts that running processes execute: which commands may name them (003-30)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.tools.approval.conftest import PROJECT, Bench, Floor
from tests.tools.approval.test_promises_running import project


@pytest.fixture
def bench(bench: Bench) -> Bench:
    bench.environment = project()
    return bench


REPLACED = {
    "git mv": "git mv -f x.sh long.sh",
    "git mv in a folder": "git -C d mv -f ../x.sh ../long.sh",
    "vim": "vim -es -c 'w! long.sh' -c q x.sh",
    "a part that is moved": "split -b 9 x.sh; mv xaa long.sh",
    "an option": "shuf -o long.sh x.sh",
    "an option without a space": "shuf -olong.sh x.sh",
    "an option with its value": "git diff --no-index --output=long.sh n.txt x.sh",
    "an option of git in a folder": "git -C d diff --no-index --output=../long.sh one.txt ../x.sh",
    "a log": "script -qc 'cat x.sh' long.sh",
    "another folder": "cd d && shuf -o ../long.sh ../x.sh",
    "an unknown folder": 'cd "$D" && shuf -o long.sh x.sh',
    "a pattern": "shuf -o lon* x.sh",
    "a program that is not known": "python tool.py long.sh",
    "a formatter": "shfmt -w long.sh",
}


@pytest.mark.parametrize("command", REPLACED.values(), ids=REPLACED)
def test_no_program_that_may_write_gets_the_name_of_a_script_in_use(bench: Bench, command: str) -> None:
    assert bench.start("bash long.sh") == "ran"
    found = bench.do(command)
    assert isinstance(found, set)
    assert "process.script" in found


@pytest.mark.parametrize("command", ["mv d d0; mv e d", "git mv d d0; git mv e d", "git mv -f e/one.txt d/sub/one.txt"])
def test_no_other_folder_takes_the_place_of_one_with_a_script_in_use(bench: Bench, command: str) -> None:
    assert bench.start("bash d/sub/one.txt") == "ran"
    found = bench.do(command)
    assert isinstance(found, set)
    assert "process.script" in found


READ = [
    "cat long.sh; head -3 long.sh; grep sleep long.sh; ls -l long.sh; wc -l < long.sh; diff long.sh x.sh",
    "git add long.sh && git commit -m 'Add long.sh'",
    "git diff long.sh | head; git log -p long.sh",
    "shellcheck long.sh; bash -n long.sh",
    "cp long.sh copy.sh; chmod +x long.sh && ./long.sh",
    "timeout 5 bash long.sh; nohup bash long.sh > out.log",
    "python -c \"print(open('long.sh').read())\"",
    "sed -n 1,3p long.sh; awk '{ print }' long.sh",
    "echo long.sh > note.txt; export A=long.sh",
    "pytest long.sh; python -m pytest long.sh; ruff check long.sh",
    'for f in *.sh; do bash -n "$f"; done',
]


@pytest.mark.parametrize("command", READ)
def test_a_script_in_use_may_be_read(bench: Bench, command: str) -> None:
    assert bench.start("bash long.sh") == "ran"
    assert bench.do(command) == "ran"


NAMES = [
    'sleep 2; read -r p < n.txt; cat "$p" > out.txt',
    'sleep 2; read -r p < n.txt; cat < "$p"',
    'sleep 2; cat "$(cat n.txt)" > out.txt',
    'while read -r f; do wc -l "$f"; done < n.txt',
]


@pytest.mark.parametrize("command", NAMES)
def test_a_file_with_names_of_files_that_a_process_reads_is_not_changed(bench: Bench, command: str) -> None:
    assert bench.start(command) == "ran"
    assert bench.step("PUT n.txt") == {"process.script"}


@pytest.mark.parametrize("command", ["git checkout other", "git pull", "git stash pop"])
def test_a_command_that_may_change_many_scripts_is_one_finding(bench: Bench, command: str) -> None:
    """Python may load json.py or sitecustomize.py from the folder, if git brings them."""
    assert bench.start("make build && python server.py") == "ran"
    assert bench.do(command) == {"process.script"}
    assert bench.last is not None
    assert bench.last.result.suspension is not None
    (finding,) = bench.last.result.suspension.parameters["findings"]
    assert finding["text"] == f"{PROJECT}/server.py and 3 more"


def test_a_process_of_another_session_is_asked_about_each_time(real: Floor, tmp_path: Path) -> None:
    """On this machine, with the real tools."""
    scope, other = (real.scope(f"{name}-{os.getpid()}") for name in ("own", "other"))

    def start(name: str) -> str:
        command = f"echo $$ > {name}; sleep 60"
        assert real.run("terminal", {"command": command, "background": True, "name": name}, scope).result.is_success
        assert real.run("process", {"action": "wait", "name": name, "quiet": 0.3}, scope).result.is_success
        return (tmp_path / name).read_text().strip()

    first, second = start("first"), start("second")
    asked = real.run("terminal", {"command": f"kill {first}"}, other).result.suspension
    assert asked is not None
    assert [one["key"] for one in asked.parameters["findings"]] == ["process.other"]
    assert asked.parameters["scopes"] == ["once"]
    assert real.run("terminal", {"command": f"kill -9 {second}"}, scope).result.is_success
    assert real.run("terminal", {"command": f"kill -0 {os.getppid()}"}, other).result.suspension is None
