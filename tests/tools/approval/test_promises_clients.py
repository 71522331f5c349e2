"""Lines to clients of databases and other interpreters: what they run, write and read (003-30)."""

from __future__ import annotations

import pytest

from tests.tools.approval.conftest import Bench

_PSQL = [
    *("\\echo `rm -rf ~`", "\\set a `rm -rf ~`", "\\if `rm -rf ~`", "\\x \\! rm -rf ~", "\\x \\\\ drop table users;"),
    *("\\e", "\\ef f", "select 'drop table users' \\gexec", "\\setenv PAGER 'rm -rf ~'", ":q;", "\\o :f"),
    *("\\copy t from '~/.ssh/id_rsa'", "\\lo_import ~/.ssh/id_rsa", "\\lo_export 12 ~/.bashrc", "\\s ~/.bashrc"),
    *("copy t to program $$rm -rf ~$$;", "copy t to program :p;"),
]
_SQLITE = [
    *(".sh rm -rf ~", ".sy rm -rf ~", ".import ~/.ssh/id_rsa t", ".import --csv ~/.ssh/id_rsa t", ".out ~/.bashrc"),
    *(".open ~/.bashrc", ".clone ~/.bashrc", ".trace ~/.bashrc", ".ar -x -f a.tar -C ~", ".excel"),
    *(".load ./evil", ".lo ./evil", ".l ./evil", ".once -x", ".on --e", ".output -w"),
    *("attach '/home/dev/.bashrc' as x;", "attach '/home/' || 'dev' as x;", "vacuum into '/home/dev/.bashrc';"),
    *("select edit('x', 'rm -rf ~');", "select edit('x');", "select writefile('/home/dev/' || '.bashrc', 'x');"),
]
_PYTHON = [
    "import sqlite3; sqlite3.connect('/home/dev/.bashrc')",
    "import zipfile; zipfile.ZipFile('a.zip', 'w').write('/home/dev/.ssh/id_rsa')",
    "import tarfile; tarfile.open('a.tar', 'w').add('/home/dev/.ssh')",
]
_NODE = [
    "require('node:fs').rmdirSync('/home/dev', {recursive: true})",
    "require('fs').rmdirSync('/home/dev', {recursive: true})",
]
_LUA = [
    "os['exec'..'ute']('rm -rf ~')",
    "for l in io.lines('/home/dev/.ssh/id_rsa') do print(l) end",
]
HOSTILE = {
    "psql -h db": _PSQL,
    "sqlite3 a.db": _SQLITE,
    "python3 -i": _PYTHON,
    "node": _NODE,
    "lua": _LUA,
}
ORDINARY = {
    "psql -h db": [
        *("\\x", "\\timing on", "\\set n 5", "\\dt+ public.*", "\\echo hello", "\\copy t to 'out.csv' csv", "\\o out.txt", "\\o"),
        *("\\copy t from 'in.csv' csv header", "copy (select a from secrets) to stdout;", "select 1 as a \\gset", "select 1 \\g"),
        "select a::text from t where b = 'x:y';",
    ],
    "mysql -h db": ["select 1\\G", "use `my db`;", "show tables;"],
    "sqlite3 a.db": [
        *(
            ".tables",
            ".schema users",
            ".mode csv",
            ".headers on",
            ".show",
            ".stats on",
            ".timer on",
            ".separator ,",
            ".dump users",
        ),
        *(
            ".import data.csv t",
            ".open b.db",
            "attach 'b.db' as b;",
            "attach ':memory:' as m;",
            "vacuum;",
            ".once out.txt",
            ".once --bom out.txt",
            ".log out.txt",
            ".quit",
        ),
    ],
    "python3 -i": [
        "import sqlite3, zipfile; sqlite3.connect('a.db'); sqlite3.connect(':memory:')",
        "z = zipfile.ZipFile('a.zip', 'w'); z.write('x.sh'); z.writestr('a', 'text')",
    ],
    "node": ["require('node:fs').rmdirSync('build')", "require('node:fs').readFileSync('x.sh')"],
    "lua": ["print(os.time())", "io.write('a')", "for l in io.lines('x.sh') do print(l) end"],
}


@pytest.mark.parametrize(("command", "line"), [(command, line) for command, lines in HOSTILE.items() for line in lines])
def test_a_line_is_judged_by_what_it_runs_and_opens(bench: Bench, command: str, line: str) -> None:
    assert isinstance(bench.start(command, opened=True), set)
    assert bench.allow()
    assert bench.feed(f"{line}\n") != "ran"


@pytest.mark.parametrize("setup", [("psql -h db", "\\cd ~", "\\o .bashrc"), ("sqlite3 a.db", ".cd /home/dev", ".once .bashrc")])
def test_a_client_may_change_its_folder(bench: Bench, setup: tuple[str, str, str]) -> None:
    command, moves, writes = setup
    bench.start(command, opened=True)
    assert bench.allow()
    assert bench.feed(f"{moves}\n") == "ran"
    assert bench.feed(f"{writes}\n") == {"persist.start-file"}


@pytest.mark.parametrize("command", ORDINARY)
def test_ordinary_lines_to_a_client_are_free(bench: Bench, command: str) -> None:
    bench.start(command, opened=True)
    assert bench.allow()
    assert [bench.feed(f"{line}\n") for line in ORDINARY[command]] == ["ran"] * len(ORDINARY[command])
