"""Rules: programs that run what is written to their open input, and that no reader of their language describes."""

from __future__ import annotations

from tools.judge.meaning.multiplexers import READERS
from tools.judge.meaning.value import Taint
from tools.judge.rules.opaque import CLIENT_INPUT, INPUT
from tools.judge.table import Test, count, operand, opt, rule, sub, word

_OPEN = Test(lambda view: view.act.stdin is not None and bool(view.act.stdin.taint & Taint.INPUT))
_READ = Test(lambda view: any(code.source == "stdin" for code in view.act.code))
_WHY = "runs what is written to its input"

RULES = (
    rule(
        INPUT,
        "ask-once",
        "gdb gdb-multiarch cgdb rust-gdb lldb rust-lldb pdb ipdb ghci iex pry rdbg bpython ptpython xonsh nu elvish"
        " pwsh powershell vim nvim vi view ex ed emacs sftp ftp lftp jshell utop gforth swipl maxima sage",
        _OPEN & ~word("-batch|--batch"),
        _WHY,
        yes=(),
        no=("gdb ./app", "ghci"),
    ),
    rule(
        INPUT,
        "ask-once",
        "R octave octave-cli gnuplot scala erl sbcl clisp ocaml dc deno bun bc kotlin kotlinc swift crystal",
        _OPEN & (~count(1) | operand("repl|-|eval", 0)),
        _WHY,
        yes=(),
        no=("R", "deno run x.ts"),
    ),
    rule(
        INPUT,
        "ask-once",
        "python python3 pypy node nodejs lua luajit php tsx ts-node perl julia",
        _OPEN
        & ~_READ
        & (opt("-i -a --interactive") | word("pdb|code|asyncio|IPython|ptpython|bpython|-de\\d*|shell|shell_plus|dbshell")),
        _WHY,
        yes=(),
        no=("python3 app.py", "node -i"),
    ),
    rule(
        INPUT,
        "ask-once",
        "rails flask django-admin mix poetry pipenv hatch pdm nix-shell nix guix heroku artisan tinker terraform tofu bundle",
        _OPEN & word("c|console|dbconsole|db|shell|dbshell|develop|nix-shell|tinker"),
        _WHY,
        yes=(),
        no=("rails server", "flask run"),
    ),
    rule(INPUT, "ask-once", "nix-shell", _OPEN & ~opt("--run --command"), _WHY, yes=(), no="nix-shell"),
    rule(INPUT, "ask-once", "chroot nsenter unshare", _OPEN & ~count(2), _WHY, yes=(), no="chroot /srv/root ls"),
    rule(
        CLIENT_INPUT,
        "ask-once",
        "docker podman nerdctl kubectl oc",
        _OPEN & (sub("attach") | (sub("run") & opt("-i --interactive -it -ti --stdin") & ~count(3)) | sub("compose attach")),
        "a container runs what is written to its input",
        yes=(),
        no=("docker logs -f web", "docker run ubuntu ls"),
    ),
    rule(
        CLIENT_INPUT,
        "ask-once",
        f"{' '.join(READERS)} mosh telnet minicom picocom cu socat",
        _OPEN & ~word("ls|list-sessions|-ls|-list|--list|-V|--version"),
        "another terminal, machine or device runs what is written to its input",
        yes=(),
        no=("tmux ls", "screen -ls"),
    ),
    rule(
        CLIENT_INPUT,
        "ask-once",
        "su sudo doas pkexec runuser login newgrp sg machinectl run0 at batch crontab",
        _OPEN & (~count(1) | word("-|/dev/stdin|shell|login") | opt("-i -s --login --shell -l")),
        _WHY,
        yes=(),
        no=("su", "sudo -i"),
    ),
)
