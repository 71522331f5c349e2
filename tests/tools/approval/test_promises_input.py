"""Background processes and their input at the gate: what is asked and refused, and what is not (003-30)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.tools.approval.conftest import HOME, PROJECT, Bench, Floor
from toolcrib import RunsCommand, WritesInput
from toolcrib.contract.dataclass import replace
from tools.judge.calls import judge
from tools.judge.layers import Layers, remaining
from tools.judge.setting import Setting
from tools.registry import registry

HOSTILE = {
    "a line that the terminal would refuse": ["OPEN sh", "rm -rf ~"],
    "a line that the terminal would ask about": ["OPEN sh", "git push --force"],
    "split over two writes": ["OPEN bash", "rm -rf \\", "~"],
    "a heredoc": ["OPEN sh", "sh <<E", "rm -rf ~"],
    "a here-string": ["OPEN bash", "bash <<< 'rm -rf ~'"],
    "decoded line by line": ["OPEN sh", "base64 -d > y <<E", "cm0gLXJmIH4K", "E", "sh y"],
    "decoded in a pipe": ["OPEN sh", "echo cm0gLXJmIH4K | base64 -d | sh"],
    "cd, then a pattern": ["OPEN sh", "cd ~", "rm -rf *"],
    "python in two lines": ["OPEN python3 -i", "import os", "os.system('rm -rf ~')"],
    "python with a name for it": ["OPEN python3", "from shutil import rmtree as r", "r('/home/dev')"],
    "sqlite's shell": ["OPEN sqlite3 a.db", "select 1;", ".shell rm -rf ~"],
    "psql's shell": ["OPEN psql -h db", "select 1;", "\\! rm -rf ~"],
    "a table dropped": ["OPEN psql -h db", "drop table users;"],
    "redis emptied": ["OPEN redis-cli -h cache", "flushall"],
    "an alias of an earlier line": ["OPEN bash", "shopt -s expand_aliases", "alias k='rm -rf ~'", "k"],
    "a function of an earlier line": ["OPEN sh", "f() { rm -rf ~; }", "f"],
    "a function that was allowed once": ["OPEN sh", "f() { rm -rf build; }", "f", "f"],
    "a variable of an earlier line": ["OPEN sh", "D=~", 'rm -rf "$D"'],
    "node's child processes": ["OPEN node -i", "const c = require('child_process')", "c.execSync('rm -rf ~')"],
    "a shell in the shell": ["OPEN sh", "python3 -i", "import os"],
    "a shell behind a plain program": ["OPEN bash -c 'cat; exec bash'", "hello"],
    "a shell in a script": ["OPEN ./shell.sh"],
    "a shell of another user": ["OPEN sudo -i"],
    "a shell in a container": ["OPEN docker exec -i web sh"],
    "a shell on another machine": ["OPEN ssh host"],
    "a debugger's shell": ["OPEN gdb ./app", "shell rm -rf ~"],
    "a loop that runs what it reads": ["OPEN while read -r x; do eval \"$x\"; done", "rm -rf ~"],
    "input that names files": ["OPEN xargs rm -rf", "src"],
    "a password": ["OPEN sudo -S ls", "hunter2"],
    "a password in a shell": ["OPEN sh", "ssh host ls", "hunter2"],
    "a line of a loop": ["OPEN sh", "for x in a b; do", "rm -rf ~"],
    "a line of a function": ["OPEN bash", "f() {", "git push --force"],
    "a line of a condition": ["OPEN bash", "if make; then", "rm -rf ~/x"],
    "a line of a case": ["OPEN sh", "case a in", "a) rm -rf ~"],
    "the second part of a list": ["OPEN bash", "cd ~ &&", "rm -rf *"],
    "a word of a loop": ["OPEN bash", "for x in ~; do", 'rm -rf "$x"'],
    "a function that gets its argument later": ["OPEN bash", "f() {", 'cd "$1" && rm -rf *', "}", "f ~"],
    "a substitution in open quotes": ["OPEN bash", 'echo "', "$(rm -rf ~)"],
    "a quote that other shells close": ["OPEN sh", "echo $'a\\'; rm -rf ~ #"],
    "a word that other shells do not know": ["OPEN sh", "function f {\nrm -rf ~"],
    "a text that ends in nothing known": ["OPEN bash", "x=(1 2"],
    "a line of python's function": ["OPEN python3 -i", "import os", "def f():", "    os.system('rm -rf ~')"],
    "a line of python's list": ["OPEN python3 -i", "import os", "x = [", "os.system('rm -rf ~'),"],
    "a line of python's try": ["OPEN python3 -i", "import os", "try:", "    os.system('rm -rf ~')"],
    "a line after python's text": ["OPEN python3 -i", "x = \"\"\"", "\"\"\"; __import__('os').system('rm -rf ~')"],
    "hidden characters": ["OPEN sh", "ls \u202e; ~ fr- mr"],
    "a program that is not known": ["OPEN ./server", "shutdown"],
    "a start file": ["OPEN tee -a ~/.bashrc", "rm -rf ~"],
    "text that can't be read": ["OPEN python3 -i", "print(1", "print(1)"],
    "an earlier line with a word replaced": ["OPEN bash -i", "echo rm -rf x", "^echo^git push -f; echo"],
    "an earlier line": ["OPEN bash -i", "ls", "!!"],
    "a line by its first word": ["OPEN bash", "set -o history -o histexpand", "echo a", "!echo"],
    "a line of a file": ["OPEN bash", "set -H", "history -r evil", "!1"],
    "an earlier line in two writes": ["OPEN env SHELLOPTS=history:histexpand bash", "echo a; \\", "!echo"],
    "an earlier line of a shell in a terminal": ["OPEN script -qc bash", "echo a", "!!"],
    "a shell that python starts": ["OPEN python3 -i", "import os", "os.system('sh')"],
    "a line for a shell that python started": ["OPEN python3 -i", "import os", "os.system('sh')", "1"],
    "a list for a shell that python starts": ["OPEN python3 -i", "import subprocess", "subprocess.run(['bash'])"],
    "a python that python starts": ["OPEN bash", "python3 -c \"import subprocess; subprocess.run(['python3', '-iq'])\""],
    "a shell that a script starts": ["OPEN python3 starts.py"],
    "a shell that python starts with a text": ["DO python3 -c \"import os; os.system('sh')\" <<< 'rm -rf ~'"],
    "a script that it reads later": ["BACK sleep 5; sh x.sh", "PUT x.sh"],
    "a script that it reads after a program": ["BACK ./waits.sh", "PUT x.sh"],
    "a script that it reads by lines": ["BACK ./long.sh", "PUT long.sh"],
    "the same by a command": ["BACK ./long.sh", "DO echo 'rm -rf ~' >> long.sh"],
    "the same by its input": ["BACK ./long.sh", "OPEN tee -a long.sh", "rm -rf ~"],
    "code that it reads after a build": ["BACK make && python app.py", "PUT app.py"],
    "a package that it reads later": ["BACK sleep 5; npm test", "PUT package.json"],
    "a loop that waits": ["BACK while true; do sh x.sh; sleep 1; done", "PUT x.sh"],
    "processes without end": ["BACK while true; do sleep 1000 & done"],
    "data without end": ["BACK while true; do echo x >> log; done"],
    "data without end in a job": ["BACK sleep 1; while true; do echo x >> log; done & wait"],
    "a script that it writes": ["BACK sleep 5; cp evil x.sh", "DO sh x.sh"],
    "a script that is written by its input": ["OPEN cat > x.sh", "echo hello", "DO sh x.sh"],
}  # fmt: skip


@pytest.mark.parametrize("steps", HOSTILE.values(), ids=HOSTILE)
def test_the_last_step_is_asked_about_or_refused(bench: Bench, steps: list[str]) -> None:
    """003-30: the user allows each earlier step."""
    assert bench.last_of(steps) != "ran"


RUNS_INPUT = [
    *(
        "sh",
        "bash -i",
        "python3",
        "python3 -i app.py",
        "python -m pdb app.py",
        "psql",
        "psql -h db",
        "mysql -h db",
        "sqlite3 a.db",
    ),
    *("node", "node -i", "redis-cli", "ssh host", "screen", "tmux", "tmux new -s x", "gdb ./app", "env sh", "sudo sh", "irb"),
    *("docker exec -i web sh", "docker run -i ubuntu", "docker attach web", "kubectl exec -i pod -- sh", "bash -c 'exec sh'"),
    *("timeout 60 sh", "nohup bash", "ghci", "R", "rails console", "vim", "su", "fish", "busybox sh", "cat | sh", "tee log | sh"),
    *("read -r x; $x", "source /dev/stdin", 'eval "$(cat)"', "bash <(cat)", "python3 /dev/stdin", "make -f -", "awk -f -"),
]


@pytest.mark.parametrize("command", RUNS_INPUT)
def test_a_program_that_runs_its_input_is_asked_about_each_time(bench: Bench, command: str) -> None:
    """003-30: no answer covers the next start."""
    assert isinstance(bench.start(command, opened=True), set)
    assert bench.last is not None
    assert bench.last.result.suspension is not None
    assert bench.last.result.suspension.parameters["scopes"] == ["once"]


ORDINARY = [
    *(
        "npm run dev",
        "npm ci && npm run dev",
        "cd web && npm run dev",
        "yarn start",
        "vite",
        "npx tsc --watch",
        "make",
        "make -j8 all",
    ),
    *("uvicorn app:app --reload", "flask run", "python manage.py runserver", "python app.py", "python -m http.server 8000"),
    *("cargo watch -x run", "cargo build --release", "go run .", "pytest -q", "npm test -- --watch", "tail -f app.log"),
    *("docker logs -f web", "docker compose up", "journalctl -f", "./server --port 80", "PORT=1 node server.js", "rails server"),
    *(
        "while true; do echo tick; sleep 1; done",
        "while :; do make test; sleep 5; done",
        "while true; do date >> log; sleep 9; done",
    ),
    *(
        "sleep 1; sh x.sh",
        "while true; do sh x.sh; sleep 2; done",
        "sleep 1; ./x.sh && python app.py",
        "until sh x.sh; do sleep 1; done",
    ),
    *("./long.sh", "bash long.sh", "cat", "grep -n x", "kubectl port-forward svc/web 8080:80", "ping localhost", "hugo server"),
]


@pytest.mark.parametrize("command", ORDINARY)
@pytest.mark.parametrize("opened", [False, True], ids=["closed", "open"])
def test_an_ordinary_program_starts_as_in_the_foreground(bench: Bench, command: str, opened: bool) -> None:
    """003-30"""
    assert bench.do(command) == "ran"
    assert bench.start(command, opened=opened) == "ran"


HARMLESS = {
    "python": ["OPEN python3 -i", "print(6*7)", "x = [n * n for n in range(5)]", "import json", "print(json.dumps(x))"],
    "a shell": ["OPEN bash", "cd src", "ls -la", "export A=1", "git status", "for i in 1 2; do echo $i; done", "npm test"],
    "a shell, line by line": [
        *("OPEN bash", "for f in *.txt; do", '  if [ -f "$f" ]', "  then", '    wc -l "$f"', "  fi", "done"),
        *(
            "g() {",
            "  ls -la",
            "}",
            "g",
            "case $1 in",
            "a) ls ;;",
            "esac",
            "git status &&",
            "git log |",
            "head -3",
            "(cd src",
            "ls)",
        ),
    ],
    "a loop over input": ["OPEN sh", "while read -r x", "do", 'echo "$x"', "done < notes.txt"],
    "python, line by line": [
        *(
            "OPEN python3 -i",
            "def g(c):",
            "    return c",
            "",
            "class A:",
            "    def f(self):",
            "        return [",
            "            1,",
        ),
        *(
            "        ]",
            "",
            "try:",
            "    g(1)",
            "except KeyError:",
            "    print('no')",
            "",
            "@staticmethod",
            "def h(): return 2",
            "",
        ),
    ],
    "a shell with a history": ["OPEN bash -i", "[ ! -f x ] && echo 'a != b'", "if ! true; then ls; fi", "export A=1"],
    "a shell without a history": ["OPEN bash", "set -euo pipefail", "echo 'done!'", "echo a!b"],
    "programs that python starts": [
        *("OPEN python3 -i", "import os, subprocess", "os.system('ls')", "subprocess.run(['git', 'status'])", "1 + 1"),
    ],
    "node": ["OPEN node", "console.log(1)", "let x = 2", "x + 1"],
    "sqlite": ["OPEN sqlite3 a.db", "select 1;", ".tables", "select count(*) from users;"],
    "psql": ["OPEN psql -h db", "select 1;", "\\d", "explain select * from users;"],
    "cat": ["OPEN cat", "hello", "rm -rf ~"],
    "grep": ["OPEN grep -n error", "an error"],
    "a named file": ["OPEN tee notes.txt", "hello"],
    "sort": ["OPEN sort", "b", "a"],
}


@pytest.mark.parametrize("steps", HARMLESS.values(), ids=HARMLESS)
def test_harmless_lines_are_not_asked_about(bench: Bench, steps: list[str]) -> None:
    """003-30"""
    if bench.step(steps[0]) != "ran":
        assert bench.allow()
    assert [bench.step(step) for step in steps[1:]] == ["ran"] * (len(steps) - 1)


@pytest.mark.parametrize("script", ["app.py", "x.sh"])
def test_files_that_no_process_reads_any_more_are_free(bench: Bench, script: str) -> None:
    """Python reads its whole script at the start, and nothing is known to read the other one."""
    assert bench.start("python app.py") == "ran"
    assert bench.step(f"PUT {script}") == "ran"


def test_a_script_is_free_again_once_no_process_runs(real: Floor, tmp_path: Path) -> None:
    """On this machine, with the real tools."""
    script = tmp_path / "long.sh"
    script.write_text("sleep 60\n")
    scope = real.scope(f"free-{os.getpid()}")
    write = {"path": str(script), "content": "echo changed\n"}
    assert real.run("terminal", {"command": "sh long.sh", "background": True, "name": "job"}, scope).result.is_success
    asked = real.run("write_file", write, scope).result.suspension
    assert asked is not None
    assert [one["key"] for one in asked.parameters["findings"]] == ["process.script"]
    assert "whose text job (sh long.sh) may still execute" in asked.parameters["prompt"]
    assert real.run("process", {"action": "remove", "name": "job"}, scope).result.is_success
    assert real.run("write_file", write, scope).result.is_success


# -- what an answer covers -------------------------------------------------------------------------------------------


def test_a_grant_for_input_covers_one_command_of_one_process(bench: Bench) -> None:
    assert bench.start("python app.py", opened=True) == "ran"
    assert bench.feed("yes\n") == {"process.input@job"}
    assert bench.answer({"approved": True, "scope": "session"}).result.is_success
    assert bench.feed("no\n") == "ran"
    assert bench.start("./server", opened=True) == "ran"
    assert bench.feed("no\n") == {"process.input@job"}, "another program under the same name"
    bench.command, bench.name = "python app.py", "other"
    assert bench.feed("no\n") == {"process.input@other"}


@pytest.mark.parametrize(
    ("command", "expected"),
    [("sh", {"opaque.input"}), ("ssh host", {"opaque.input", "process.password"}), ("psql -h db", {"process.client"}),
     ("./server", {"process.input@job"}), ("", {"process.unknown"}), ("cat", "ran")],
)  # fmt: skip
def test_input_is_asked_about_if_earlier_input_is_unknown(bench: Bench, command: str, expected: set[str] | str) -> None:
    """As after a restart of toolcrib."""
    bench.command, bench.before = command, None
    assert bench.feed("ls\n") == expected
    assert bench.feed("ls\n") == expected


def test_a_user_sees_the_text_and_the_process(bench: Bench) -> None:
    bench.start("python app.py", opened=True)
    bench.feed("first\nsecond\x1b[2K\n")
    assert bench.last is not None
    ticket = bench.last.result.suspension
    assert ticket is not None
    prompt = ticket.parameters["prompt"]
    assert "feed wants to write to the input of the process job:\n  │ first\n  │ second^[[2K" in prompt
    assert "which runs:\n  │ python app.py" in prompt
    assert "command" not in ticket.parameters
    assert "to the input of job: first" in ticket.message
    bench.start("sh", opened=True)
    assert bench.last.result.suspension is not None
    started = bench.last.result.suspension.parameters
    assert "start wants to run in the background, with its input open:\n  │ sh" in started["prompt"]
    assert "runs what is written to its input" in started["prompt"]


def test_the_audit_log_has_the_text_and_the_process(bench: Bench) -> None:
    bench.command = "cat"
    assert bench.feed("hello\n") == "ran"
    assert bench.call("look", {"does": ""}) == "ran"
    assert bench.start("make") == "ran"
    first, second = asyncio.run(bench.store.audit.entries("s1"))
    assert first.detail["inputs"] == [{"name": "job", "text": "hello\n", "program": "cat"}]
    assert "command" not in first.detail, "no replay judges it as a command"
    assert (second.detail["command"], second.detail["starts"]) == ("make", "in the background")


def test_an_answer_is_bound_to_the_text_and_what_was_written_before(bench: Bench) -> None:
    bench.start("./server", opened=True)
    assert bench.feed("yes\n") == {"process.input@job"}
    assert bench.last is not None
    first = bench.last.result.suspension
    assert bench.allow()
    assert bench.feed("yes\n") == {"process.input@job"}
    second = bench.last.result.suspension
    assert first is not None
    assert second is not None
    assert first.binds != second.binds, "the text before it differs"


# -- plan mode, and the layers ---------------------------------------------------------------------------------------


def test_plan_mode_only_looks(bench: Bench) -> None:
    bench.gate.policy = replace(bench.gate.policy, mode="plan")
    assert bench.call("look", {"does": ""}) == "ran"
    assert bench.call("look", {"does": "ends it"}) == "refused"
    assert bench.start("ls") == "refused"
    assert bench.start("cat", opened=True) == "refused"
    bench.command = "cat"
    assert bench.feed("hello\n") == "refused"
    assert bench.do("ls") == "ran"


def _left(command: str, text: str | None = None) -> set[str]:
    """Return the keys of the findings that a sandbox with snapshots of everything in it does not contain."""
    entry = registry.get("terminal")
    assert entry is not None
    started = RunsCommand(command, PROJECT, background=True, open_input=True)
    effect = started if text is None else WritesInput("job", text, command, PROJECT)
    layers = Layers((PROJECT,), covers=lambda path: True, reaches_all_covered=True)
    return {one.key for one in remaining(judge(entry, [effect], setting=Setting(home=HOME)).findings, layers)}


@pytest.mark.parametrize(
    ("command", "text", "expected"),
    [
        ("sh", None, set()),
        ("sh", "rm -rf build\n", set()),
        ("sh", "git push --force\n", {"git.push-force"}),
        ("python3 -i", None, set()),
        ("sqlite3 a.db", None, set()),
        ("./server", "go\n", set()),
        ("ssh host", None, {"opaque.input"}),
        ("psql -h db", None, {"process.client"}),
        ("redis-cli -h cache", None, {"process.client"}),
        ("tmux", None, {"process.client"}),
        ("docker exec -i web sh", None, {"opaque.input"}),
        ("sudo -S ls", "hunter2\n", {"process.password"}),
    ],
)
def test_layers_contain_what_stays_in_the_sandbox(command: str, text: str | None, expected: set[str]) -> None:
    assert {key.partition("@")[0] for key in _left(command, text)} == expected
