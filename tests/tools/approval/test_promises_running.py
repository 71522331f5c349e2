"""Files that running processes use: a later call that changes one is asked about, other calls are not (003-30)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.tools.approval.conftest import PROJECT, Bench, Floor
from toolcrib import ExecRequest, ToolResult
from toolcrib.testing import FakeEnvironment

FILES = {
    "n.txt": "1\n2\n",
    "list.txt": "build/a\nbuild/b\n",
    "app.log": "started\n",
    "x.sh": "echo hello\n",
    "long.sh": "#!/bin/bash\nsleep 60\necho done\n",
    "s.sed": "s/a/b/\n",
    "s.awk": "{ print $1 }\n",
    "s.gdb": "run\nbacktrace\n",
    "s.vim": "source other.vim\nset number\n",
    "other.vim": "set ruler\n",
    "q.sql": "select 1;\n",
    "Makefile": "all:\n\techo built\n",
    "app.py": "import time\ntime.sleep(60)\n",
    "server.py": "import json\nprint(json.load(open('conf.json')))\n",
    "main.py": "import helper\nimport time\ntime.sleep(60)\n",
    "helper.py": "import json\nprint(json.load(open('conf.json')))\n",
    "late.py": "import time\ntime.sleep(60)\nimport helper\n",
    "lazy.py": "import time\n\ndef work():\n    import helper\n    return helper\n\ntime.sleep(60)\nwork()\n",
    "busy.py": "n = 0\nwhile n < 10**9:\n    n += 1\nfrom helper import x\n",
    "first.py": "import app\nimport helper\n",
    "if.py": "import sys\nif len(sys.argv) > 5:\n    import helper\ninput()\nimport helper\n",
    "slow.py": "def __getattr__(name):\n    import time\n    time.sleep(6)\n",
    "packed.py": "import time\ntime.sleep(60)\nfrom pack import part\n",
    "pack/part.py": "x = 1\n",
    "early.py": "import os, sys\nsys.path.insert(0, os.path.dirname(__file__))\nimport helper\nimport time\ntime.sleep(60)\n",
    "conf.json": '{"port": 8000}\n',
    "rc.js": "console.log(1)\n",
    "index.js": "console.log(2)\n",
    "package.json": '{"scripts": {"dev": "vite", "test": "jest"}}\n',
    "d/sub/one.txt": "1\n",
    "e/one.txt": "1\n",
    "src/main.c": "int main(void) { return 0; }\n",
}


def project() -> FakeEnvironment:
    """Return the project. In it, ``mv d d2`` and ``rm -r d`` do what they say; other commands do nothing."""

    def run(request: ExecRequest) -> tuple[int, bytes]:
        if request.command in ("mv d d2", "rm -r d"):
            for path in [path for path in environment.files if path.startswith(f"{PROJECT}/d/")]:
                del environment.files[path]
        return 0, b""

    environment = FakeEnvironment({f"{PROJECT}/{name}": text.encode() for name, text in FILES.items()}, run, PROJECT)
    return environment


@pytest.fixture
def bench(bench: Bench) -> Bench:
    bench.environment = project()
    return bench


NUMBERS = {
    "a loop over a file": "while read -r x; do [[ $x -gt 1 ]] && echo big; done < n.txt",
    "a followed file": "tail -f n.txt | while read -r x; do [[ $x -gt 1 ]] && echo big; done",
    "an arithmetic command": "while read -r x; do (( x > 1 )) && echo big; done < n.txt",
    "an expansion": "while read -r x; do echo $(( x + 1 )); done < n.txt",
    "an index": "while read -r x; do echo ${a[$x]}; done < n.txt",
    "a slice": "while read -r x; do echo ${PATH:x:1}; done < n.txt",
    "an integer variable": "declare -i n; while read -r x; do n=$x; done < n.txt",
    "let": "while read -r x; do let y=x+1; done < n.txt",
    "a descriptor": "exec 3< n.txt; while read -r -u 3 x; do (( x )); done",
    "a file that is opened again and again": "while sleep 1; do read -r x < n.txt; (( x > 1 )) && echo big; done",
    "a substitution in a loop": "while sleep 1; do (( $(cat n.txt) > 1 )) && echo big; done",
    "a substitution after a pause": "sleep 60; x=$(<n.txt); echo $(( x ))",
    "an array": "sleep 60; mapfile -t a < n.txt; echo $(( a[0] + 1 ))",
    "a filter": "tail -f n.txt | grep . | while read -r x; do (( x )); done",
    "a process substitution": "while read -r x; do (( x )); done < <(tail -f n.txt)",
    "a loop that counts": "exec 3< n.txt; for ((;;)); do read -r -u 3 x; sleep 1; (( x )); done",
    "the name of a variable": "while read -r x; do printf -v \"$x\" 1; done < n.txt",
    "a command": "while read -r x; do $x; done < n.txt",
    "eval": "while read -r x; do eval \"y=$x\"; done < n.txt",
    "a shell's input": "bash < x.sh",
    "a shell's input in a pipe": "tail -f x.sh | bash",
    "a test of a variable": "while read -r x; do [[ -v $x ]]; done < n.txt",
    "a variable that is read": "while read -r x; do read -r \"$x\" <<< 1; done < n.txt",
    "a variable that is unset": "while read -r x; do unset \"$x\"; done < n.txt",
    "an indirect variable": "while read -r x; do echo ${!x}; done < n.txt",
    "a prompt": "while read -r x; do echo ${x@P}; done < n.txt",
    "two fields": "while IFS=, read -r a b; do (( b )); done < n.txt",
    "a function": "f() { (( $1 )); }; while read -r x; do f \"$x\"; done < n.txt",
    "the limit of a loop": "while read -r x; do for ((i = 0; i < x; i++)); do echo $i; done; done < n.txt",
    "a place in an array": "while read -r x; do a[x]=1; done < n.txt",
    "a select": "select x in a b; do (( REPLY )); done < n.txt",
    "a code of another language": "while read -r x; do awk \"BEGIN { print $x }\"; done < n.txt",
    "watch": "watch -n 1 'echo $(( $(cat n.txt) ))'",
    "names of files": "while read -r x; do rm -f \"$x\"; done < list.txt",
    "names of files for xargs": "tail -f list.txt | xargs -n 1 touch",
}  # fmt: skip


@pytest.mark.parametrize("command", NUMBERS.values(), ids=NUMBERS)
def test_a_file_whose_text_is_executed_is_not_changed(bench: Bench, command: str) -> None:
    """Bash runs the command in ``a[$(COMMAND)]`` when it calculates."""
    file = next(name for name in ("n.txt", "list.txt", "x.sh") if name in command)
    if bench.start(command) != "ran":
        assert bench.allow()
    assert bench.step(f"PUT {file}") == {"process.script"}
    assert bench.do(f"echo 'a[$(touch ../../outside)]' >> {file}") == {"process.script"}
    assert bench.step("PUT app.log") == "ran"


SCRIPTS = {
    "a script of vim": ("vim -es -S s.vim", "s.vim"),
    "a script that vim's script loads": ("make && vim -es -S s.vim", "other.vim"),
    "a script of sed": ("make && sed -f s.sed n.txt", "s.sed"),
    "a script of sed in a loop": ("tail -f app.log | while read -r x; do sed -f s.sed n.txt; done", "s.sed"),
    "a script of awk": ("make && awk -f s.awk n.txt", "s.awk"),
    "a script of gdb": ("gdb -batch -x s.gdb ./app", "s.gdb"),
    "a script of psql": ("psql -h db -f q.sql", "q.sql"),
    "a makefile": ("npm ci && make -f Makefile", "Makefile"),
    "a module that node loads": ("make && node -r ./rc.js index.js", "rc.js"),
    "a file that python runs": ("make && python -m cProfile app.py", "app.py"),
    "a program that python runs": ("python -c \"import time; time.sleep(9); exec(open('app.py').read())\"", "app.py"),
}


@pytest.mark.parametrize(("command", "file"), SCRIPTS.values(), ids=SCRIPTS)
def test_a_script_that_a_program_still_reads_is_not_changed(bench: Bench, command: str, file: str) -> None:
    if bench.start(command) != "ran":
        assert bench.allow()
    assert bench.step(f"PUT {file}") == {"process.script"}


MODULES = {
    "after a pause": ("python3 late.py", "helper.py"),
    "in an argument": ("python3 -c 'import time; time.sleep(6); import helper'", "helper.py"),
    "in a function": ("python3 lazy.py", "helper.py"),
    "after a loop": ("python3 busy.py", "helper.py"),
    "after a module that takes time": ("python3 first.py", "helper.py"),
    "by its name": ("python3 -c \"import time; time.sleep(6); __import__('helper')\"", "helper.py"),
    "a module that does not exist yet": ("python3 -c 'import time; time.sleep(6); import gone'", "gone.py"),
    "a module of the standard library": ("python3 -c 'import time; time.sleep(6); import colorsys'", "colorsys.py"),
    "a package": ("python3 packed.py", "pack/__init__.py"),
    "after a condition that imports it": ("python3 if.py", "helper.py"),
    "after a value that takes time": ("python3 -c \"def f(a=__import__('time').sleep(6)): pass\nimport helper\"", "helper.py"),
    "after an attribute that takes time": ("python3 -c 'import slow; slow.x; import helper'", "helper.py"),
    "after a function that calls another": (
        'python3 -c "import time; x = sorted([6], key=time.sleep)\nimport helper"',
        "helper.py",
    ),
    "in a folder of PYTHONPATH": ("PYTHONPATH=d python3 late.py", "d/helper.py"),
    "a module of a program that starts late": ("make && python3 main.py", "helper.py"),
    "a module of the standard library, of a program that starts late": ("sleep 6; python3 server.py", "json.py"),
    "a module of a module that starts late": ("sleep 6; python3 -c 'import main'", "helper.py"),
    "a module in a loop": ("while sleep 6; do python3 -c 'import helper'; done", "helper.py"),
    "a program that runs twice": ("python3 main.py; python3 main.py", "helper.py"),
    "a module that is run later": ("make && python3 -m helper", "helper.py"),
    "a script that does not exist yet": ("make && python3 gone.py", "gone.py"),
    "node": ("node -e \"setTimeout(() => require('./index'), 9000)\"", "index.js"),
    "a script of node that does not exist yet": ("make && node gone", "gone.js"),
}


@pytest.mark.parametrize(("command", "file"), MODULES.values(), ids=MODULES)
def test_a_module_that_a_program_loads_late_is_not_changed(bench: Bench, command: str, file: str) -> None:
    """The module was judged at the start, so a later change of it is a change of the program."""
    assert bench.start(command) == "ran"
    assert bench.step(f"PUT {file}") == {"process.script"}
    assert bench.do(f"echo x > {file}") == {"process.script"}


def test_a_file_that_no_start_would_judge_may_be_changed_while_the_program_runs(bench: Bench) -> None:
    """Modules inside the project's packages are not read, neither after an edit before the start nor after one while it runs."""
    for steps in (["PUT pack/part.py", "BACK python3 packed.py"], ["BACK python3 packed.py", "PUT pack/part.py"]):
        assert [bench.step(step) for step in steps] == ["ran", "ran"]


OVERTAKEN = [
    "sh x.sh & cp app.py x.sh",
    "(sleep 5; sh x.sh) & cp app.py x.sh; wait",
    "(make; sh x.sh) & cp app.py x.sh",
    "echo 'echo a' > x.sh; (sleep 5; sh x.sh) & cp app.py x.sh",
    "setsid -f sh -c 'sleep 5; sh x.sh'; cp app.py x.sh",
    "python -c \"import subprocess; subprocess.Popen(['sh', 'x.sh'])\"; cp app.py x.sh",
    "while sleep 1; do sh x.sh; done | (sleep 3; cp app.py x.sh)",
    "python3 late.py & cp app.py helper.py",
]


@pytest.mark.parametrize("command", OVERTAKEN)
def test_a_line_does_not_change_what_its_own_job_executes(bench: Bench, command: str) -> None:
    found = bench.start(command)
    assert isinstance(found, set)
    assert "process.script" in found


def test_an_answer_covers_the_script_as_it_was(bench: Bench) -> None:
    """The start asks, because ``git pull`` may change the script. The answer does not cover a later change."""
    assert bench.start("git pull; sh x.sh") == {"opaque.changed"}
    assert bench.allow()
    assert bench.step("PUT x.sh") == {"process.script"}


SWAPPED = {
    "a parent": ("sleep 60; rm -rf d/sub", ["mv d d2; ln -s ~ d"]),
    "a parent in two calls": ("sleep 60; rm -rf d/sub", ["mv d d2", "ln -sT ~ d"]),
    "the folder itself": ("sleep 60; rm -rf d/sub/x", ["mv d/sub d/old; ln -s ~ d/sub"]),
    "a folder with a link in it": ("sleep 60; rm -rf d/sub", ["mkdir e; ln -s ~ e/sub", "mv d d2", "mv e d"]),
    "a copy": ("sleep 60; rm -rf d/sub", ["rm -r d", "cp -a e d"]),
    "the folder of a loop": ("while sleep 5; do rm -rf d/sub; done", ["mv d d2; ln -s ~ d"]),
    "the current folder of the command": ("sleep 60; cd d && rm -rf sub", ["mv d d2; ln -s ~ d"]),
    "the target of a redirect": ("make; echo x > d/sub/one.txt", ["mv d d2; ln -s ~ d"]),
    "the target of a copy": ("npm ci && cp n.txt d/sub/", ["mv d d2; ln -s ~ d"]),
    "changed rights": ("make && chmod -R a+w d/sub", ["mv d d2; ln -s ~ d"]),
    "a link that replaces a link": ("sleep 60; rm -rf d/sub", ["ln -sfn ~ d"]),
    "find": ("sleep 60; find d/sub -name '*.txt' -delete", ["mv d d2; ln -s ~ d"]),
    "rsync": ("npm ci && rsync -a --delete src/ d/sub/", ["mv d d2; ln -s ~ d"]),
    "a pattern in a folder": ("sleep 60; (cd d/sub && rm -rf *)", ["mv d d2; ln -s ~ d"]),
    "a link that is unpacked": ("sleep 60; rm -rf d/sub/x", ["rm -r d", "tar -xf e.tar"]),
    "a link that is copied": ("sleep 60; rm -rf d/sub/x", ["rm -r d", "cp -a e/. d"]),
    "a link that git brings": ("sleep 60; rm -rf d/sub/x", ["git checkout other"]),
    "a folder that python moves": ("sleep 60; rm -rf d/sub", ["rm -r d", "python -c \"import os; os.rename('e', 'd')\""]),
    "an option's value": ("make && cp n.txt --target-directory=d/sub", ["mv d d2; ln -s ~ d"]),
    "a program in python": ("python -c \"import time, shutil; time.sleep(9); shutil.rmtree('d/sub')\"", ["mv d d2; ln -s ~ d"]),
    "python makes the link": ("sleep 60; rm -rf d/sub", ["mv d d2", "python -c \"import os; os.symlink('/home/dev', 'd')\""]),
}  # fmt: skip


@pytest.mark.parametrize(("command", "steps"), SWAPPED.values(), ids=SWAPPED)
def test_no_link_takes_the_place_of_a_folder_that_a_process_will_change(bench: Bench, command: str, steps: list[str]) -> None:
    if bench.start(command) != "ran":
        assert bench.allow()
    for step in steps[:-1]:
        if bench.do(step) != "ran":
            assert bench.allow()
    found = bench.do(steps[-1])
    assert isinstance(found, set)
    assert "process.path" in found


LEFT = [
    "bash long.sh & echo ok",
    "setsid -f bash long.sh",
    "nohup bash long.sh &",
    "(bash long.sh &)",
    "bash -c 'bash long.sh & echo ok'",
    "for i in 1 2; do ./long.sh & done",
    "coproc bash long.sh",
    "exec 3> >(bash long.sh)",
    "daemonize /bin/bash $PWD/long.sh",
    "tmux new -d 'bash long.sh'",
    "{ bash long.sh; } > log.txt 2>&1 &",
    "true && bash long.sh &",
    "timeout 99 bash long.sh &",
    "f() { bash long.sh & }; f",
    "if true; then ./long.sh & fi",
    "sh -c 'nohup ./long.sh > log.txt &'",
    "python -c \"import subprocess; subprocess.Popen(['bash', 'long.sh'])\"",
    'perl -e \'fork or exec("bash", "long.sh")\'',
    "bash long.sh & disown; wait",
    "setsid -f bash long.sh; wait",
    "(bash long.sh &); wait",
    "bash long.sh & wait %2",
    "bash long.sh & false && wait",
    "trap : USR1; bash long.sh & wait",
    "wait() { :; }; bash long.sh & wait",
    "enable -n wait; bash long.sh & wait",
    "bash long.sh & (kill -9 $$) & wait",
]


@pytest.mark.parametrize("command", LEFT)
def test_a_script_that_a_command_left_running_is_not_changed(bench: Bench, command: str) -> None:
    if bench.do(command) != "ran":
        assert bench.allow()
    assert bench.step("PUT long.sh") == {"process.script"}


def test_the_end_of_background_processes_says_nothing_about_what_a_command_left(real: Floor, tmp_path: Path) -> None:
    """On this machine, with the real tools."""
    (tmp_path / "long.sh").write_text("sleep 60\n")
    (tmp_path / "x.sh").write_text("echo hello\n")
    scope = real.scope(f"left-{os.getpid()}")

    def write(name: str) -> ToolResult:
        return real.run("write_file", {"path": str(tmp_path / name), "content": "echo changed\n"}, scope).result

    assert real.run("terminal", {"command": "bash x.sh & wait"}, scope).result.is_success
    assert real.run("terminal", {"command": "bash long.sh & echo ok"}, scope).result.is_success
    assert real.run("terminal", {"command": "true", "background": True, "name": "job"}, scope).result.is_success
    assert real.run("process", {"action": "wait", "name": "job"}, scope).result.is_success
    assert write("x.sh").is_success
    assert write("long.sh").suspension is not None


def test_the_end_of_a_process_frees_the_files_that_only_it_read(real: Floor, tmp_path: Path) -> None:
    """On this machine, with the real tools. Another process runs on."""
    (tmp_path / "long.sh").write_text("sleep 60\n")
    for name in ("x.sh", "both.sh"):
        (tmp_path / name).write_text("sleep 60\n")
    scope = real.scope(f"freed-{os.getpid()}")

    def does(tool: str, **args: Any) -> ToolResult:
        return real.run(tool, args, scope).result

    def write(name: str) -> ToolResult:
        return does("write_file", path=str(tmp_path / name), content="echo changed\n")

    assert does("terminal", command="true && bash both.sh; bash long.sh", background=True, name="other").is_success
    assert does("terminal", command="true && bash both.sh; bash x.sh", background=True, name="job").is_success
    assert write("x.sh").suspension is not None
    assert does("process", action="signal", name="job", signal="KILL").is_success
    assert does("process", action="wait", name="job").is_success
    assert write("x.sh").is_success
    assert write("both.sh").suspension is not None
    assert write("long.sh").suspension is not None
    assert does("process", action="signal", name="other", signal="KILL").is_success
    assert does("process", action="wait", name="other").is_success
    assert write("both.sh").is_success


def test_numbers_that_a_command_left_running_reads_are_not_changed(bench: Bench) -> None:
    assert bench.do("while read -r x; do (( x )); sleep 1; done < n.txt &") == "ran"
    assert bench.step("PUT n.txt") == {"process.script"}


SELECTED = {
    "a comparison": ["OPEN select x in a b; do [[ $REPLY -gt 1 ]] && echo big; done", "a[$(rm -rf ~)]"],
    "an arithmetic command": ["OPEN select x in a b; do (( REPLY )); done", "1", "a[$(rm -rf ~)]"],
    "an index": ["OPEN select x in a b; do echo ${c[REPLY]}; done", "a[$(rm -rf ~)]"],
    "eval": ["OPEN select x in a b; do eval \"$REPLY\"; done", "rm -rf ~"],
    "the second of two lines": ["OPEN select x in a b; do (( REPLY )); done", "1\na[$(rm -rf ~)]"],
    "after many lines": ["OPEN select x in a b; do (( REPLY )); done", "1\n" * 60 + "a[$(rm -rf ~)]"],
    "a loop, after many lines": ["OPEN while read -r x; do (( x )); done", "1\n" * 60 + "a[$(rm -rf ~)]"],
    "a constant": ["DO select x in a b; do (( REPLY )); done <<< 'a[$(rm -rf ~)]'"],
}  # fmt: skip


@pytest.mark.parametrize("steps", SELECTED.values(), ids=SELECTED)
def test_what_select_reads_is_followed(bench: Bench, steps: list[str]) -> None:
    assert bench.last_of(steps) not in ("ran", {"process.input@job"})


FREE = {
    "a dev server": ["BACK npm run dev", "PUT src/app.js", "DO mkdir -p src/new && mv app.log src/new/", "DO ln -s src lib"],
    "a watcher": ["BACK npx tsc --watch", "PUT src/app.ts", "DO git mv src/app.ts src/main.ts"],
    "a build": ["BACK make -j8 all", "PUT src/main.c", "DO mv src lib"],
    "a build, then a copy": ["BACK make && cp -r src out", "PUT src/main.c", "DO mv n.txt src/n.txt"],
    "a server in python": ["BACK python server.py", "PUT conf.json", "PUT server.py"],
    "modules of a server in python": ["BACK python main.py", "PUT helper.py", "PUT main.py"],
    "modules that python imports at once": ["BACK python early.py", "PUT helper.py"],
    "a dev server of flask": ["BACK flask --app app run --debug", "PUT app.py", "PUT helper.py"],
    "a server that is built first": ["BACK make && ./server", "PUT src/main.c", "DO make"],
    "tests that are repeated": ["BACK pytest -f", "PUT helper.py", "PUT test_app.py"],
    "a script after a pause": ["BACK sleep 1; sh x.sh", "PUT app.py"],
    "a script in a loop": ["BACK while true; do sh x.sh; sleep 2; done", "PUT app.py", "DO cp app.log x.log"],
    "a server with a port from a file": ["BACK python -m http.server $(cat n.txt)", "PUT n.txt"],
    "a loop over an unchanged file": [f"BACK {NUMBERS['a loop over a file']}", "DO cat n.txt", "PUT list.txt"],
    "a loop that prints": ["BACK while read -r x; do echo \"$x\"; done < n.txt", "PUT n.txt"],
    "a loop that compares texts": ["BACK while read -r x; do [[ $x == a* ]] && echo yes; done < n.txt", "PUT n.txt"],
    "a loop with test": ["BACK while read -r x; do [ \"$x\" -gt 1 ] && echo yes; done < n.txt", "PUT n.txt"],
    "a loop that counts lines": ["BACK tail -f app.log | while read -r x; do (( n++ )); echo $n; done", "PUT app.log"],
    "a followed log": ["BACK tail -f app.log | grep error", "DO echo error >> app.log"],
    "a search that takes time": ["BACK sleep 5; grep -rn x src", "PUT src/main.c"],
    "a job that is waited for": ["DO bash x.sh & wait", "PUT x.sh"],
    "a job with a pause that is waited for": ["DO (sleep 1; sh x.sh) & wait", "PUT x.sh"],
    "jobs that are waited for": ["DO for i in 1 2; do ./x.sh & done; wait", "PUT x.sh"],
    "a server in the foreground's shell": ["DO npm run dev & sleep 3; curl localhost:3000; kill %1", "PUT src/app.js"],
    "a log of the foreground's shell": ["DO make > build.log 2>&1 & echo started", "DO cat build.log", "PUT src/main.c"],
    "an archive": ["BACK npm run dev", "DO tar -xzf src.tgz", "DO git pull"],
    "a branch": ["BACK make -j8 all", "DO git checkout main", "PUT src/main.c"],
    "a script that python runs": ["DO python -c \"import subprocess; subprocess.run(['bash', 'x.sh'])\"", "PUT x.sh"],
    "a pipe in the foreground": ["DO cat n.txt | while read -r x; do (( s += x )); done", "PUT n.txt"],
    "a script in the foreground": ["DO bash x.sh | head -1", "PUT x.sh"],
    "a link elsewhere": ["BACK sleep 60; cat d/sub/one.txt", "DO ln -s d/sub latest", "DO rm latest"],
    "a file that is replaced": ["BACK while sleep 5; do cp n.txt out.txt; done", "DO mv app.log n.log", "DO mv n.log old/n.log"],
    "a script of sed at once": ["BACK sed -f s.sed n.txt", "PUT s.sed"],
    "a select": ["OPEN select x in a b; do echo $x; break; done"],
}  # fmt: skip


@pytest.mark.parametrize("steps", FREE.values(), ids=FREE)
def test_ordinary_work_beside_a_process_is_free(bench: Bench, steps: list[str]) -> None:
    assert [bench.step(step) for step in steps] == ["ran"] * len(steps)
