"""Programs that tests fork instead of starting them (tests/forks.py) are what new processes are."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest

from tests.forks import COMMAND, Forks

pytestmark = pytest.mark.e2e
FACTS = """
import gc, json, os, random, resource, signal, sys, threading
me = os.getpid()
facts = {
    "argv": sys.argv[1:],
    "cwd": os.getcwd(),
    "environment": dict(os.environ),
    "parent": os.getppid(),
    "leads its session and group": (os.getsid(0) == me, os.getpgrp() == me),
    "streams": [
        (one.fileno(), one.isatty(), one.encoding, one.errors, one.line_buffering, one.write_through, repr(type(one.buffer)))
        for one in (sys.stdin, sys.stdout, sys.stderr)
    ],
    "terminal": os.ttyname(0).startswith("/dev/pts/") and os.tcgetpgrp(0) == me if os.isatty(0) else None,
    "size": tuple(os.get_terminal_size(0)) if os.isatty(0) else None,
    "handlers": {number: repr(signal.getsignal(number)).partition(" at ")[0] for number in signal.valid_signals()},
    "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "limits": [resource.getrlimit(one) for one in (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE, resource.RLIMIT_NPROC)],
    "mask": os.umask(0o22),
    "threads": threading.active_count(),
    "collector": (gc.isenabled(), gc.get_threshold()),
    "flags": repr(sys.flags),
    "files": [number for number in range(3, 200) if os.path.exists(f"/proc/self/fd/{number}")],
}
with open(os.environ["FACTS_FILE"], "w") as file:
    json.dump(facts, file)
if os.environ["FACTS_END"] == "exception":
    raise RuntimeError("the plugin is broken")
if os.environ["FACTS_END"] == "exit":
    os._exit(7)
if os.environ["FACTS_END"] == "signal":
    os.kill(me, signal.SIGKILL)
"""


@pytest.fixture
def env(user_plugin: Callable[[str, str], Path], tmp_path: Path) -> dict[str, str]:
    user_plugin("facts", FACTS)
    return {**os.environ, "FACTS_FILE": str(tmp_path / "facts.json"), "FACTS_END": "", "FACTS_OWN": "ü"}


def _facts(env: dict[str, str]) -> Any:
    file = Path(env["FACTS_FILE"])
    facts = json.loads(file.read_text())
    file.unlink()
    return facts


def test_the_facts_of_a_process_are_those_of_a_new_one(forks: Forks, env: dict[str, str], project: Path) -> None:
    forked = forks.run("plugins", cwd=project, env=env)
    facts = _facts(env)
    new = subprocess.run(
        [COMMAND, "plugins"],
        cwd=project,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
    )
    assert facts == _facts(env)
    assert (facts["parent"], facts["environment"]["FACTS_OWN"]) == (os.getpid(), "ü")
    assert (forked.returncode, forked.stdout, forked.stderr) == (new.returncode, new.stdout, new.stderr)


def test_at_a_terminal_too(forks: Forks, env: dict[str, str], project: Path) -> None:
    options: dict[str, Any] = {"env": env, "dimensions": (30, 90), "timeout": 60}
    seen = []
    for start in (
        lambda: forks.spawn("plugins", cwd=project, **options),
        lambda: pexpect.spawn(str(COMMAND), ["plugins"], cwd=str(project), **options),
    ):
        process = start()
        process.expect(pexpect.EOF)
        process.close()
        seen.append((_facts(env), process.before, process.exitstatus, process.signalstatus))
    assert seen[0] == seen[1]
    assert (seen[0][0]["terminal"], seen[0][0]["size"]) == (True, [90, 30])


@pytest.mark.parametrize(
    "words",
    [
        ["toolsets", "resolve", "--platform", "telegram", "--user", "42", "--explain"],
        ["tools", "--json"],
        ["env", "--json"],
        ["config", "show"],
        ["explain", "git push --force; cat .env"],
        ["call", "read_file", '{"path": "none"}'],
        ["nonsense"],
    ],
    ids=lambda words: words[0],
)
def test_what_it_prints_is_what_a_new_one_prints(forks: Forks, project: Path, words: list[str]) -> None:
    """Modules register tools, rules and backends when they are imported, so the order of imports must be the same."""
    forked = forks.run(*words, cwd=project)
    new = subprocess.run([COMMAND, *words], cwd=project, capture_output=True, text=True, check=False)
    assert (forked.returncode, forked.stdout, forked.stderr) == (new.returncode, new.stdout, new.stderr)


@pytest.mark.parametrize(("end", "code"), [("exit", 7), ("signal", -signal.SIGKILL), ("exception", 0)])
def test_it_ends_as_a_new_one(forks: Forks, env: dict[str, str], project: Path, end: str, code: int) -> None:
    env["FACTS_END"] = end
    forked = forks.run("plugins", cwd=project, env=env)
    new = subprocess.run([COMMAND, "plugins"], cwd=project, env=env, capture_output=True, text=True, check=False)
    assert (forked.returncode, forked.stdout, forked.stderr) == (new.returncode, new.stdout, new.stderr)
    assert forked.returncode == code or end == "exception"


CODE = """
import json, sys
import __main__
given = sys.stdin.read()
print(json.dumps([__name__, __main__.given, sys.argv, sys.path]))
print("to the second stream", file=sys.stderr)
from agent.cli import main
sys.exit(main(["call", "read_file", '{"path": "none"}']))
"""


def test_code_is_run_as_by_python_itself(forks: Forks, project: Path) -> None:
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    seen = []
    for process in (
        forks.popen("a", code=CODE, cwd=project, text=True, **pipes),
        subprocess.Popen([sys.executable, "-c", CODE, "a"], cwd=project, text=True, **pipes),
    ):
        with process:
            seen.append((*process.communicate("typed"), process.returncode))
    assert seen[0] == seen[1]
    assert '["__main__", "typed", ["-c", "a"], ["", ' in seen[0][0]
    assert seen[0][2] != 0


LATE = """
import atexit, os, threading, time
from agent.cli import main

class Kept:
    def __del__(self):
        os.write(2, b"deleted with its module\\n")

kept, unflushed = Kept(), open("late", "w")
unflushed.write("flushed")
atexit.register(print, "at the exit")
threading.Thread(target=lambda: (time.sleep(0.2), print("from a thread"))).start()
"""


def test_its_end_is_that_of_a_new_one(forks: Forks, project: Path) -> None:
    """A fork keeps the modules that it shares, but ends its threads, files and its own objects as each process does."""
    ends = []
    for start in (forks.run, _run_new):
        done = start(code=LATE, cwd=project)
        ends.append((done.returncode, done.stdout, done.stderr, (project / "late").read_text()))
        (project / "late").unlink()
    assert ends[0] == ends[1]
    assert ends[0] == (0, "from a thread\nat the exit\n", "deleted with its module\n", "flushed")


def _run_new(code: str, cwd: Path) -> Any:
    return subprocess.run([sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, check=False)


def test_one_that_takes_too_long_is_ended(forks: Forks, project: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        forks.run(code="import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(600)", cwd=project, timeout=2)
    with pytest.raises(ProcessLookupError):
        os.kill(int((project / "pid").read_text()), 0)


def test_with_variables_that_python_reads_at_its_start_it_is_a_new_one(forks: Forks, env: dict[str, str], project: Path) -> None:
    done = forks.run("plugins", cwd=project, env={**env, "PYTHONIOENCODING": "latin-1"})
    assert done.returncode == 0
    assert _facts(env)["streams"][0][2] == "iso8859-1"
