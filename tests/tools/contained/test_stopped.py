"""Denials in the messages of real programs, recorded in a read-only mount namespace and one without network (coreutils 9.1, bash
5.2, git 2.39, Python 3.11, Node 20, npm 10, cargo 1.8x, curl 7.88): /o was read-only, /p the project.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from toolcrib import Captured, Containment, ExecOutcome
from tools.contained.stopped import MOST, Denial, denials, may_write

INSIDE = Containment(
    mode="workspace",
    writable=("/p",),
    ephemeral=("/tmp",),
    masked=("/home/me/.ssh", "/home/me/.gnupg", "/home/me/.git-credentials", "/home/me/.config/toolcrib"),
    read_only=("/p/.git/hooks",),
    network="none",
)


class Refused(NamedTuple):
    host: str
    port: int


def outcome(stderr: str = "", *, stdout: str = "", code: int = 1, cwd: str = "/p") -> ExecOutcome:
    streams = [Captured(head=text.encode(), total=len(text.encode())) for text in (stdout, stderr)]
    return ExecOutcome(code, streams[0], streams[1], cwd, 0.0, "sandbox")


def found(text: str, *, stdout: bool = False, code: int = 1, holds: Containment = INSIDE) -> list[tuple[str, str]]:
    ended = outcome(stdout=text, code=code) if stdout else outcome(text, code=code)
    return [(one.kind, one.what) for one in denials(ended, holds, real=str, writes=lambda path: True)]


PATHS = [
    ("bash: line 1: /o/f: Read-only file system", "/o/f"),
    ("touch: cannot touch '/o/f': Read-only file system", "/o/f"),
    ('touch: cannot touch "/o/it\'s a f": Read-only file system', "/o/it's a f"),
    ("mkdir: cannot create directory \u2018/o/d\u2019: Read-only file system", "/o/d"),
    ("mv: cannot remove '/etc/hostname': Read-only file system", "/etc/hostname"),
    ("mv: cannot move '/p/a' to '/o/a': Read-only file system", "/o/a"),
    ("tee: /o/f: Read-only file system", "/o/f"),
    ("sed: couldn't open temporary file /o/sedGqxznA: Read-only file system", "/o/sedGqxznA"),
    ("dd: failed to open '/o/f': Read-only file system", "/o/f"),
    ("tar: m.c: Cannot open: Read-only file system\ntar: Exiting with failure status due to previous errors", "open"),
    ("error:  cannot create /o/m.c\n        Read-only file system", "/o/m.c"),
    ("fatal: Unable to create '/o/repo/.git/index.lock': Read-only file system", "/o/repo/.git/index.lock"),
    ("error: could not lock config file /root/.gitconfig: Read-only file system", "/root/.gitconfig"),
    ("error: could not lock config file .git/config: Read-only file system", ".git/config"),
    ("OSError: [Errno 30] Read-only file system: '/o/f'", "/o/f"),
    ('OSError: [Errno 30] Read-only file system: "/o/it\'s"', "/o/it's"),
    ("  errno: -30,\n  code: 'EROFS',\n  syscall: 'open',\n  path: '/o/f'\n}", ""),
    ("Error: EROFS: read-only file system, open '/o/f'\n    at Object.openSync (node:fs:573:18)", "/o/f"),
    (
        "npm error path ../../../p/pkg\nnpm error rofs EROFS: read-only file system, symlink '../p/pkg' -> '/usr/lib/node/a'",
        "/usr/lib/node/a",
    ),
    (
        "error: Failed\n\nCaused by:\n  failed to create directory `/o/c`\n\nCaused by:\n  Read-only file system (os error 30)",
        "/o/c",
    ),
    ("make: Entering directory '/o/mk'\necho x > out\n/bin/sh: 1: cannot create out: Read-only file system", "out"),
    ("/usr/bin/ld: cannot open output file /o/a.out: Read-only file system", "/o/a.out"),
    ('Error: unable to open database "/o/x.db": unable to open database file', "/o/x.db"),
    ("Warning: Failed to open the file /o/f: Read-only file \nWarning: system\ncurl: (23) Failure writing", "/o/f"),
    ("To /o/r\n ! [remote rejected] main (unpacker error)\nerror: failed to push some refs to '/o/r'", "/o/r"),
    ("patch: **** Can't create temporary file /o/old.ovoJd3s : Read-only file system", "/o/old.ovoJd3s"),
    ("E: Unable to mkstemp /o/clearsigned.TmDkh2 - GetTempFile (30: Read-only file system)", "/o/clearsigned.TmDkh2"),
    ('awk: cannot open "/o/f" for output (Read-only file system)', "/o/f"),
    ("no: Read-only file system at -e line 1.", ""),
    ("mkdir /o/x: read-only file system", "/o/x"),
    ("cp: cannot create regular file '/p/.git/hooks/pre-commit': Read-only file system", "/p/.git/hooks/pre-commit"),
    ("PermissionError: [Errno 13] Permission denied: '/o/f'", "/o/f"),
    ("error: failed to open `/o/f`: Permission denied (os error 13)", "/o/f"),
    ("mv: cannot move '/p/.git' to '/p/.g': Device or resource busy", "/p/.git"),
    ("error: could not write config file .git/config: Device or resource busy", "/p/.git/config"),
    ("cat: /home/me/.ssh/id_ed25519: No such file or directory", "/home/me/.ssh/id_ed25519"),
    ("git@files.test: Permission denied (publickey).\nfatal: Could not read from remote repository.", "/home/me/.ssh"),
    ("error: gpg failed to sign the data\nfatal: failed to write commit object", "/home/me/.gnupg"),
    ("fatal: could not read Username for 'https://files.test': terminal prompts disabled", "/home/me/.git-credentials"),
]
OTHERS = [
    ("curl: (6) Could not resolve host: files.test", "host", "files.test"),
    ("wget: unable to resolve host address \u2018files.test\u2019", "host", "files.test"),
    ("fatal: unable to access 'https://files.test/x.git/': Could not resolve host: files.test", "host", "files.test"),
    ("ssh: Could not resolve hostname files.test: Temporary failure in name resolution", "host", "files.test"),
    ("urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>", "host", ""),
    ("OSError: [Errno 101] Network is unreachable", "host", ""),
    ("npm error request to https://files.test/hello failed, reason: getaddrinfo EAI_AGAIN files.test", "host", "files.test"),
    ('psql: error: could not translate host name "files.test" to address: Name or service not known', "host", "files.test"),
    ("curl: (7) Failed to connect to 10.1.2.3 port 80 after 0 ms: Couldn't connect to server", "host", "10.1.2.3"),
    ("curl: (56) CONNECT tunnel failed, response 403", "host", ""),
    ("dial tcp: lookup files.test on 10.2.2.5:53: dial udp 10.2.2.5:53: network is unreachable", "host", "files.test"),
    ("Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is it running?", "socket", "/var/run/docker.sock"),
    ("System has not been booted with systemd as init system (PID 1). Can't operate.", "socket", "systemd"),
    ('sudo: The "no new privileges" flag is set, which prevents sudo from running as root.', "privilege", ""),
    ("su: cannot set groups: Operation not permitted", "privilege", ""),
    ("mount: /mnt: must be superuser to use mount.", "privilege", ""),
    ("bwrap: Creating new namespace failed: Operation not permitted", "privilege", ""),
    (
        "bwrap: No permissions to create new namespace, likely because the kernel does not allow non-privileged user",
        "privilege",
        "",
    ),
    ("[9:9:FATAL:zygote_host_impl_linux.cc(128)] No usable sandbox! If you are running on Ubuntu 23.10+", "privilege", ""),
    ("bash: fork: retry: Resource temporarily unavailable", "process", ""),
]


@pytest.mark.parametrize(("text", "what"), PATHS)
def test_a_message_about_a_closed_path_is_a_denial(text: str, what: str) -> None:
    kinds = found(text)
    assert [kind for kind, _ in kinds] == ["path"]
    assert what in kinds[0][1]


@pytest.mark.parametrize(("text", "kind", "what"), OTHERS)
def test_a_message_about_a_host_a_socket_or_a_privilege_is_a_denial(text: str, kind: str, what: str) -> None:
    assert found(text) == [(kind, what)]


@pytest.mark.parametrize(
    "text",
    [
        "touch: cannot touch '/p/ro/f': Permission denied",
        "bash: line 1: ./run.sh: Permission denied",
        "touch: cannot touch '/tmp/x/f': Read-only file system",
        "cat: /o/missing: No such file or directory",
        "FileNotFoundError: [Errno 2] No such file or directory: '/p/x'",
        "rm: cannot remove '/p/mnt': Device or resource busy",
        "curl: (7) Failed to connect to localhost port 8000 after 0 ms: Couldn't connect to server",
        "psql: error: connection refused",
        "AssertionError: assert 'denied' == 'allowed'",
        "make: *** [Makefile:2: all] Error 2",
        "ERROR: No matching distribution found for hello",
        "error: pathspec 'x' did not match any file(s) known to git",
        "Error: stepping, attempt to write a readonly database (8)",
        "sqlite3.OperationalError: unable to open database file",
        "remote: Permission to a/b.git denied to c.",
        "ModuleNotFoundError: No module named 'sudo'",
    ],
)
def test_an_ordinary_failure_is_no_denial(text: str) -> None:
    assert found(text) == []


def test_what_a_successful_command_prints_is_no_message() -> None:
    assert found("notes: my disk says Read-only file system", stdout=True, code=0) == []
    assert found("curl: (6) Could not resolve host: files.test", stdout=True, code=0) == []


@pytest.mark.parametrize("stdout", [True, False])
def test_half_done_successes_are_found(stdout: bool) -> None:
    """`git branch --track` and `git submodule add` exit with 0 although they could not write the configuration."""
    text = "error: could not lock config file .git/config: Read-only file system\nBranch 'b' set up to track 'main'."
    assert found(text, stdout=stdout, code=0) == [("path", ".git/config")]


def test_with_the_network_on_a_host_is_never_denied() -> None:
    online = Containment("workspace", ("/p",), (), (), (), "on")
    assert found("curl: (6) Could not resolve host: files.test", holds=online) == []


def test_mode_own_closes_only_what_is_masked() -> None:
    own = Containment("own", (), (), ("/home/me/.config/toolcrib",), (), "on")
    assert found("touch: cannot touch '/o/f': Permission denied", holds=own) == []
    denied = "bash: line 1: /home/me/.config/toolcrib/config.yaml: Permission denied"
    assert found(denied, holds=own) == [("path", "/home/me/.config/toolcrib/config.yaml")]


def test_a_path_that_the_user_can_not_write_anyway_is_no_denial() -> None:
    ended = outcome("touch: cannot touch '/etc/x': Permission denied")
    assert denials(ended, INSIDE, real=str, writes=lambda path: False) == []


def test_the_proxy_names_hosts_better_than_programs() -> None:
    ended = outcome("curl: (56) CONNECT tunnel failed, response 403")
    assert denials(ended, INSIDE, [Refused("files.test", 443)] * 2) == [
        Denial("host", "files.test:443", "the host is not allowed")
    ]


def test_many_messages_are_cut_to_the_first_ones() -> None:
    lines = "\n".join(f"rm: cannot remove '/o/{number}': Read-only file system" for number in range(2_000))
    assert len(found(lines)) == MOST


def test_a_link_in_the_project_that_leads_out_is_followed(tmp_path: Path) -> None:
    project, other = tmp_path / "p", tmp_path / "o"
    project.mkdir()
    other.mkdir()
    (project / "link").symlink_to(other)
    holds = Containment("workspace", (str(project),), (), (), (), "none")
    ended = outcome("bash: line 1: link/f: Read-only file system", cwd=str(project))
    assert [one.what for one in denials(ended, holds)] == [f"{other}/f"]


def test_may_write_looks_at_the_nearest_folder_that_exists(tmp_path: Path) -> None:
    assert may_write(f"{tmp_path}/a/b/c")
    assert not may_write("/proc/1/a/b")


REAL = r"""
mount --bind "$PWD" "$PWD" && mount -o remount,bind,ro / && cd . || exit 99
for line in "touch $1/f" "mkdir $1/d" "echo a > $1/f" "cp p/x $1/x" "git config --file $1/c a.b c" \
  "python3 -c 'open(\"$1/f\", \"w\")'" "tar cf $1/t.tar p" "sed -i s/x/y/ $1/old" "sqlite3 $1/new.db 'create table t (a)'"
do (eval "$line") 2>err </dev/null || { echo "## $line"; cat err; }; done 2>/dev/null
"""


def test_the_programs_of_this_machine_are_understood(tmp_path: Path) -> None:
    """Runs real programs over a read-only disk; skipped if this machine allows no namespaces."""
    project, other = tmp_path / "w", tmp_path / "o"
    (project / "p").mkdir(parents=True)
    other.mkdir()
    (other / "old").touch()
    (project / "p" / "x").touch()
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("unshare is not installed")
    argv = [unshare, "-Urm", "--propagation", "private", "bash", "-c", REAL, "bash", str(other)]
    ran = subprocess.run(argv, cwd=project, capture_output=True, text=True, check=False)
    if "##" not in ran.stdout:
        pytest.skip(f"no read-only mount namespace here: {ran.stderr[:200]}")
    holds = Containment("workspace", (str(project),), (), (), (), "none")
    for said in ran.stdout.split("## ")[1:]:
        line, _, message = said.partition("\n")
        if "command not found" in message:
            continue
        kinds = [(one.kind, one.what.startswith(str(other))) for one in denials(outcome(message, cwd=str(project)), holds)]
        assert kinds == [("path", True)], (line, message)
    assert list(other.iterdir()) == [other / "old"]
