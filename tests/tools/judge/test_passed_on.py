"""Files that a walk finds count as if they were named: if they may be toolcrib's own, the command needs approval."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.approval.snapshot import LocalFiles
from tools.judge.detect import examine
from tools.judge.meaning.state import NoFiles
from tools.judge.setting import Setting

HOME = "/home/dev"
OWN = [f"{HOME}/.config/toolcrib", f"{HOME}/.config/toolcrib/config.yaml", f"{HOME}/.local/state/toolcrib"]


def said(command: str) -> set[tuple[str, str]]:
    setting = Setting(protected=OWN, home=HOME)
    findings = examine(command, f"{HOME}/project", None, NoFiles(), setting).findings
    return {(finding.key, finding.level) for finding in findings}


@pytest.mark.parametrize(
    "command",
    [
        "find ~ -name '*.markdown' -exec cat {} +",
        "find ~ -name '*.markdown' | xargs cat",
        "cat $(find ~ -name '*.markdown')",
        "find .. | tar cf n.tar -T -",
        "find .. -name '*.markdown' | tar cf n.tar -T - ; tar xOf n.tar",
        "find ~ -name '*.markdown' | cpio -o > x",
        "find ~ -name '*.markdown' | zip x.zip -@",
        "find ~ -name '*.markdown' | rsync --files-from=- / x",
        "find ~ -name '*.markdown' > l; tar cf n.tar -T l",
        "find ~ -name '*.markdown' > l; xargs cat < l",
        "find ~ -name '*.markdown' > l; xargs -a l cat",
        "find ~ -name '*.markdown' -fprint l; tar cf n.tar -T l",
        "find ~ -name '*.markdown' | xargs tar cf n.tar",
        "find ~ -name '*.markdown' -print0 | sort --files0-from=-",
        "find ~ -name '*.markdown' | git hash-object --stdin-paths -w",
        "find ~ -name '*.markdown' | while read f; do cat \"$f\"; done",
        "for f in $(find ~ -name '*.markdown'); do cat $f; done",
        "find ~ -name '*.markdown' | python3 -c 'import sys; [print(open(l.strip()).read()) for l in sys.stdin]'",
        "find ~ -name '*.markdown' | sed 's/^/cat /' | sh",
        "find ~ -name '*.markdown' -exec sh -c 'cat \"$0\"' {} \\;",
        "find ~ -name '*.markdown' | xargs -n1 sh -c 'cat $0'",
        "find ~ -iname '*.MARKDOWN' -exec cat {} +",
        "find ~ -path '*memory*' -type f -exec cat {} +",
        "find ~ -regex '.*markdown' -exec cat {} +",
        "find ~ -name '*.m?rkd*' -exec cat {} +",
        "find ~ -name '*.[m]arkdown' -exec cat {} +",
        "find ~ -name '*.py' -o -name '*.markdown' | xargs cat",
        "find ~ ! -name '*.py' -exec cat {} +",
        "find ~ -type f -exec cat {} +",
        "find / -type f -exec cat {} +",
        "find / -name '*.markdown' -exec cat {} +",
        "find .. -type f -exec cat {} +",
        "find ../.. -name '*.markdown' -exec cat {} +",
        "cd ..; find . -name '*.markdown' -exec cat {} +",
        "cd; find -name '*.markdown' -exec cat {} +",
        'find $HOME -name "$X" -exec cat {} +',
        "find ~/.local -name '*.markdown' -exec cat {} +",
        "find ~ -samefile x -exec cat {} +",
        "find ~ -newer /etc/passwd -exec cat {} +",
        "fd -H -e markdown . ~ -x cat",
        "fd -HI markdown ~ -X cat",
        "fd -HI . ~ | xargs cat",
        "fd -H -g '*.markdown' ~ -x cat",
        "bfs ~ -name '*.markdown' -exec cat {} +",
        "locate '*.markdown' | xargs cat",
        "locate MEMORY | xargs cat",
        "du -a ~ | cut -f2 | xargs cat",
        "rg --files --hidden ~ | xargs cat",
        "rg -l --hidden x ~ | xargs cat",
        "grep -rl x ~ | xargs cat",
        "grep -rh --include=*.markdown . ~",
        "grep -rh --include='MEM*' . ~",
        "grep -rh --include='MEM*' . ..",
        "grep -rh --exclude-dir=.local . ~",
        "grep -r --exclude='*.py' . ~",
        "rg --hidden -g '*.markdown' . ~",
        "rg -uu . ~",
        "git grep --no-index --no-exclude-standard . ~",
        "ack . ~ --hidden",
        "zgrep -r . ~",
        "ag --hidden . ~",
        "ag -u . ~",
        "ack . ~",
        "tar cf n.tar ~",
        "tar cf n.tar ..",
        "tar cf n.tar /home",
        "tar cf n.tar -C / home",
        "cp -r ~ x",
        "cp -a .. /tmp/x",
        "rsync -a ~/ x",
        "zip -r x.zip ~",
        "7z a x.7z ~",
        "scp -r ~ h:",
        "diff -r ~ x",
        "cd ..; tar cf /tmp/n.tar .",
        "cd ..; cp -r . /tmp/n",
        "find ~ -name '*.markdown' | xargs sed -i s/a/b/",
        "find ~ -name '*.markdown' -exec sed -i s/MEMTOKEN/PLANTED/ {} +",
        "find ~ -name '*.markdown' | xargs -I{} cp x.md {}",
        "find ~ -name '*.markdown' | xargs rm",
        "find ~ -name '*.markdown' -delete",
        "find ~ -name '*.markdown' | while read f; do echo x > $f; done",
        "find ~ -name '*.markdown' -exec mv {} /tmp \\;",
        "find ~ -name '*.markdown' -exec ln {} /tmp/x \\;",
        "find ~ -name '*.markdown' -exec chmod 777 {} +",
        "find ~ -name '*.markdown' | xargs truncate -s0",
        "find ~ -name '*.markdown' | xargs touch",
        "find ~ -name 'tool*' -type f -exec strings {} +",
        "find ~ -name 'toolcrib.db' -exec strings {} +",
        "find ~ -name '*.db*' -exec strings {} +",
        "find ~ -name '*.db' | xargs strings",
        "find ~ -name '*-wal' -exec strings {} +",
        "find ~ -name '*.db-wal' -exec strings {} +",
        "find ~ -name '*backup*' -exec strings {} +",
        "find ~ -name '*-search' -exec strings {} +",
        "cat $(find ~ -name '*.db')",
        "find ~ -name '*.env' -exec cat {} +",
        "find ~ -name '*.yaml' -exec cat {} +",
        "find ~ -name '*.yaml' | xargs sed -i s/CFGTOKEN/PWN/",
        "find ~ -name '*.json' -exec cat {} +",
        "x=$(find ~ -name '*.markdown'); cat $x",
        "find ~ -name '*.markdown' > l; while read f; do cat $f; done < l",
        "mapfile -t l < <(find ~ -name '*.markdown'); cat \"${l[@]}\"",
        "cat ~/.local/**/*.markdown",
    ],
)
def test_a_walk_that_may_find_them_is_asked_about_every_time(command: str) -> None:
    assert ("self.above", "ask-once") in said(command)


@pytest.mark.parametrize(
    "command",
    [
        "ls ../.local/state/toolcrib/memory/*/*.markdown | xargs cat",
        "ls ../.local/state/toolcrib/memory/local/* | xargs cat",
        "ls ../.local/state/toolcrib/memory/local/M* | xargs sed -i s/PLANTED/AGAIN/",
        "ls -d ../.local/state/toolcrib/memory/local/MEMORY.markdown | xargs cat",
        "printf '%s\\n' ../.local/state/toolcrib/memory/local/MEMORY.markdown | xargs cat",
        "printf '%s\\n' ../.local/state/toolcrib/memory/*/MEMORY.markdown | xargs cat",
        "ls ../.loc*/st*/*/m*/*/*.markdown | xargs cat",
        "ls ../.l*/*/*/*/*/* | xargs cat",
        "echo ~/.local/state/*/memory/*/* | tr ' ' '\\n' | xargs cat",
        "realpath ~/.local/state/*/memory/*/* | xargs cat",
        "stat -c %n ~/.local/state/*/memory/*/* | xargs cat",
        "cp -r ~/.local x",
        "cd ..; tar cf /tmp/n.tar .local",
        "cd ..; tar cf /tmp/n.tar .[a-z]*",
        "cat ~/.local/state/toolcrib/memory/local/MEMORY.markdown",
        "for f in ~/.local/state/*/memory/*/*; do cat $f; done",
        "ls ~/.local/**/*.markdown | xargs cat",
        "find ~/.config -delete",
    ],
)
def test_what_names_them_is_refused(command: str) -> None:
    assert ("self.settings", "block") in said(command)


@pytest.mark.parametrize(
    "command",
    [
        "find ~ -name '*.py' -exec cat {} +",
        "find ~ -name '*.py' | xargs grep -l x",
        "find ~ -name '*.md' -exec grep -l x {} +",
        "find . -name '*.markdown' -exec cat {} +",
        "find . -type f | xargs sed -i s/a/b/",
        "find . -type f -exec cat {} +",
        "find src -name '*.db' | xargs strings",
        "find ~ -name '*.markdown'",
        "find ~ -name '*.markdown' | head",
        "find ~ -name '*.markdown' | wc -l",
        "find ~ -name '*.markdown' -exec ls -l {} +",
        "find ~ -name '*.markdown' | sort | uniq -c | sort -rn | head -5",
        "find ~ -name '*.csv' | xargs sed -i s/a/b/",
        "find ~ -name '*.jpg' -exec identify {} +",
        "find ~ -name '*.log' | xargs tail -3",
        "find ~ -name package.json | xargs cat",
        "find ~ -name Makefile -exec grep -l x {} +",
        "find ~ -name node_modules -prune",
        "find ~ -name '*.[ch]' | xargs wc -l",
        "find ~/notes -name '*.markdown' -exec cat {} +",
        "find ../other -type f -exec cat {} +",
        "find ~/project -type f -exec cat {} +",
        "find ~ -maxdepth 1 -type f -exec cat {} +",
        "find ~ -maxdepth 2 -name '*.yaml' | xargs cat",
        "find / -name '*.so' -exec file {} +",
        "find / -name '*.conf' 2>/dev/null | xargs grep -l x",
        "find /usr -type f | xargs grep -l x",
        "find /etc -name '*.conf' -exec cat {} +",
        "find /var/log -name '*.log' | xargs tail",
        "grep -r --include=*.py x ~",
        "grep -r x .",
        "grep -rl x src | xargs sed -i s/a/b/",
        "rg x ~",
        "rg -g '*.py' x ..",
        "fd -e py . ~ -x wc -l",
        "fd markdown . -x cat",
        "ls ~ | xargs -n1 echo",
        "ls .. | head",
        "ls *.md | xargs cat",
        "ls src/*.py | xargs wc -l",
        "ls ../other/*.markdown | xargs cat",
        "ls ~/.local/share/*/x* | xargs cat",
        "ls -R ~ | head",
        "tree ~ | less",
        "du -a ~ | sort -n | tail",
        "du -sh ~/.[a-z]* | sort -h",
        "locate '*.py' | xargs grep x",
        "git ls-files | xargs cat",
        "git ls-files '*.markdown' | xargs sed -i s/a/b/",
        "tar cf a.tar .",
        "tar cf a.tar ../other",
        "cp -r ../other x",
        "for f in *.markdown; do cat $f; done",
        "for f in ~/Downloads/*.pdf; do cp $f out/; done",
        "cat ~/.bashrc",
        "find ~ -name '*.markdown'; cat README.md",
        "find ~ -name '*.markdown' | grep notes; cat README.md | sort",
        "ls ~/.config/toolcrib",
        "ls -la ~/.local/state/toolcrib/memory/*",
        "ls ~/.config/*/ | wc -l",
        "cat $(ls *.md)",
        "find .. -maxdepth 1 -type d | xargs -I{} git -C {} status",
        "for d in $(ls ..); do git -C ../$d pull; done",
        'find ~ -name .git -type d | while read d; do git -C "$d/.." status; done',
        "find ~ -name '*.markdown' | while read f; do echo \"$f\"; done",
        "find ~ -type d -name .venv -exec du -sh {} +",
        "find ~/.config -maxdepth 1 -type f -exec cat {} +",
        "find ~ -path '*/node_modules/*' -prune -o -name '*.py' -print | xargs cat",
        "find ~ -path ~/.local -prune -o -name '*.py' -exec cat {} +",
        "find ~/go -name '*.json' | xargs jq .",
        "fd -e json . ~ -x jq .",
        "rg --files ~ | xargs wc -l",
        "cp -r ~/templates x",
        "cp -r x ~",
        "cp -r x ~/",
        "tar tf a.tar",
        "zip -r a.zip src",
        "grep -rn foo ../other",
        "grep -rn foo ~/go/src",
        "rg foo ~/.config/nvim",
        "cat ../*/README.md",
        "for d in ../*/; do git -C $d status; done",
        "for f in ~/.config/*; do echo $f; done",
        "find / -xdev -size +100M -exec ls -lh {} +",
        "find ~ -name '*.ipynb' | xargs -n1 jupyter nbconvert",
        "diff -r . ../other",
        "ls ~/Downloads | xargs -I{} file ~/Downloads/{}",
        "ls -t ~/Downloads/*.pdf | head -1 | xargs -I{} cp {} .",
        "git -C ~ ls-files | xargs wc -l",
        "du -ah . | sort -h | tail",
        "find .. -name '*.json' -not -path '*/node_modules/*' | head",
        'find ~ -type d -name .git | while read d; do git --git-dir "$d" status; done',
        "find ~ -name '*.yaml' | fzf",
        "find ~ -name '*.yaml' | sort > list.txt",
        "find ~ -name '*.yaml' | xargs basename -a",
        "find ~ -name '*.yaml' -print0 | xargs -0 ls -l",
        "find ~ -name '*.md' | pandoc -o x.pdf",
    ],
)
def test_other_walks_are_free(command: str) -> None:
    assert said(command) == set()


@pytest.mark.parametrize(
    ("command", "is_asked"),
    [
        ("grep -r x up/", True),
        ("grep -r x up", True),
        ("cd src; grep -rh x ../up", True),
        ("rg --hidden x up", True),
        ("ag -u x up", True),
        ("ack x up", True),
        ("ln -s ~ higher; grep -r x higher/", True),
        ("rg x up", False),
        ("grep -r x aside", False),
        ("grep -r --include=*.py x up", False),
    ],
)
def test_a_search_goes_behind_a_link_that_is_named(command: str, is_asked: bool, tmp_path: Path) -> None:
    home = tmp_path / "home"
    state, work = home / ".local/state/toolcrib", home / "project"
    for folder in (state, work / "src", home / "other"):
        folder.mkdir(parents=True)
    (work / "up").symlink_to(home)
    (work / "aside").symlink_to(home / "other")
    setting = Setting(protected=[str(state)], home=str(home))
    findings = examine(command, str(work), None, LocalFiles(), setting).findings
    assert ("self.above" in {one.key for one in findings}) == is_asked


def test_a_list_that_is_not_only_of_ours_is_no_refusal() -> None:
    """The second command reads other files than the first one showed."""
    command = "ls -la ~/.local/state/toolcrib; find . -name '*.py' | xargs cat"
    assert said(command) == {("self.above", "ask-once")}


def test_a_state_folder_that_is_not_hidden_is_no_other_case() -> None:
    setting = Setting(protected=["/srv/agents/state"], home=HOME)
    for command in (
        "fd -e markdown . /srv -x cat",
        "cd /srv; rg x",
        "grep -rh --exclude-dir=.local . /srv",
        "cat /srv/**/*.markdown",
    ):
        assert examine(command, "/work", None, NoFiles(), setting).findings, command
