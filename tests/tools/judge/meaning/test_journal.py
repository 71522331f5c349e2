"""A program is recognised by its file, and a line is not judged by files that it has changed before."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tools.judge.detect import examine
from tools.judge.meaning import Seen, Taint
from tools.judge.setting import Setting

HOME, PROJECT = "/home/dev", "/home/dev/p"
SETTING = Setting(home=HOME, protected=(f"{HOME}/.config/toolcrib",))

PROGRAMS = {f"/usr/bin/{name}": None for name in ("rm", "busybox", "python3.12", "toolcrib", "ls")}
FILES: Mapping[str, str | None] = {
    **PROGRAMS,
    f"{PROJECT}/x.sh": "#!/bin/sh\ntrue\n",
    f"{PROJECT}/evil.txt": "rm -rf d\n",
    f"{PROJECT}/app": None,
    f"{PROJECT}/.git/HEAD": "ref: refs/heads/main\n",
    f"{PROJECT}/.venv/pyvenv.cfg": "home = /usr/bin\n",
    f"{PROJECT}/.venv/bin/activate": "export VIRTUAL_ENV=x\n",
    f"{PROJECT}/server.sh": "#!/bin/sh\npython3 -m http.server\n",
}


class Disk:
    """A snapshot with folders, links, and the session's earlier changes. A file that is None is a compiled program."""

    def __init__(
        self,
        files: Mapping[str, str | None] = FILES,
        links: Mapping[str, str] | None = None,
        copies: Mapping[str, str] | None = None,
        taints: Mapping[str, Taint] | None = None,
    ) -> None:
        self.files, self.links, self.copies, self.taints = files, links or {}, copies or {}, taints or {}

    def real(self, path: str) -> str:
        for link, target in self.links.items():
            if path == link or path.startswith(f"{link}/"):
                return self.real(target + path[len(link) :])
        return path

    def inspect_path(self, path: str) -> Seen:
        taint = self.taint(path)
        path = self.real(path)
        if path not in self.files:
            return Seen("dir" if any(one.startswith(f"{path}/") for one in self.files) else "missing")
        text = self.files[path]
        return Seen("binary", None, taint) if text is None else Seen("file", text, taint)

    def taint(self, path: str) -> Taint:
        return self.taints.get(path, Taint.NONE)

    def own_below(self, folder: str) -> list[str]:
        return [path for path in self.taints if path.startswith(f"{folder}/")]

    def copy_of(self, path: str) -> str:
        return self.copies.get(path, "")


def keys(command: str, disk: Disk | None = None) -> set[str]:
    examined = examine(command, PROJECT, None, disk or Disk(), SETTING)
    return {finding.key.partition("@")[0] for finding in examined.findings}


@pytest.mark.parametrize(
    "command",
    [
        "/bin//rm -rf d",
        "/usr/bin/./rm -rf d",
        "/usr/local/../bin/rm -rf d",
        "ln -s /bin/rm a; ./a -rf d",
        "ln -s /bin/rm a; mv a b; ./b -rf d",
        "ln -s /usr/bin dir && ./dir/rm -rf d",
        "echo x > log; cat dir/a dir/b; ln -s /usr/bin dir && ./dir/rm -rf d",
        "echo x > log; cat dir/a; echo x > dir/b; mv /usr/bin dir; ./dir/rm -rf d",
        "echo x > log; cat a; ln -s /usr/bin/rm a; echo x > b; ./a -rf d",
        "ln -s a b; ln -s /usr/bin/rm a; ./b -rf d",
        "cp /usr/bin/rm a; ./a -rf d",
        "cp /usr/bin/rm a && mv a b && cp b c && ./c -rf d",
        "install -m 755 /usr/bin/rm a; sh -c './a -rf d'",
        "mkdir t; cp /usr/bin/rm t; PATH=$PWD/t:$PATH; t/rm -rf d",
        "cp /usr/bin/rm tool; PATH=.:$PATH tool -rf d",
        "python3 -c \"import os; os.symlink('/usr/bin/rm', 'a')\"; ./a -rf d",
        "python3 -c \"import shutil; shutil.copy('/usr/bin/rm', 'a')\" && ./a -rf d",
        "ln -s /usr/bin/busybox rm; ./rm -rf d",
        "cp /usr/bin/busybox rm; ./rm -rf d",
        "printf '#!/bin/rm -rf\\n' > a; chmod +x a; ./a d",
        "printf '#!/usr/bin/env -S rm -rf\\n' > a; chmod +x a; ./a d",
    ],
)
def test_a_program_is_what_the_file_is(command: str) -> None:
    """003-24"""
    assert "fs.recursive-delete" in keys(command)


@pytest.mark.parametrize(
    "command",
    ["cat /usr/bin/rm > a; ./a -rf d", "dd if=/usr/bin/rm of=a; chmod +x a; ./a -rf d", "cat < /usr/bin/rm | tee a; ./a -rf d"],
)
def test_a_program_that_was_put_together_is_nobody_s(command: str) -> None:
    assert keys(command) & {"opaque.changed", "opaque.file"}


def test_a_program_of_earlier_calls_is_what_it_was_made_of() -> None:
    linked = Disk(links={f"{PROJECT}/a": "/usr/bin/rm", f"{PROJECT}/.venv/bin/python": "/usr/bin/python3.12"})
    assert "fs.recursive-delete" in keys("./a -rf d", linked)
    assert keys(".venv/bin/python -c 'print(1)'", linked) == set()
    copied = Disk({**FILES, f"{PROJECT}/a": None}, copies={f"{PROJECT}/a": "/usr/bin/rm"}, taints={f"{PROJECT}/a": Taint.PROGRAM})
    assert "fs.recursive-delete" in keys("./a -rf d", copied)
    pieced = Disk({**FILES, f"{PROJECT}/a": None}, taints={f"{PROJECT}/a": Taint.PROGRAM})
    assert keys("./a -rf d", pieced) == {"opaque.changed"}
    built = Disk(
        {**FILES, f"{PROJECT}/b": None}, copies={f"{PROJECT}/b": f"{PROJECT}/app"}, taints={f"{PROJECT}/b": Taint.PROGRAM}
    )
    assert keys("./b --serve", built) == set()
    assert keys("gcc -o a a.c && ./a", Disk({**FILES, f"{PROJECT}/a": None})) == set()


CHANGERS = """
git pull
git checkout w
git checkout -b w origin/w
git switch -q w
git stash pop
git stash
git apply p.diff
git am -q p.patch
git merge w
git rebase w
git cherry-pick w
git reset --hard w
git restore -s w x.sh
git -C . pull
hg update
svn update
patch -p1 < p.diff
tar xf a.tar
tar -xzf a.tgz
cat a.tar | tar x
unzip -qo a.zip
7z x a.7z
python3 -m zipfile -e a.zip .
sort -o x.sh list
uniq list x.sh
sed -i -f edit.sed x.sh
sed -i 's,t.*e,&,' x.sh
perl -pi -e 's,true,false,' x.sh
awk -i inplace '{ print }' x.sh
printf '1d\\nw\\nq\\n' | ed -s x.sh
vim -es +'%s,true,x,' +wq x.sh
frobnicate x.sh
frobnicate --in ./x.sh
while read f; do echo > "$f"; done < list
""".strip().splitlines()


@pytest.mark.parametrize("changer", CHANGERS)
@pytest.mark.parametrize("run", ["bash x.sh", "./x.sh", ". ./x.sh", "source x.sh", "(cd .; sh ./x.sh)", "bash -c './x.sh'"])
def test_a_file_that_something_changed_is_asked_about(changer: str, run: str) -> None:
    """003-24"""
    assert "opaque.changed" in keys(f"{changer}; {run}")


@pytest.mark.parametrize(
    "run",
    [
        "cat x.sh | bash",
        "bash < x.sh",
        'eval "$(cat x.sh)"',
        ". <(cat x.sh)",
        "python3 -c \"exec(open('x.py').read())\"",
        "find . -name x.sh -exec sh {} \\;",
        "ls *.sh | xargs -n1 bash",
        "for f in *.sh; do bash $f; done",
        "sudo ./x.sh",
    ],
)
def test_what_changed_is_unread_however_it_is_run(run: str) -> None:
    assert keys(f"git pull; {run}") & {"opaque.changed", "opaque.file", "code.piped"}


def test_the_reason_says_what_changed_it() -> None:
    found = examine("git pull -q && bash x.sh", PROJECT, None, Disk(), SETTING).findings
    assert ["git pull" in one.why for one in found if one.key == "opaque.changed"] == [True]


def test_the_whole_working_tree_is_concerned_and_nothing_beside_it() -> None:
    disk = Disk({**FILES, f"{HOME}/other/y.sh": "true\n"})
    assert keys("cd src; git pull; sh ../x.sh", disk) == {"opaque.changed"}
    assert keys("git pull; sh ../other/y.sh", disk) == set()
    assert keys("git clone https://x.test/t.git && sh t/install.sh", disk) == {"opaque.changed"}
    assert keys("git clone -b v2 https://x.test/t u && cd u && ./install.sh", disk) == {"opaque.changed"}
    assert keys("git clone https://x.test/t && sh x.sh", disk) == set()
    assert keys("mkdir o; tar xf a.tar -C o; sh x.sh", disk) == set()


@pytest.mark.parametrize(
    "command",
    [
        "git pull && make",
        "git pull && pytest -q && git push",
        "git pull && python -m pytest",
        "git pull && . .venv/bin/activate && pytest",
        "git pull && .venv/bin/activate",
        "git checkout -b feature && pytest",
        "git checkout -b feature; ./x.sh",
        "git add -A && git commit -m x && ./x.sh",
        "git fetch && git status && bash x.sh",
        "git bisect run ./x.sh",
        "git stash list; bash x.sh",
        "git reset HEAD~1; bash x.sh",
        "git apply --check p.diff && bash x.sh",
        "npm install && npm test",
        "tar xf a.tgz && cd a && make",
        "tar cf a.tar x.sh && bash x.sh",
        "tar tf a.tar; bash x.sh",
        "shellcheck x.sh && bash x.sh",
        "shfmt -w x.sh && ./x.sh",
        "black . && python3 -m app",
        "chmod +x x.sh && ./x.sh",
        "sed -i 's/true/false/' x.sh && bash x.sh",
        "cat > a.sh <<'E'\necho hi\nE\nchmod +x a.sh; ./a.sh",
        "cp x.sh y.sh && bash y.sh",
        "mv x.sh y.sh && bash y.sh",
        'ls *.md | while read f; do echo > "$f.bak"; done; bash x.sh',
        "git mv x.sh y.sh; git rm -q z.sh; bash x.sh",
        "time ./x.sh; strace -f ./x.sh; nohup ./x.sh; env A=1 ./x.sh",
    ],
)
def test_ordinary_lines_are_free(command: str) -> None:
    assert keys(command) == set()


@pytest.mark.parametrize(
    "command",
    [
        "cp evil.txt y.sh; sh y.sh",
        "mv evil.txt y.sh && sh y.sh",
        "ln -sf evil.txt x.sh; sh x.sh",
        "sed -i 's/true/rm -rf d/' x.sh && bash x.sh",
        "sed -i -e 's/true/rm -rf d/' x.sh; ./x.sh",
        "ln -s x.sh y.sh; echo 'rm -rf d' > y.sh; sh x.sh",
        "rm x.sh; rm --help evil.txt; sh evil.txt",
        "mkdir o; mv evil.txt o/; sh o/evil.txt",
        "mkdir o; echo 'rm -rf d' > o/e; mv o q; sh q/e",
        "sort evil.txt > y.sh; sh y.sh",
    ],
)
def test_contents_go_along(command: str) -> None:
    assert keys(command) & {"fs.recursive-delete", "opaque.changed"}


@pytest.mark.parametrize(
    "command",
    [
        "cp -n x.sh evil.txt; sh evil.txt",
        "cp --help x.sh evil.txt; sh evil.txt",
        "cp missing evil.txt; sh evil.txt",
        "mv -u x.sh evil.txt; sh evil.txt",
    ],
)
def test_what_may_have_failed_hides_nothing(command: str) -> None:
    assert keys(command) & {"fs.recursive-delete", "opaque.changed"}


@pytest.mark.parametrize(
    "command",
    [
        "ln -s ~/.bashrc n; mv n m; echo x >> m",
        "ln -s ~/.bashrc n; cp -a n m; echo x >> m",
        "ln -s ~/.bashrc n; mkdir d; mv n d; mv d e; echo x >> e/n",
        "mv src b0; ln -s ~ src; echo x >> src/.bashrc",
        "ln -s ~/.bashrc n; echo x >> n; ln -sf notes n",
    ],
)
def test_links_are_written_through(command: str) -> None:
    """003-24"""
    assert "persist.start-file" in keys(command)


def test_text_is_not_added_to_what_came_along() -> None:
    assert keys("git checkout w && echo x >> n") == {"opaque.order"}
    assert keys("git checkout w && echo x >> x.sh; tar xf a.tar; echo y > notes; echo z >> notes") == set()


@pytest.mark.parametrize(
    "command",
    [
        "cd ~; patch -p1 < p/p.diff",
        "patch -p1 -d ~ < p.diff",
        "cd ~ && git apply p/p.diff",
        "tar xf d.tar -C ~",
        "unzip -qo d.zip -d ~",
        "cp -r d/. ~",
        "install -m 644 d/.b* -t ~",
        "git archive HEAD .bashrc | tar x -C ..",
        "tar xf a.tar -C /",
    ],
)
def test_nothing_is_unpacked_into_a_home_unasked(command: str) -> None:
    """003-24"""
    assert "persist.unsure" in keys(command)
    assert keys("cd ~ && git clone https://x.test/t && mkdir -p ~/o && tar xf a.tar -C ~/o && cp *.txt ~/o") == set()


@pytest.mark.parametrize("before", ["ln -s ~/photos build", "git checkout w", "tar xf a.tar"])
def test_no_path_through_what_changed_is_sure(before: str) -> None:
    """003-26: no grant by path covers such a finding."""
    found = examine(f"{before}; rm -rf build/sub", PROJECT, None, Disk(), SETTING).findings
    assert any("?" in one.paths for one in found if one.key == "fs.recursive-delete")
    plain = examine("rm -rf build/sub; git checkout w; rm -rf build", PROJECT, None, Disk(), SETTING).findings
    assert any("?" not in one.paths for one in plain if one.key == "fs.recursive-delete")


@pytest.mark.parametrize(
    "command",
    [
        "(sleep 1; bash go.sh) &",
        "(sleep 1; sh x.sh) >log 2>&1 &",
        "nohup sh -c 'sleep 5; ./x.sh' &",
        "setsid bash -c 'sleep 5; . ./x.sh' &",
        "while sleep 1; do . ./x.sh; done &",
        "(until [ -f go.sh ]; do :; done; sh go.sh) &",
        "until python3 go.py; do sleep 1; done &",
        "{ wait; python3 late.py; } &",
        "echo 'bash x.sh' | at now + 1 minute",
        "trap '. ./x.sh' DEBUG",
    ],
)
def test_what_runs_later_reads_what_is_there_then(command: str) -> None:
    assert "opaque.changed" in keys(command)


@pytest.mark.parametrize("read", ["bash < x.sh", "cat x.sh | sh", 'eval "$(cat x.sh)"', "sh < go.sh", ". <(cat x.sh)"])
def test_so_does_what_reads_it_in_another_way(read: str) -> None:
    assert keys(f"(sleep 1; {read}) &") & {"opaque.file", "code.piped"}


@pytest.mark.parametrize(
    "command",
    [
        "npm run dev &",
        "python -m http.server &",
        "make test &",
        "./server.sh &",
        "nohup ./server.sh > log 2>&1 &",
        "(cd src && ../server.sh) &",
        "./app & sleep 2; curl -s localhost:8000",
        "echo true > a.sh; (sleep 1; bash a.sh) &",
        "sleep 1; bash x.sh",
        "(sleep 5; npm run build) &",
        "while sleep 1; do curl -s localhost; done &",
        "trap 'rm -f \"$t\"' EXIT; bash x.sh",
    ],
)
def test_ordinary_jobs_are_free(command: str) -> None:
    assert keys(command) == set()
