"""Commands that are judged to write nothing: ordinary reads, and no other command."""

from __future__ import annotations

import pytest

from toolcrib import RunsCommand, ShellState
from tools.judge.passive import command_acts
from tools.judge.setting import Setting

SETTING = Setting(home="/home/dev")


def reason(command: str, shell: ShellState | None = None) -> str:
    return command_acts(RunsCommand(command, "/home/dev/project", shell), setting=SETTING)


READS = [
    "ls -la",
    "cd src && ls | wc -l",
    "cat README.md; head -5 a.py; tail -n 3 b.py",
    "grep -rn 'def foo()' . | head -20",
    "rg -n foo src",
    "rg --files -g '*.py' | sort | uniq -c | sort -rn",
    "git status --short",
    "git log --oneline -5 -- src",
    "git diff HEAD~1 -- src",
    "git --no-pager show HEAD:README.md",
    "git -C sub blame a.py",
    "git branch -a",
    "git branch --contains HEAD",
    "git tag -l 'v*'",
    "git remote -v",
    "git config --get user.name",
    "git stash list",
    "git grep -n foo",
    "git ls-files | wc -l",
    "find . -name '*.py' -not -path './x/*'",
    "find . -name '*.py' -exec grep -n x {} +",
    "find . -type f -print0 | xargs -0 grep -n foo",
    "jq .name package.json",
    "sed -n '1,40p' f",
    "sed -n 1,40p f | nl",
    "sed 's/a/b/g; 3d' f",
    "sed -n '/^def /,/^$/p' f",
    "awk '{print $1}' f",
    "awk -F: '$3 == 0 || $1 ~ /x/ {print $1}' /etc/passwd",
    "ls 2>/dev/null",
    "ls > /dev/null 2>&1",
    'for f in a b; do wc -l "$f"; done',
    "if [ -f x ]; then cat x; fi",
    "[[ -f x ]] && cat x",
    'while read -r l; do echo "$l"; done < f',
    'while read -rd "" l; do echo "$l"; done < f',
    "read -rt 5 -p 'Go on? ' it < f",
    "git -c color.ui=always log -p",
    "cat <<'X'\nhi\nX",
    "python3 --version",
    "LC_ALL=C sort f",
    "GIT_PAGER=cat git log",
    "timeout 5 ls",
    'x=$(git rev-parse HEAD); echo "$x"',
    "wc -l *.py",
    "echo $((1+2))",
    "diff <(ls a) <(ls b)",
    "/usr/bin/env",
    "/bin/ls",
    "date +%F -d yesterday",
    "command -v git",
    "rg --pretty x",
    "awk '/\\.py$/ {n++} END {print n}' f",
    "set -euo pipefail; ls",
    "stat -c %s f; du -sh .; df -h; file f; tree -L 2; fd -e py",
]


@pytest.mark.parametrize("command", READS)
def test_ordinary_reading_passes(command: str) -> None:
    assert reason(command) == ""


WRITES = [
    # redirects
    "ls > out", "> f", ": > f", "ls >> f", "ls >| f", "ls &> f", "cat <> f", "{ ls; } > f", "ls > $x", "exec 3>f",
    "git log | cat > x", "{fd}> x ls", "ls {PATH}>&1", "cat < /dev/tcp/192.0.2.1/80", "echo hi > /dev/udp/192.0.2.1/80",
    "while read l; do :; done < $x",
    # interpreters
    "python3 -c 'print(1)'", "python3 a.py", "node -e 1", "perl -ne print f", "ruby -e 1", "bash -c ls", "sh x.sh", "eval ls",
    "source x", ". x", "cat f | sh", "php -r 1", "lua x", "awk -f x f", "python3 -m json.tool a b",
    # programs that write when they are asked to
    "sed -i s/a/b/ f", "sed -n 'w f' x", "sed 's/a/b/w f' x", "sed 's/a/b/e' x", "sed -n '1e touch x' f",
    "sed -n '/[/]e touch x/p' f", "sed --in-pl s/a/b/ f", "sed -ni p f", "sed -f x f", "sed p f -i", "sed 's/a/b/;w x' f",
    "awk 'BEGIN{print 1 > \"f\"}'", "awk 'BEGIN{system(\"rm x\")}'", "awk 'BEGIN{print 1 | \"sh\"}'",
    "awk 'BEGIN{\"id\" | getline}'", "gawk -i inplace '{print}' f", "awk '@load \"x\"' f", "find . -delete",
    "find . -exec rm {} +", "find . -fprint x", "find . -fls x", "find . -execdir ls \\;", "find . -ok rm {} \\;", "find . $x",
    "find * -name x", "find . -exec ls {} + -exec rm {} +", "sort -o x y", "sort -ro x y", "sort --outp=x y", "sort -T . y",
    "sort $x y", "sort *", "sort a$x b", "git -C $x log", "date -d $x", "[ -v 'a[$(rm x)]' ]", "test -v 'a[$(rm x)]'",
    "wait -p PATH", "jobs -x rm x", "uniq a b", "uniq - b", "xxd a b", "xxd -r a", "tree -o x", "tree -aR -H . -L 1",
    "date -s now", "date 01010000", "fd -x rm", "fd -Hx rm", "fd --exec-b rm", "rg --pre ./x foo", "rg --hostname-bin=./x foo",
    "file -C -m x", "tee x", "cp a b", "mv a b", "ln -s a b", "mkdir x", "touch x", "dd if=a of=b", "rm x", "truncate -s0 f",
    "chmod +x f", "install a b", "patch < x", "tar xf x", "unzip x", "rsync a b", "less f", "vim f", "ed f",
    "curl http://192.0.2.1", "wget http://192.0.2.1", "ssh h ls", "docker run x ls", "make", "npm test", "pytest",
    "cargo build", "gcc a.c", "crontab -r", "kill 1", "systemctl stop x", "toolcrib config set approval.mode default",
    "unknown-program --help", "./ls", "/tmp/ls", "bin/ls", "$x y", "$(echo rm) x", "`echo rm` x", "r''m x", "\\rm x",
    "command rm x", "builtin eval ls", "exec rm x",
    # git
    "git checkout .", "git -c core.pager=x log", "git --exec-path=. log", "git --git-dir=x log", "git diff --output=x",
    "git diff --outp x", "git diff --ext-diff", "git grep -Ovi x", "git grep --open-f=vi x", "git branch new",
    "git branch -D x", "git branch --list -d x", "git tag v1", "git tag -d v1", "git config user.name x",
    "git config --get x --unset y", "git config -e", "git stash", "git stash pop", "git status; git add .", "git fetch",
    "git pull", "git remote add x y", "git remote update", "git log --format=%G?", "git log --show-signature",
    "git reflog expire --all", "git reflog delete x", "git worktree add x", "git st", "git notes add", "git diff $x",
    "git reset", "git commit -m x", "git clean -n", "git apply x", "git bisect start", "git gc", "git archive -o x HEAD",
    "git cat-file --batch-command", "git cat-file --textconv HEAD:x", "git help log", "git ls-remote x", "git config set a.b c",
    # the environment, and the shell itself
    "PATH=.:$PATH ls", "GIT_EXTERNAL_DIFF=./x git diff", "env PATH=. ls", "env -S 'rm x'", "LD_PRELOAD=./x ls", "export PATH=.",
    "PATH=.; ls", "RIPGREP_CONFIG_PATH=x rg y", "GIT_PAGER=./x git log", "for PATH in ./bin; do ls; done", ": ${GIT_PAGER:=x}",
    ": ${PATH=x}", "f() { rm x; }; f", "ls() { rm x; }", "function ls { rm x; }", "alias ls=rm", "trap 'rm x' EXIT",
    "read PATH", "read -r x PATH", "read -p x PATH", "read -np PATH", "git -c core.pager=x log", "git -c color.ui=always push",
    "printf -v PATH x", "((PATH=1))", "let PATH=1", "echo $((PATH=1))", "echo $((x))",
    "echo ${x[PATH=1]}", "echo ${x:PATH=1}", "[[ x -eq PATH=1 ]]", "for ((PATH=1;;)); do :; done", "declare PATH=x",
    "local PATH=x", "readonly x", "mapfile PATH", "hash -p ./x ls", "enable -f ./x y", "set -a", "shopt -s expand_aliases",
    "IFS=x", "select PATH in a; do :; done", "unset PATH", "x[PATH=1]=2",
    "read x < f; echo ${x@P}", "read x < f; echo ${!x}",
    # beside it, and by way of others
    "ls &", "coproc ls", "(sleep 5; ls) &", "nohup ls", "sudo ls", "setsid ls", "xargs rm < f",
    "xargs --process-slot-var=PATH cat", "ls | xargs sort", "ls | xargs -a x git diff",
    "ls | x'args' --process-slot-var=PATH cat", "parallel ls", "watch ls", "strace -o x ls", "script x", "at now",
    "ls >(tee x)", "cat <(rm x)", "echo $(rm x)", "cat <<X\n$(rm x)\nX", "ls 'unclosed", "history -w f", "\\time -o f ls",
    "case a in a) rm x;; esac", "! rm x", "true && rm x", "y=xar; ls | xargs cat; timeout 5 ${y}gs --process-slot-var=PATH cat",
    "y=xargs; find . -exec $y {} +", "while rm x; do :; done", "ls\nrm x", "( ls; rm x )", "time rm x",
]  # fmt: skip


@pytest.mark.parametrize("command", WRITES)
def test_whatever_may_write_does_not(command: str) -> None:
    assert reason(command)


def test_what_an_earlier_command_left_in_the_shell_counts() -> None:
    """After a function, a trap or a variable was set, the name `ls` may mean another command."""
    exported = {"PATH": "/usr/bin", "EDITOR": "vim"}
    assert not reason("ls", ShellState(variables=exported, attributes={"PATH": "x", "EDITOR": "x"}))
    for shell in (
        ShellState(functions={"ls": "ls () { rm x; }"}),
        ShellState(aliases={"ls": "rm x"}, aliases_on=True),
        ShellState(traps={"DEBUG": "rm x"}),
        ShellState(variables={"GIT_EXTERNAL_DIFF": "./x"}, attributes={"GIT_EXTERNAL_DIFF": "x"}),
        ShellState(variables={"SHELLOPTS": "allexport:braceexpand"}),
        ShellState(arrays={"BASH_CMDS": {"ls": "/tmp/rm"}}),
    ):
        assert reason("ls", shell)
    for names in ({"x": "n"}, {"x": "i"}, {"x": "x"}):
        assert reason("x=PATH", ShellState(attributes=names))
        assert reason("read x", ShellState(attributes=names))


def test_the_reason_names_what_it_is_about() -> None:
    assert reason("sort -o x y") == "sort -o: -o may write or run something"
    assert reason("ls > out") == "it writes to out"
    assert reason("rm -rf build") == "rm -rf: it deletes files"
    assert reason("frobnicate now") == "frobnicate now: toolcrib does not know whether it writes"


def test_a_long_command_is_not_read() -> None:
    assert command_acts(RunsCommand("ls " * 99, "/p"), setting=Setting(max_chars=100)) == "it is too long to judge"
