"""Programs that run what is written to their open input, besides those whose code the judge reads (see meaning/interpreters)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tools.judge.meaning.multiplexers import READERS
from tools.judge.meaning.value import names
from tools.judge.rules.opaque import CLIENT_INPUT, INPUT
from tools.judge.table import ANY, ActView, Test, count, operand, opt, sub, word

_READ = Test(lambda view: any(code.source == "stdin" for code in view.act.code))
_MODULES = r"pdb|code|asyncio|IPython|ptpython|bpython|-de\d*|shell|shell_plus|dbshell"
_SHELL = word("c|console|dbconsole|db|shell|dbshell|develop|tinker")

_LOCAL: Sequence[tuple[str, Test]] = (
    ("gdb gdb-multiarch cgdb rust-gdb lldb rust-lldb pdb ipdb rdbg", ~word("-batch|--batch")),
    ("ghci iex pry bpython ptpython xonsh nu elvish pwsh powershell jshell utop gforth swipl maxima sage", ANY),
    ("vim nvim vi view ex ed emacs sftp ftp lftp", ANY),
    (
        "R octave octave-cli gnuplot scala erl sbcl clisp ocaml dc deno bun bc kotlin kotlinc swift crystal",
        ~count(1) | operand("repl|-|eval", 0),
    ),
    ("python pypy node nodejs lua luajit php tsx perl julia", ~_READ & (opt("-i -a --interactive") | word(_MODULES))),
    ("rails flask django-admin mix poetry pipenv hatch pdm nix guix heroku artisan terraform tofu bundle", _SHELL),
    ("nix-shell", ~opt("--run --command")),
    ("pyspark spark-shell rlwrap winpty", ANY),
    ("chroot nsenter unshare", ~count(2)),
)
_ELSEWHERE: Sequence[tuple[str, Test]] = (
    ("docker podman nerdctl kubectl oc", sub("attach") | sub("compose attach")),
    ("docker podman nerdctl", sub("run") & opt("-i --interactive -it -ti") & ~count(3)),
    ("gcloud aws vagrant fly flyctl heroku az oc kubectl", word("ssh|console|start-session|rsh|debug|bash|run")),
    (" ".join(READERS), ~word("ls|list-sessions|-ls|-list|--list|-V|--version")),
    (
        "su sudo doas pkexec runuser login newgrp sg machinectl run0",
        ~count(1) | word("-|shell") | opt("-i -s --login --shell -l"),
    ),
    ("cqlsh sqlplus beeline hive ksql influx mosh telnet minicom picocom cu socat at batch crontab", ANY),
)
"""Programs that pass their input on: to a server, a device, another user or another terminal."""
_ROWS = tuple((key, names(given), test) for key, rows in ((INPUT, _LOCAL), (CLIENT_INPUT, _ELSEWHERE)) for given, test in rows)


def open_input_findings(view: ActView, family: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield (key, why) if this program, whose input is open, runs what is written to it. ``family``: see rules.family."""
    for key, wanted, test in _ROWS:
        if not wanted.isdisjoint(family) and test.ask(view):
            yield key, "runs what is written to its input"
