"""Commands that need no approval because they lose nothing, and similar commands that need one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools.approval.origins import SessionFiles
from tools.environments.local import LocalEnvironment
from tools.judge.setting import Setting

Floors = Callable[..., Any]
EMPTIES, DELETES, LOADS = {"fs.truncate"}, {"fs.recursive-delete"}, {"code.loading-env@PYTHONHOME"}


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, and a foreign folder beside it; neither counts as temporary."""
    monkeypatch.setattr("tools.approval.snapshot.TEMPORARY", ())
    folder = (tmp_path / "tree").resolve()
    (folder / "src").mkdir(parents=True)
    (folder / "src/a.py").write_text("a = 1\n")
    (folder / "data.csv").write_text("a,b\n")
    (folder.parent / "photos").mkdir()
    (folder.parent / "photos/p.db").write_text("p")
    (folder / "photos").symlink_to(folder.parent / "photos")
    (folder / "hanging.csv").symlink_to(folder.parent / "photos/new.csv")
    return folder


@pytest.fixture
def floor(floors: Floors, tree: Path) -> Any:
    return floors(LocalEnvironment(str(tree)), setting=Setting(home=str(tree.parent)), project_root=str(tree))


@pytest.mark.parametrize(
    "command",
    [
        ": > new.csv",
        "> new.db",
        "truncate -s 0 new.db",
        "dd if=/dev/null of=new.db",
        "python3 -c \"open('new.csv', 'w')\"",
        "python3 -c \"import gzip; gzip.open('new.gz', 'wt')\"",
        "node -e \"require('fs').writeFileSync('new.csv', '')\"",
        "sqlite3 a.db '.backup new.db'",
        "cd src && : > new.csv",
    ],
)
def test_a_file_that_is_not_there_is_not_emptied(floor: Any, command: str) -> None:
    assert floor.do(command) == "ran"


WRITTEN = [
    "import csv\nwith open('data.csv', 'w') as f:\n    csv.writer(f).writerows([[1, 2]])",
    "import csv\nrows = csv.reader(open('a.txt'))\nwith open('data.csv', 'w') as f:\n    csv.writer(f).writerows(rows)",
    "f = open('data.csv', 'w')\nprint(open('a.txt').read())\nf.write('a,b')",
    "import json\njson.dump({}, open('data.csv', 'w'))",
    "import subprocess\nsubprocess.run(['sort', 'a.txt'], stdout=open('data.csv', 'w'))",
    "open('data.csv', 'w').write(input())",
]


@pytest.mark.parametrize("source", WRITTEN)
def test_a_file_that_is_written_anew_is_not_emptied(floor: Any, source: str) -> None:
    """Python code that writes a file follows the rule of ``printf a,b > data.csv``."""
    assert floor.do(f"python3 - <<'E'\n{source}\nE") == "ran"


@pytest.mark.parametrize(
    "source",
    [
        "open('data.csv', 'w').write('')",
        "f = open('data.csv', 'w')\nprint(open('a.txt').read())",
        "import csv\nwith open('data.csv', 'w') as f:\n    pass\ncsv.writer(open('b.csv', 'w')).writerow([1])",
        "import csv\nopen('data.csv', 'w').close()\ncsv.writer(open('data.csv', 'a')).writerow([1])",
    ],
)
def test_a_file_that_nothing_is_written_to_is(floor: Any, source: str) -> None:
    assert set(floor.do(f"python3 - <<'E'\n{source}\nE")) >= EMPTIES


@pytest.mark.parametrize(
    "command",
    [
        ": > data.csv",
        "python3 -c \"open('data.csv', 'w')\"",
        "f=new.csv; f=data.csv; python3 -c \"open('$f', 'w')\"",
        "python3 -c \"import sys; open(sys.argv[1], 'w')\" data.csv",
        "cd $X; : > new.csv",
        ": > ../new.csv",
        "python3 -c \"open('../photos/new.csv', 'w')\"",
        ": > photos/new.csv",
        ": > hanging.csv",
        "ln -s data.csv new.csv && : > new.csv",
        "mv data.csv new.csv && : > new.csv",
        "mv data.csv src && : > src/data.csv",
        "cp data.csv new.csv; python3 -c \"open('new.csv', 'w')\"",
        "mv data.csv $X; : > new.csv",
        "git stash pop; : > new.csv",
        "tar xf a.tar; : > new.csv",
        "ssh web ': > new.csv'",
        "truncate -s 0 new.csv data.csv",
        "ls | xargs truncate -s 0",
    ],
)
def test_its_neighbours_are_asked_about(floor: Any, command: str) -> None:
    assert set(floor.do(command)) >= EMPTIES


@pytest.mark.parametrize(
    ("command", "asks"),
    [
        ("docker run -v ./src:/w alpine", False),
        ("cd src && docker run -v ..:/w alpine", False),
        ("docker run -v /srv/photos:/p alpine", True),
        ("docker run -v ./src:/w -v /srv/photos:/p alpine", True),
    ],
)
def test_a_container_is_given_the_workspace_and_no_more(floor: Any, command: str, asks: bool) -> None:
    done = floor.do(command)
    assert done != "ran" if asks else done == "ran"


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("mkfs.ext4 -F -L /dev/sdz data.csv", set()),
        ("dd if=/dev/zero of=d.img count=9; mkfs -t ext4 d.img 64M", set()),
        ("mkfs.ext4 ../photos/p.db", {"device.format"}),
        ("mkfs.ext4 photos/p.db", {"device.format"}),
        ("ln -s /dev/sdz d.img; mkfs.ext4 d.img", {"device.format"}),
        ("ssh web mkfs.ext4 d.img", {"device.format"}),
        ("mkfs.ext4 $X", {"device.format"}),
        ("mkfs.other data.csv", {"device.format"}),
    ],
)
def test_an_image_of_the_workspace_may_be_formatted(floor: Any, command: str, found: set[str]) -> None:
    done = floor.do(command)
    assert (set() if done == "ran" else done) == found


@pytest.mark.parametrize(
    "command",
    [
        "find . -name '*.pyc' -delete",
        "find src -type d -name __pycache__ -empty -delete",
        "find . \\( -name '*.pyc' -o -name '*.pyo' \\) -delete",
        "find . -not -path './.venv/*' -name '*.pyc' -delete",
        "find . -type d -empty -delete",
    ],
)
def test_what_is_made_again_may_be_found_and_deleted(floor: Any, command: str) -> None:
    assert floor.do(command) == "ran"


@pytest.mark.parametrize(
    "command",
    [
        "find . -delete -name '*.pyc'",
        "find . ! -name '*.pyc' -delete",
        "find . -name '*.pyc' -o -delete",
        "find . \\( -name '*.pyc' -o -name '*.py' \\) -delete",
        "find . -name '*.py' -delete",
        "find . -empty -delete",
        "find -L . -name '*.pyc' -delete",
        "find photos/ -name '*.pyc' -delete",
        "ln -s ../photos p; find p/ -name '*.pyc' -delete",
        "find ../photos -name '*.pyc' -delete",
        "find \"$X\" -name '*.pyc' -delete",
    ],
)
def test_what_else_is_found_is_asked_about(floor: Any, command: str) -> None:
    assert floor.do(command) == {"fs.find-delete"}


@pytest.mark.parametrize(
    "command",
    [
        't=$(mktemp -d) && cp -r src "$t" && rm -rf "$t"',
        "t=$(mktemp -d); rm -rf $t",
        't="$(mktemp -d -t x.XXXXXX)"; rm -rf -- "$t"',
        't=$(mktemp -d "${TMPDIR:-/tmp}/x.XXXXXX"); rm -rf "$t"',
        'f() { local d; d=$(mktemp -d); rm -rf "$d"; }; f',
        '(d=$(mktemp -d); trap \'rm -rf "$d"\' EXIT; cp -r src "$d")',
        'bash -c \'c() { rm -rf "$d"; }; trap c EXIT; d=$(mktemp -d); cp -r src "$d"\'',
    ],
)
def test_the_shells_own_temporary_folder_may_be_removed(floor: Any, command: str) -> None:
    assert floor.do(command) == "ran"


@pytest.mark.parametrize(
    "command",
    [
        't=$(mktemp -d); t=src; rm -rf "$t"',
        't=$(mktemp -d); [ -e x ] && t=src; rm -rf "$t"',
        't=$(mktemp -d); read t < f; rm -rf "$t"',
        't=$(mktemp -d); printf -v t %s%s "$t" "$(cat f)"; rm -rf "$t"',
        't=$(mktemp -d); eval "t=$(cat f)"; rm -rf "$t"',
        't=$(mktemp -d); for t in src; do rm -rf "$t"; done',
        't=$(mktemp -d); rm -rf "$t/src"',
        't=$(mktemp -d); rm -rf "$t"/*',
        't=$(mktemp -d); u=$(cat f); rm -rf "$t$u"',
        't=$(mktemp -d); rm -rf "${t%/*}"',
        't=$(mktemp -d); rm -rf "${t/tmp./$(cat f)}"',
        't=$(mktemp -d); rm -rf "$t" src',
        't=$(mktemp -du); rm -rf "$t"',
        't=$(mktemp -d || echo src); rm -rf "$t"',
        "t=$(mktemp -d; echo src); rm -rf $t",
        'mktemp() { echo src; }; rm -rf "$(mktemp -d)"',
        "TMPDIR='/home/dev/photos x'; rm -rf $(mktemp -d)",
        "IFS=.; t=$(mktemp -d); rm -rf $t",
        't=$(mktemp -d); mv src "$t"; rm -rf "$t"',
        't=$(mktemp -d); cd "$t" && mv ~/x .; rm -rf "$t"',
        't=$(mktemp -d -p "$PWD"); cd "$t" && mv ~/x .; rm -rf "$t"',
        't=$(mktemp -d); bindfs src "$t"; rm -rf "$t"',
        't=$(mktemp -d); git init --separate-git-dir "$t/g"; rm -rf "$t"',
        't=$(mktemp -d); ssh web rm -rf "$t"',
        "(d=src; trap 'rm -rf \"$d\"' EXIT; sleep 9; d=$(mktemp -d))",
        "(d=$(mktemp -d); trap 'rm -rf \"$d\"' EXIT; d=src; sleep 9; d=$(mktemp -d))",
    ],
)
def test_what_may_be_another_folder_is_asked_about(floor: Any, command: str) -> None:
    assert set(floor.do(command)) >= DELETES


@pytest.mark.parametrize(
    ("between", "result"),
    [
        ([], "ran"),
        (["ls"], "ran"),
        (["u=src", "cp -r src $u"], "ran"),
        (["t=src"], DELETES),
        (["t=src", "t=$t"], DELETES),
        (["t=/tmp/tmp.aaaaaaaaaa"], DELETES),
        (["read t < data.csv"], DELETES),
        (['mv src "$t"'], DELETES),
        (['cd "$t"', "mv ~/tree/data.csv ."], DELETES),
    ],
)
def test_a_temporary_folder_of_an_earlier_call(floor: Any, between: list[str], result: Any) -> None:
    assert floor.do("t=$(mktemp -d)") == "ran"
    for command in between:
        assert floor.do(command) == "ran"
    assert floor.do('rm -rf "$t"') == result


def test_temporary_folders_are_known_to_another_process(floors: Floors, tree: Path) -> None:
    environment = LocalEnvironment(str(tree))
    first = floors(environment)
    files = SessionFiles(first.store.origins)
    asyncio.run(files.remember("s1", {}, {}, {"t": ("/tmp/tmp.\ufffc", ""), "u": ("/tmp/tmp.abcdef", "")}))
    asyncio.run(files.remember("s1", {}, {}, {"t": ("/tmp/tmp.\ufffc", "/tmp/tmp.aaaaaa")}))
    again = asyncio.run(SessionFiles(first.store.origins).of("s1"))
    assert again.made == {"t": ("/tmp/tmp.\ufffc", "/tmp/tmp.aaaaaa")}
    assert not again.copies


@pytest.mark.parametrize(
    "command", ['export PYTHONHOME="$A"', 'export PYTHONHOME="${A:-}"', "if x; then B=$A; fi; export PYTHONHOME=$B"]
)
def test_what_the_persons_environment_held_loads_nothing_foreign(floor: Any, command: str) -> None:
    assert floor.do(command) == "ran"


@pytest.mark.parametrize(
    "command",
    [
        'export PYTHONHOME="$A/x"',
        'export PYTHONHOME="$A$(./x)"',
        'A=$(./x); export PYTHONHOME="$A"',
        ': x; export PYTHONHOME="$_"',
        "if x; then C=$A; fi; export PYTHONHOME=$C",
        "for C in $A; do :; done; export PYTHONHOME=$C",
        "if x; then B=evil; else B=$A; fi; export PYTHONHOME=$B",
    ],
)
def test_other_unknown_values_may_load_anything(floor: Any, command: str) -> None:
    assert floor.do("C=evil") == "ran"
    assert set(floor.do(command)) >= LOADS


def test_node_reads_tests_that_the_session_wrote(floor: Any, tree: Path) -> None:
    (tree / "test").mkdir()
    assert floor.do("node --test --test-reporter=spec test/") == "ran"
    assert floor.do("ls src/*.js | xargs -n1 node --check") == "ran"
    assert (
        floor.call("write_file", {"path": "test/a.test.js", "content": "require('fs').rmSync('src', {recursive: true})\n"})
        == "ran"
    )
    for command in ("node --test test/", "node --test", "node --test 'test/**/*.js'", "node -r --check test/a.test.js"):
        assert floor.do(command) == DELETES
    assert floor.do("ls src/*.js | xargs -n1 node") == {"opaque.file"}
    assert floor.do("ls src/*.js | xargs -n1 node --test") == {"opaque.file"}
