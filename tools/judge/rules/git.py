"""Rules: git. Commands that lose commits, rewrite shared history, or make git run code."""

from __future__ import annotations

import re

from toolcrib.contract.regex import Regex
from tools.judge.file_view import Looks
from tools.judge.meaning.value import HOLE
from tools.judge.rules._bare import bare_folders, own_settings
from tools.judge.rules._bound import remotes
from tools.judge.rules._git import DRY, GIT, WIDE, git
from tools.judge.rules._program import MANY
from tools.judge.table import ANY, ActView, Test, operand, opt, rule, text

_OTHER_COMMIT = Test(lambda view: any(value.text not in ("HEAD", "@", "") for value in view.operands()))

_RUNS_CODE = (
    r"core\.(?:hookspath|askpass|gitproxy|alternaterefscommand|attributesfile)|diff\.external"
    r"|gpg\.(?:[\w-]+\.)?(?:program|defaultkeycommand)"
    r"|sequence\.editor|init\.templatedir|uploadpack\.packobjectshook|protocol\.ext\.allow|include\.path|includeif\..*\.path"
    r"|(?:diff|merge|filter|difftool|mergetool|browser|man|trailer|tar|hook|guitool)\..*\.?(?:command|textconv"
    r"|driver|clean|smudge|process|cmd)"
    r"|remote\..*\.(?:uploadpack|receivepack|vcs)|imap\.tunnel|sendemail\.\w*(?:cmd|smtpserver)"
)
_MAY_RUN_CODE = (
    r"core\.(?:pager|editor|fsmonitor|sshcommand)|interactive\.difffilter|pager\.\w+|credential\.(?:.*\.)?helper|alias\.[\w.-]+"
)
_HARMLESS = (
    r"(?:cat|less(?: -\w+)*|more|delta|diff-so-fancy(?:.*less.*)?|bat|vi|vim|nvim|nano|emacs|code(?: --wait)?"
    r"|subl.*|true|false|:|store(?: --file.*)?"
    r"|cache(?: --timeout.*)?|osxkeychain|manager(?:-core)?|libsecret|wincred|[\w-]+|git-lfs .*"
    r"|ssh(?: -(?:[ipFl] ?[\w./~:@-]+|[vqT46]+|o ?(?:IdentitiesOnly|IdentityFile|StrictHostKeyChecking|BatchMode)[= ][\w./~-]+))*"
    r"|diff-so-fancy --patch|delta --color-only|)"
)
_CONFIG_OPTIONS = "-f --file --blob --type -t --default --comment --value --fixed-value --url"


def _config_pairs(view: ActView) -> list[tuple[str, str]]:
    """Return the settings of ``-c key=value`` before the subcommand, ``clone -c``, and ``git config key value``.

    ``--config-env`` takes the value from a variable. The value is HOLE (unknown) if the line does not set that variable.
    """
    words = view.words
    found = []
    for place, word in enumerate(words):
        if word.startswith("--config-env"):
            key, _, name = (word[13:] or (words[place + 1] if place + 1 < len(words) else "")).rpartition("=")
            set_here = view.act.environment.get(name)
            found.append((key, set_here.text if set_here is not None else HOLE))
        given = words[place + 1] if word in ("-c", "--config") and place + 1 < len(words) else ""
        if word.startswith("--config="):
            given = word[9:]
        if "=" in given:
            key, _, value = given.partition("=")
            found.append((key, value))
    if git("config")(view):
        operands = [value.text for value in view.operands(frozenset(("-C", "-c", "--git-dir", *_CONFIG_OPTIONS.split())))][1:]
        if operands and operands[0] in ("set", "add"):
            operands = operands[1:]
        if len(operands) >= 2 and operands[0] not in (
            "get",
            "unset",
            "list",
            "get-all",
            "rename-section",
            "remove-section",
            "edit",
        ):
            found.append((operands[0], operands[1]))
    return found


def _sets_code(view: ActView) -> str:
    """Return the key of a setting that makes git run something; "" if there is none."""
    return next((key for key, value in _config_pairs(view) if _runs(key, value)), "")


def _runs(key: str, value: str) -> bool:
    """Return whether a setting makes git run something."""
    if re.fullmatch(_RUNS_CODE, key, re.IGNORECASE) and not re.fullmatch(r"(?:git-lfs .*|)", value):
        return True
    if not re.fullmatch(_MAY_RUN_CODE, key, re.IGNORECASE):
        return False
    return value.startswith(("!", HOLE)) if key.lower().startswith("alias.") else not re.fullmatch(_HARMLESS, value)


def _runs_code(view: ActView, looks: Looks) -> bool:
    """Return whether a setting, on the line or in one of ``bare_folders``, makes git run something: a row's ``seen``."""
    if _sets_code(view):
        return not _READS_CONFIG(view)
    return any(_runs(key, value) for folder in bare_folders(view, looks) for key, value in own_settings(folder, looks))


def _other_commands(view: ActView) -> bool:
    """Return whether ``--exec-path`` makes git run its subcommands from a folder that is not one of the system's."""
    given = (word[12:] for word in view.words if word.startswith("--exec-path="))
    return any(not folder.startswith(("/usr/", "/opt/", "/Library/", "/Applications/")) for folder in given)


def _trusts_anything(view: ActView) -> bool:
    return any(
        (re.fullmatch(r"http\.(?:.*\.)?sslverify", key, re.IGNORECASE) and value.lower() in ("false", "0", "no", "off"))
        or (key.lower() == "safe.directory" and value == "*")
        or (key.lower() in ("transfer.fsckobjects", "fetch.fsckobjects", "receive.fsckobjects") and value.lower() == "false")
        for key, value in _config_pairs(view)
    )


_READS_CONFIG = git(
    "config", opt("--get --get-all --get-regexp --get-urlmatch --unset --unset-all --list -l --edit -e --remove-section")
)


def _pushed(view: ActView) -> str:
    """Return ``origin/main`` for ``push -f origin HEAD:main``."""
    words = [value.text for value in view.operands(frozenset(("-o", "--push-option", "--repo", "--receive-pack", "--exec")))]
    if not words:
        return ""
    names = [name.lstrip("+").rpartition(":")[2].removeprefix("refs/heads/") for name in words[1:]]
    return "/".join((words[0], *names))


def _named(view: ActView) -> str:
    return " ".join(value.text for value in view.operands())


_PUSH_AT = git.at("push", _pushed)

_EXPIRES = Regex(r"gc\.(?:[^=]*\.)?(?:pruneexpire|reflogexpire\w*)=(?!never)(?!\d+\.(?:week|month|year))", re.IGNORECASE)


def _expires(view: ActView) -> bool:
    """Return whether a setting on the line makes git delete, earlier than usual, commits that are on no branch."""
    return any(one.name == "-c" and _EXPIRES.match(one.value or "") for one in view.read().options)


RULES = (
    rule(
        "git.push-force",
        "ask",
        GIT,
        git("push", (opt("-f --force --mirror") | operand(r"\+.+")) & ~DRY),
        "rewrites shared history",
        at=_PUSH_AT,
        bound=remotes,
        yes=(
            "git push --force origin dev",
            "git -C sub push -fu origin dev",
            "git push origin +HEAD:main",
            "git push --mirror backup",
        ),
        no=(
            "git push origin dev",
            "git push --force-with-lease",
            "git push --force --dry-run",
            "git push -n -f",
            "git push -u origin f",
        ),
    ),
    rule(
        "git.fetch-over",
        "ask",
        GIT,
        git("fetch|pull", operand(r"\+(?:refs/heads/)?[^:]*:(?!refs/(?:remotes|pull|notes|merge-requests)/).+") & ~DRY),
        "overwrites local branches with remote ones",
        yes=("git fetch origin '+refs/heads/*:refs/heads/*'", "git fetch origin +main:main"),
        no=(
            "git fetch origin main:main",
            "git fetch origin '+refs/heads/*:refs/remotes/origin/*'",
            "git fetch origin '+refs/pull/7/head:refs/remotes/origin/pr/7'",
        ),
    ),
    rule(
        "git.push-delete",
        "ask",
        GIT,
        git("push", (opt("-d --delete --prune") | operand(r":.+")) & ~DRY),
        "deletes shared branches or tags",
        at=_PUSH_AT,
        bound=remotes,
        yes=("git push origin :feature", "git push --delete origin topic", "git push origin -d v1", "git push --prune origin"),
        no=("git push origin HEAD:refs/for/main", "git push --tags"),
    ),
    rule(
        "git.reset-hard",
        "ask",
        GIT,
        git("reset", opt("--hard") & _OTHER_COMMIT),
        "moves the branch and discards commits and uncommitted work",
        at=git.at("reset", _named),
        yes=("git reset --hard origin/main", "git reset HEAD~3 --hard", "git -C x reset --hard @~"),
        no=("git reset --soft HEAD~1", "git reset HEAD~1", "git reset -- a.py"),
    ),
    rule(
        "git.remove-files",
        "ask",
        GIT,
        git("rm", ((opt("-r") & (opt("-f --force") | WIDE)) | operand(r"\*|\./\*")) & ~opt("--cached") & ~DRY),
        "deletes tracked files, even changed ones",
        yes=("git rm -rf .", "git rm -r .", "git rm -r --force src"),
        no=("git rm old.py", "git rm -r --cached .", "git rm -rn ."),
    ),
    rule(
        "git.branch-delete",
        "ask",
        GIT,
        git(
            "branch",
            opt("-D") | (opt("-d --delete") & opt("-f --force")) | (opt("-f --force") & ~opt("-m -M --move -c -C --copy -u")),
        ),
        "deletes or moves a branch whose commits may be nowhere else",
        at=git.at("branch", _named),
        yes=("git branch -D topic", "git branch --delete --force topic", "git branch -df topic", "git branch -f main HEAD~4"),
        no=("git branch -d topic", "git branch --list", "git branch -M main", "git branch -vv"),
    ),
    rule(
        "git.expire",
        "ask",
        GIT,
        (git("reflog expire|delete|drop") & ~git("reflog", DRY))
        | git("gc", text(r"--prune=(?!never)(?!\d+\.(?:week|month|year))"))
        | git("gc|maintenance") & Test(_expires)
        | git("prune", ~DRY)
        | git("update-ref", opt("-d"))
        | git("symbolic-ref", opt("-d --delete"))
        | git("tag", opt("-d --delete") & MANY)
        | git("worktree remove", opt("-f --force"))
        | git("notes prune|remove", operand(r"--all"))
        | git("lfs prune", opt("-f --force"))
        | git("maintenance run", text("--prune=now")),
        "deletes data that could restore lost work",
        yes=(
            "git reflog expire --expire=now --all",
            "git gc --prune=now --aggressive",
            "git -c gc.reflogExpire=now gc",
            "git prune -v",
            "git update-ref -d refs/heads/topic",
            "git worktree remove --force ../wt",
            "git tag -d $(git tag)",
        ),
        no=(
            "git reflog show",
            "git gc",
            "git -c gc.pruneExpire=never gc",
            "git tag -d v1",
            "git prune -n",
            "git worktree remove ../wt",
            "git worktree prune",
            "git fetch --prune",
        ),
    ),
    rule(
        "git.rewrite",
        "ask",
        GIT,
        git("filter-branch")
        | git("filter-repo", ~opt("--analyze"))
        | git("lfs migrate import|export")
        | git("fast-import", opt("--force")),
        "rewrites history",
        yes=("git filter-branch --all", "git filter-repo --path a --invert-paths", "git lfs migrate import --everything"),
        no=("git log --all", "git filter-repo --analyze", "git lfs migrate info"),
    ),
    rule(
        "git.rewrite",
        "ask",
        "git-filter-repo bfg",
        ~opt("--analyze") & ~opt("--help -h"),
        "rewrites history",
        yes=("git-filter-repo --invert-paths --path a", "bfg --delete-files id_rsa"),
        no="git-filter-repo --analyze",
    ),
    rule(
        "git.rewrite",
        "ask",
        "java",
        text(r"-jar [^ ]*bfg[\w.-]*\.jar .*--(?:delete|strip|replace|convert|protect)"),
        "rewrites history",
        yes="java -jar bfg.jar --strip-blobs-bigger-than 50M",
        no="java -jar app.jar",
    ),
    rule(
        "git.extras",
        "ask",
        "git",
        git(
            "obliterate|delete-branch|delete-tag|delete-merged-branches|delete-squashed-branches"
            "|delete-submodule|force-clone|clear|nuke"
        ),
        "deletes branches, history or files",
        yes=("git obliterate secrets.env", "git delete-branch topic", "git clear"),
        no="git ignore clear",
        effect="remote",
    ),
    rule(
        "git.runs-code",
        "ask-once",
        GIT,
        ANY,
        "makes git run a program later, or runs git with settings that name one",
        seen=_runs_code,
        at=_sets_code,
        yes=(
            "git config core.hooksPath /tmp/hooks",
            "git config --global alias.up '!sh -c x'",
            "git config set core.pager 'sh -c x'",
            "git -c core.sshCommand='sh x' fetch",
            "git config credential.helper '!f() { cat; }; f'",
            "git config core.fsmonitor ./x.sh",
            "git --config-env=core.hooksPath=X commit",
            "git --config-env alias.x=X x",
        ),
        no=(
            "git config core.hooksPath",
            "git config --get core.sshCommand",
            "git config --unset core.hooksPath",
            "git config alias.st status",
            "git config core.editor vim",
            "git config credential.helper store",
            "git -c core.pager=cat log",
            "git --config-env=http.extraHeader=AUTH fetch",
            "git config core.fsmonitor true",
            "git config user.email a@b.test",
        ),
        effect="outside",
    ),
    rule(
        "git.elsewhere",
        "ask",
        GIT,
        Test(lambda view: any(key.lower() == "core.worktree" for key, _ in _config_pairs(view))),
        "makes git write into another folder than its own",
        yes=("git config core.worktree /home/dev", "git -c core.worktree=.. checkout -q topic"),
        no=("git config --get core.worktree", "git config --unset core.worktree"),
    ),
    rule(
        "git.runs-code",
        "ask-once",
        GIT,
        Test(_other_commands)
        | git("clone|fetch|pull|ls-remote|push|remote|archive|submodule", operand(r"ext::.*"))
        | git("clone|fetch|pull|ls-remote", text(r"(?:^| )--upload-pack[= ](?!(?:[\w/]*/)?git-upload-pack(?: |$))"))
        | git("push", text(r"(?:^| )--(?:receive-pack|exec)[= ](?!(?:[\w/.-]*/)?git-receive-pack(?: |$))"))
        | git("archive", text(r"(?:^| )--exec[= ](?!(?:[\w/]*/)?git-upload-archive(?: |$))"))
        | git("send-email", text(r"(?:^| )--(?:sendmail-cmd[= ]|smtp-server[= ][/~.]|to-cmd[= ]|cc-cmd[= ])")),
        "makes git run a program",
        yes=(
            "git --exec-path=. status",
            "git clone 'ext::sh -c x'",
            "git ls-remote --upload-pack='sh x' .",
            "git push --receive-pack='sh x' . HEAD",
            "git archive --remote=. --exec='sh x' HEAD",
            "git send-email --smtp-server=/tmp/x a.patch",
        ),
        no=(
            "git --exec-path",
            "git --exec-path=/usr/lib/git-core status",
            "git clone https://x.test/a.git",
            "git ls-remote origin",
            "git push --receive-pack=/usr/lib/git-core/git-receive-pack origin dev",
            "git send-email --smtp-server=mail.test a.patch",
        ),
        effect="remote",
    ),
    rule(
        "security.tls-off",
        "ask",
        GIT,
        Test(_trusts_anything) & ~_READS_CONFIG,
        "turns off a check that protects what git fetches",
        yes=(
            "git config --global http.sslVerify false",
            "git -c http.sslVerify=false clone https://x.test/a",
            "git config --global safe.directory '*'",
        ),
        no=("git config http.sslVerify true", "git config --global --add safe.directory /srv/app"),
    ),
    rule(
        "security.tls-off",
        "ask",
        GIT,
        Test(lambda view: view.act.environment.get("GIT_SSL_NO_VERIFY", None) is not None),
        "turns off TLS verification",
        yes="GIT_SSL_NO_VERIFY=1 git fetch",
        no="GIT_TERMINAL_PROMPT=0 git fetch",
    ),
    rule(
        "git.serve",
        "ask-once",
        "git",
        git("daemon", text("--enable=receive-pack") | (opt("--export-all") & text("--base-path=/( |$)"))),
        "lets other hosts write or read repositories",
        yes="git daemon --enable=receive-pack --base-path=.",
        no="git daemon --base-path=. --export-all",
    ),
)
