"""Reading other processes' data below /proc needs approval, whatever its name; data that is public anyway is free."""

from __future__ import annotations

import pytest

from tools.judge.detect import examine
from tools.judge.meaning.state import NoFiles
from tools.judge.setting import Setting

HOME = "/home/dev"
OWN = f"{HOME}/.config/toolcrib"


def keys(command: str) -> set[str]:
    setting = Setting(protected=[OWN], home=HOME)
    return {finding.key for finding in examine(command, f"{HOME}/project", None, NoFiles(), setting).findings}


@pytest.mark.parametrize(
    "command",
    [
        "rev /proc/self/../$PPID/environ",
        "rev /proc/self/task/../../$PPID/environ",
        "rev /proc/thread-self/../../../4711/environ",
        "rev /proc/./4711/./environ",
        "rev /proc//4711//environ",
        "rev /sys/../proc/4711/environ",
        "rev /dev/fd/../../4711/environ",
        "rev /proc/4711/e[n]viron",
        "rev /p*/4711/environ",
        "cat /[p]roc/*/mem",
        "cd /proc; rev self/../$PPID/environ",
        "cd /proc; cd $PPID; rev environ",
        "cd /proc/self; cd ../$PPID; rev environ",
        "cd /proc/[0-9]*; rev environ",
        "cd /proc/$PPID; dd if=environ",
        "cd /proc/$PPID; curl -d@environ localhost; rev /proc/self/cwd/environ",
        "cd /proc/$PPID; tar c . | rev",
        "cd /proc/$PPID; grep -ra KEY .",
        'cd "$(somewhere)"; rev environ',
        "ln -s /proc/$PPID e; rev e/environ",
        "ln -s /proc all; rev all/4711/environ",
        "ln -s /proc all; cd all/$PPID; rev environ",
        "ln -s /proc/4711/environ e; rev e",
        "ln -s /proc/4711 e; grep -ra KEY e",
        "ln -s /proc/4711/fd d; echo yes > d/1",
        "echo /proc/*/environ | xargs cat",
        "git grep --no-index -a KEY /proc/4711",
        "git hash-object -w ../../../proc/4711/environ",
        "python3 -m http.server -d /proc/4711",
        "cat /proc/kcore",
        "rg KEY /proc",
        "cp -r /proc/4711 x",
        "tar cf x /proc/4711/task",
        "node -e 'console.log(fs.readFileSync(`/proc/${process.ppid}/environ`))'",
        "tclsh <<< 'puts [read [open /proc/1/environ]]'",
        'awk -v p=1 \'BEGIN { while ((getline l < ("/proc/" p "/environ")) > 0) print l }\'',
    ],
)
def test_what_another_process_keeps_is_asked_about(command: str) -> None:
    assert "secret.process" in keys(command) or "self.fd" in keys(command) or "terminal.device" in keys(command)


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("a.py", "import glob\nfor f in glob.glob('/proc/[0-9]*/environ'):\n    print(open(f).read())"),
        ("a.py", "import os\nfor n in os.listdir('/proc'):\n    print(open(f'/proc/{n}/environ').read())"),
        ("a.py", "import sys\nopen(f'/proc/{sys.argv[1]}/mem', 'rb').read(9)"),
        ("a.py", "import os\nprint(open(os.path.join('/proc', str(os.getppid()), 'environ')).read())"),
        ("a.py", "from pathlib import Path\nfor p in Path('/proc').iterdir():\n    (p / 'environ').read_text()"),
        ("a.py", "import sys\na, b = '/pr' + 'oc/', '/envi' + 'ron'\nprint(open(a + sys.argv[1] + b).read())"),
        ("a.py", "import os, sys\nos.chdir('/pro' + 'c/' + sys.argv[1])\nprint(open('envi' 'ron').read())"),
        ("a.py", "import os, psutil\nprint(psutil.Process(os.getppid()).environ())"),
        ("a.py", "import psutil\nprint([p.info for p in psutil.process_iter(['pid', 'environ'])])"),
        ("a.js", "const [a, b] = ['/pr' + 'oc/', '/envi' + 'ron']\nfs.readFileSync(a + process.argv[2] + b)"),
        ("a.pl", "my $f = join '/', '', 'proc', $ARGV[0], 'environ'; open F, '<', $f; print <F>"),
        ("a.rb", 'puts File.read("/proc/#{Process.ppid}/environ")'),
        ("a.php", '<?php readfile("/proc/" . posix_getppid() . "/environ");'),
    ],
)
def test_a_script_that_reads_it_is_asked_about(name: str, source: str) -> None:
    program = {"py": "python3", "js": "node", "pl": "perl", "rb": "ruby", "php": "php"}[name.partition(".")[2]]
    assert "secret.process" in keys(f"cat > {name} <<'E'\n{source}\nE\n{program} {name} 4711")


def test_a_compiled_program_that_reads_it_is_asked_about() -> None:
    source = 'int main() { char p[99]; sprintf(p, "/proc/%d/environ", getppid()); fopen(p, "r"); }'
    assert "secret.process" in keys(f"cat > e.c <<'E'\n{source}\nE\ncc -o e e.c && ./e")


@pytest.mark.parametrize(
    "command",
    [
        "cat /proc/cpuinfo /proc/loadavg /proc/meminfo /proc/self/status",
        "cat /proc/$$/status; for f in stat cmdline; do cat /proc/$$/$f; done",
        "for p in /proc/[0-9]*; do cat $p/comm; done",
        "ls -l /proc/$$/fd /proc/*/fd/* | grep deleted",
        "ls -l /proc/4711/environ",
        "cd /proc; cat meminfo",
        "tar c /proc/cpuinfo",
        "grep -rn '/proc/self/environ' src",
        "grep -rne /proc/1/environ .",
        "rg '/proc/[0-9]+/environ'",
        "git log -S/proc/1/environ",
        "git commit -m 'Read /proc/PID/environ'",
        'cd "$(git rev-parse --show-toplevel)" && grep -rn environ src',
        "python3 -c \"import os; print(open('/proc/cpuinfo').read(), os.environ['HOME'])\"",
        "printf 'def app(environ, start):\\n    open(\"/proc/stat\")\\n' > a.py; python3 a.py",
        "ps aux; ps -eo pid,etime",
        "echo hi > 1; echo hi 2>&1",
    ],
)
def test_what_anybody_may_see_is_free(command: str) -> None:
    assert keys(command) == set()


@pytest.mark.parametrize(
    "command",
    [
        "git init ~/.config",
        "git -C ~/.config add -A",
        "cd ~/.config; git add .",
        f"git --work-tree={HOME}/.config add -A",
        "GIT_WORK_TREE=~/.config git --git-dir=g add -u",
        "git -C ~/.config grep --no-index KEY",
        "git grep --no-index KEY ~/.config",
    ],
)
def test_git_takes_none_of_toolcribs_files(command: str) -> None:
    assert keys(command) >= {"self.above"}


@pytest.mark.parametrize("command", ["git init", "git add -A", "git add .", "cd ~; git add .bashrc", "git -C ~/.config status"])
def test_git_takes_any_other(command: str) -> None:
    assert keys(command) == set()


@pytest.mark.parametrize(
    "command",
    [
        "tar cf a.tar -C ~ .config",
        "tar -C ~/.config -cf - . | tar x",
        "tar cf a.tar --directory=/home dev/.config/toolcrib",
        "tar cf a.tar -C ~ -C .config toolcrib",
        "tar rf a.tar -C ~/.config/toolcrib secrets.env",
        "diff -r ~/.config x",
    ],
)
def test_folders_with_toolcribs_files_are_not_taken(command: str) -> None:
    assert keys(command) == {"self.settings"}


@pytest.mark.parametrize(
    "command",
    [
        "find ~/.config -name '*.env' | while read f; do rev \"$f\"; done",
        'find ~/.config -type f | while IFS= read -r f; do cat < "$f"; done',
        "for f in $(find ~/.config -name '*.env'); do rev $f; done",
        "rev $(find ~/.config -type f)",
        'mapfile -t l < <(find ~/.config -type f); rev "${l[@]}"',
    ],
)
def test_what_was_found_is_not_read_by_another_way(command: str) -> None:
    assert "self.above" in keys(command)


@pytest.mark.parametrize(
    "command",
    [
        "tar cf a.tar -C src .",
        "tar cf a.tar -C ~/.config/nvim .",
        "tar xf a.tar -C ~/other",
        "diff ~/.config/a x",
        "find ~/.config -name '*.env' | while read f; do echo \"$f\"; done",
        'find ~/.config/nvim -type f | while read f; do cat "$f"; done',
        'find . -name \'*.py\' | while read f; do wc -l "$f"; cat "$f"; done',
        "find ~/.config -name '*.json'; cat package.json",
    ],
)
def test_other_folders_are_free(command: str) -> None:
    assert keys(command) == set()
