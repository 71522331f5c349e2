"""Rules: git commands that discard uncommitted work. A rule with ``seen`` asks unless the working tree has none."""

from __future__ import annotations

from tools.judge.rules._bound import ignored
from tools.judge.rules._discards import NAMES_FILES, ONE_NAME, aborted, checked_out, may_clean, may_lose, restored, widened
from tools.judge.rules._git import DRY, GIT, WIDE, git
from tools.judge.table import Test, count, opt, rule, text, word

_LOSES = "throws uncommitted work away"
_FROM_LIST = word("--pathspec-from-file(=.*)?")
_OTHER_COMMIT = Test(lambda view: any(value.text not in ("HEAD", "@", "") for value in view.operands()))

RULES = (
    rule(
        "git.discard",
        "ask",
        GIT,
        git("reset", (opt("--hard") & ~_OTHER_COMMIT) | opt("--merge")),
        _LOSES,
        yes=("git reset --hard", "git reset --hard HEAD", "git reset -q --hard @", "git reset --merge"),
        no=("git reset", "git reset -q HEAD", "git reset --keep HEAD~1"),
        seen=may_lose("changed"),
    ),
    rule(
        "git.clean",
        "ask",
        GIT,
        git("clean", opt("-f --force") & ~DRY)
        | (git("clean", ~DRY & ~opt("-i --interactive")) & text(r"clean\.requireforce=(false|0|no)")),
        "deletes untracked files",
        yes=("git clean -fd", "git clean -xdf src", "git clean --force -d", "git -c clean.requireForce=false clean -d"),
        no=("git clean -nd", "git clean -nxdf", "git clean -i", "git clean --dry-run -f"),
        seen=may_clean,
        at=git.at("clean", widened),
        bound=ignored,
    ),
    rule(
        "git.discard",
        "ask",
        GIT,
        git("checkout", opt("-f --force") & ~opt("-p --patch"))
        | git("checkout", (WIDE | NAMES_FILES | ONE_NAME) & ~opt("-p --patch -b -B --orphan"))
        | git("checkout", opt("-b -B") & count(1)),
        _LOSES,
        yes=(
            "git checkout .",
            "git checkout -- .",
            "git checkout -- src/a.py",
            "git checkout HEAD~1 -- :/",
            "git checkout main README.md",
            "git checkout '*.py'",
            "git checkout -f main",
            "git checkout -fB topic",
            "git ls-files -m | xargs git checkout --",
            "git -C sub checkout -- a.py",
        ),
        no=(
            "git checkout -b hotfix",
            "git checkout -b hotfix origin/main",
            "git checkout --track origin/topic",
            "git checkout main",
            "git checkout README.md",  # a branch: the test's folder has no such file
            "git checkout main --",
            "git checkout -q -",
            "git checkout -p .",
        ),
        seen=checked_out,
    ),
    rule(
        "git.discard",
        "ask",
        GIT,
        git("restore", (~opt("-S --staged") | opt("-W --worktree")) & ~opt("-p --patch") & (count(1) | _FROM_LIST))
        | git("switch", count(1) | opt("-f --force --discard-changes"))
        | git("read-tree", opt("--reset") & opt("-u"))
        | git("checkout-index", opt("-f --force") & opt("-a --all") & ~opt("-n --prefix")),
        _LOSES,
        yes=(
            "git restore .",
            "git restore src/a.py",
            "git restore -SW ./",
            "git restore --source=HEAD~2 --worktree --staged :/",
            "git restore --pathspec-from-file=list",
            "git switch --discard-changes main",
            "git read-tree -u --reset HEAD",
        ),
        no=(
            "git restore --staged .",
            "git restore -S src/a.py",
            "git switch main",
            "git add .",
            "git stash",
            "git stash push -u -m wip",
        ),
        seen=restored,
    ),
    rule(
        "git.discard",
        "ask",
        GIT,
        git("merge|rebase|cherry-pick|revert|am", opt("--abort --skip")) | git("merge|rebase", count(1)),
        "discards conflicts resolved by hand, or ignored files",
        yes=("git -C $x merge --abort", "GIT_DIR=x git rebase --skip", "ssh host git am --abort"),
        no=("git merge --abort", "git merge topic", "git rebase main", "git rebase --continue", "git rebase --quit"),
        seen=aborted,
    ),
    rule(
        "git.discard",
        "ask",
        GIT,
        git("rm", opt("-f --force") & ~opt("--cached -n --dry-run")),
        _LOSES,
        yes="git rm -fq src/calc.py",
        no=("git rm src/calc.py", "git rm -f --cached src/calc.py", "git rm -nf src/calc.py"),
        seen=may_lose("changed"),
    ),
    rule(
        "git.discard",
        "ask",
        GIT,
        git("mv", opt("-f --force") & ~opt("-n --dry-run")),
        _LOSES,
        yes="git mv -f src/a.py src/b.py",
        no=("git mv src/a.py src/b.py", "git mv -nf src/a.py src/b.py"),
        seen=may_lose("changed untracked"),
    ),
    rule(
        "git.discard",
        "ask",
        GIT,
        git("submodule deinit", opt("-f --force"))
        | git("submodule foreach", text(r"\bgit (?:reset --hard|clean -\w*f|checkout (?:-- )?\.|checkout -f)")),
        _LOSES,
        yes=("git submodule deinit -f lib", "git submodule foreach 'git reset --hard'"),
        no=("git submodule update", "git submodule foreach 'git status'"),
    ),
    rule(
        "git.discard",
        "ask",
        GIT,
        git("checkout|restore", opt("-p --patch") & ~opt("-S --staged")) & Test(lambda view: view.act.stdin is not None),
        _LOSES,
        yes=("yes | git checkout -p", "echo a | git restore -p src"),
        no=("git checkout -p", "yes | git restore -Sp"),
        seen=may_lose("changed"),
    ),
    rule(
        "git.stash-delete",
        "ask",
        GIT,
        git("stash drop|clear"),
        "deletes stashed work",
        yes=("git stash clear", "git stash drop stash@{1}"),
        no=("git stash list", "git stash pop", "git stash push -m clear", "git stash"),
    ),
)
