"""awk, sed, vim, tcl, SQL, MongoDB, and rules for all languages. 003-23, 003-24"""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.judge.languages import LANGUAGES, read
from tools.judge.meaning.act import Code
from tools.judge.meaning.value import HOLE, Value

SMALL = [
    ("awk", 'BEGIN{system("rm -rf /etc")}', [("shell", "rm -rf /etc")]),
    ("awk", 'BEGIN{c = "rm -rf "; system(c "/etc")}', [("shell", "rm -rf /etc")]),
    ("awk", '{"date" | getline d; print d}', [("shell", "date")]),
    ("awk", '{print "reboot" | "sh"}', [("run", "sh", "-c", "sh", "<<<", "reboot")]),
    ("awk", '{print $1 > "/etc/x"}', [("run", ">", "/etc/x")]),
    ("awk", '{print $1 >> "log"}', [("run", ">>", "log")]),
    ("awk", "/DROP TABLE/ {print $1, $2}", []),
    ("awk", '$3 > 5 && $1 ~ /rm/ {n++} END {print n, "system(x)"}', []),
    ("awk", "{ if ($1 > 3 || $2 > 4) s += $2 / 2 } # system(1)", []),
    ("sed", "s/a/b/g;5,10p", []),
    ("sed", "1e rm -rf /etc", [("shell", "rm -rf /etc")]),
    ("sed", "s/.*/rm -rf x/e", [("shell", "rm -rf x")]),
    ("sed", "/x/s|a|b|gw /etc/x", [("run", ">", "/etc/x")]),
    ("sed", "$!N;w out", [("run", ">", "out")]),
    ("sed", "s/e x/w y/;a\\\ne rm\n", []),
    ("sed", "/start/,/end/{s/[/]x/y/;p}", []),
    ("vim", ":!rm -rf /etc", [("shell", "rm -rf /etc")]),
    ("vim", "silent !curl x | sh", [("shell", "curl x | sh")]),
    ("vim", ":call system('rm -rf /etc')", [("shell", "rm -rf /etc")]),
    ("vim", ":call delete('/srv', 'rf')", [("run", "rm", "-r", "/srv")]),
    ("vim", ":%s/a/b/g | w /etc/x", [("run", ">", "/etc/x")]),
    ("vim", ":w !sh", [("shell", "sh")]),
    ("vim", ":py3 import os", [("code", "python", "import os")]),
    ("vim", ":redir! > /etc/x", [("run", ">", "/etc/x")]),
    ("vim", ":redi >> /etc/x", [("run", ">>", "/etc/x")]),
    ("vim", ":redir @a", []),
    ("vim", ":redir END", []),
    ("vim", ":wq", []),
    ("vim", ":set number | syntax on", []),
    ("tcl", "set d 1; puts $d", []),
    ("mongo", "db.events.deleteMany({})", [("run", "@mongo", "db.events.deleteMany({})")]),
    ("mongo", "db . dropDatabase( )", [("run", "@mongo", "db.dropDatabase()")]),
    ("mongo", "db.getCollection('a b').drop()", [("run", "@mongo", "db.getCollection('a b').drop()")]),
    ("mongo", "db.x.deleteMany({a: 1}); db.x.find({})", []),
    ("mongo", "print('db.dropDatabase()') // db.dropDatabase()", []),
]

SQL = [
    ("drop   table x", ["DROP TABLE x"]),
    ("/* a */ Drop/**/Database -- b\n app;", ["DROP DATABASE app"]),
    ("truncate t", ["TRUNCATE t"]),
    ("delete from t", ["DELETE FROM t"]),
    ("delete from t where id=3", ["DELETE FROM t WHERE id = 3"]),
    ("DELETE FROM t WHERE 1=1", ["DELETE FROM t"]),
    ("delete from t where (true) ;", ["DELETE FROM t"]),
    ("delete from t where id = 3 or 'a' = 'a'", ["DELETE FROM t"]),
    ("update t set a = 'where x' ", ["UPDATE t SET a = 'where x'"]),
    ("update t set a = 1 where b = 2", ["UPDATE t SET a = 1 WHERE b = 2"]),
    ("with x as (select 1) delete from t", ["DELETE FROM t"]),
    ("alter table a drop column b", ["ALTER TABLE a DROP COLUMN b"]),
    ("alter table a add column b int", []),
    ("grant all on x to y; revoke all on x from y", ["GRANT ALL ON x TO y", "REVOKE ALL ON x FROM y"]),
    ("create user x; alter role y superuser", ["CREATE USER x", "ALTER ROLE y SUPERUSER"]),
    ("DO $$ BEGIN DELETE FROM t; END $$", ["DELETE FROM t"]),
    ("select 1; insert into log values('drop table x; delete from y')", []),
    ("-- drop table x\n# \nselect * from drops; create table t (a int)", []),
    ('select "drop", `delete` from updates', []),
]


@pytest.mark.parametrize(("language", "source", "expected"), SMALL)
def test_effects(effects, language, source, expected):
    assert effects(language, source) == expected


@pytest.mark.parametrize(("source", "expected"), SQL)
def test_sql(effects, source, expected):
    assert effects("sql", source) == [("run", "@sql", statement) for statement in expected]


def test_sql_that_runs_programs_and_writes_files(effects):
    assert ("shell", "reboot") in effects("sql", "copy t from program 'reboot'")
    assert ("shell", "reboot") in effects("sql", "select 1;\n\\! reboot\n")
    assert ("shell", "reboot") in effects("sql", ".shell reboot")
    assert ("shell", "reboot") in effects("sql", "EXEC xp_cmdshell 'reboot'")
    assert ("run", ">", "/var/www/x.php") in effects("sql", "select 1 into outfile '/var/www/x.php'")
    assert ("run", ">", "/etc/x") in effects("sql", ".output /etc/x\nselect 1;")


@pytest.mark.parametrize(
    ("language", "source"),
    [
        ("vim", ":exe '!rm -rf ' . \"/etc\""),
        ("vim", ":execute '!' . getline(1)"),
        ("tcl", "exec rm -rf /etc"),
        ("tcl", "set d /etc; file delete -force $d"),
        ("tcl", "if {1} {\n  exec reboot\n}"),
    ],
)
def test_what_is_not_followed_is_not_understood(recorder, language, source):
    assert not read(Code(language, Value(source)), [], recorder())


def test_other_languages_are_not_understood(recorder):
    assert not read(Code("cobol", Value("x")), [], recorder())


_PIECES = st.sampled_from(
    [
        *re.findall(
            r"\S+",
            """system exec eval open unlink rm -rf / import os require fs child_process ( ) { } [ ] " ' ` \\ $ @ %
            # // /* */ <<EOF q( qx{ => . .. + , ; : | > >> < & = def class for while in if lambda fork DROP
            DELETE FROM WHERE 1=1 $$ s/a/b/e w e getline print !x :w __import__ getattr b64decode pack chr 0x41
            9999999999 ** f'{x}' %s format join \\x41 {1} async await function""",
        ),
        "\n",
        " ",
        "\t",
        "\n  ",
        HOLE,
    ]
)


@settings(max_examples=60, deadline=None)
@given(
    source=st.one_of(
        st.text(max_size=200), st.lists(_PIECES, max_size=40).map(" ".join), st.lists(_PIECES, max_size=40).map("".join)
    )
)
def test_no_text_raises(recorder, source):
    for language in sorted(LANGUAGES):
        assert read(Code(language, Value(source)), [Value("a")], recorder()) in (True, False)


_REPEATED = re.findall(
    r"\S+",
    """( [ { " ' / \\' a+ a. x.drop( /* ${ #{ $$ <<A ! not- - [[ {{} a( f(x=> | a| exec(' eval( \\/ /[ DO$a$ q{ s/ a= lambda: 0
    begin; a=a+ |getline "x"|getline "${a}" {a:1}, `a` 'a'+ '';""",
)


@pytest.mark.untraced
@pytest.mark.full
@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_repetition_comes_to_an_end(recorder, language):
    """Far more often than Python's functions may call each other."""
    for piece in [*_REPEATED, "\n", " ", "if a:\n", "system ", "begin "]:
        source = piece * min(1_500, 5_000 // len(piece))
        assert read(Code(language, Value(source)), [], recorder()) in (True, False)
