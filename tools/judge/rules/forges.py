"""Rules: clients of forges (gh, glab, hub, tea), and version control systems other than git."""

from __future__ import annotations

from tools.judge.rules._program import Program, joined
from tools.judge.table import DRY, operand, opt, rule, text, word

gh = Program("-R --repo --hostname -g --group")
hg = Program("-R --repository --cwd --config --encoding --color --pager")
svn = Program("--username --password --config-dir --config-option")
_HELP = word("-h|--help")
_HTTP_DELETE = text(r"(?:-X ?|--method[= ])DELETE\b|mutation\b.{0,200}\bdelete\w*")

RULES = (
    rule(
        "forge.delete",
        "ask",
        "gh",
        (
            gh(
                "repo|release|secret|variable|gist|run|label|issue|project|codespace|cs|ssh-key|gpg-key|environment|org",
                operand(r"delete|rm", at=0),
            )
            | gh("secret|variable", operand("remove", at=0))
            | gh("repo archive|rename")
            | gh("repo deploy-key|autolink", operand("delete", at=0))
            | gh("repo sync", opt("--force"))
            | gh("release delete-asset")
            | gh("project item-delete|field-delete")
            | gh("codespace|cs stop", opt("-a --all"))
            | gh("api", _HTTP_DELETE)
        )
        & ~_HELP,
        "deletes or locks shared resources",
        at=lambda view: joined(view).replace(" ", ""),
        yes=(
            "gh repo delete me/tool --yes",
            "gh release delete v1 -y",
            "gh secret remove TOKEN",
            "gh api -X DELETE repos/me/tool",
            "gh -R me/tool run delete 5",
        ),
        no=(
            "gh repo view",
            "gh pr list",
            "gh api repos/me/tool",
            "gh repo delete --help",
            "gh cache delete --all",
            "gh alias delete co",
        ),
    ),
    rule(
        "forge.expose",
        "ask-once",
        "gh glab",
        gh("repo edit", text(r"--visibility[= ]public"))
        | gh("ssh-key|deploy-key add")
        | gh("repo deploy-key", operand("add", at=0)),
        "opens a repository or an account to others",
        yes=("gh repo edit --visibility public", "gh ssh-key add key.pub", "gh repo deploy-key add k.pub -w"),
        no=("gh repo edit --description x", "gh ssh-key list"),
    ),
    rule(
        "forge.bypass",
        "ask",
        "gh",
        gh("pr merge", opt("--admin")) | gh("workflow disable"),
        "bypasses a branch's protection, or disables a workflow",
        yes=("gh pr merge 5 --admin --squash", "gh workflow disable ci.yml"),
        no=("gh pr merge 5 --squash --delete-branch", "gh workflow list"),
    ),
    rule(
        "forge.delete",
        "ask",
        "glab",
        (
            gh(
                "repo|project|release|mr|issue|variable|ssh-key|gpg-key|label|deploy-key|runner|schedule"
                "|snippet|milestone|iteration",
                operand("delete|del|rm", at=0),
            )
            | gh("ci|pipeline|pipe", operand("delete", at=0))
            | gh("token revoke|rotate")
            | gh("api", _HTTP_DELETE)
            | gh("repo|project", operand("transfer", at=0))
        )
        & ~_HELP,
        "deletes shared resources",
        yes=("glab repo delete me/tool", "glab release delete v1", "glab api --method DELETE projects/1"),
        no=("glab mr list", "glab repo archive me/tool", "glab repo clone me/tool", "glab alias delete co"),
    ),
    rule(
        "forge.delete",
        "ask",
        "hub",
        gh("delete") | gh("release delete"),
        "deletes shared resources",
        yes=("hub delete me/tool", "hub release delete v1"),
        no="hub release show v1",
    ),
    rule(
        "forge.delete",
        "ask",
        "tea az-devops bb",
        word("delete|rm|d"),
        "deletes shared resources",
        yes="tea releases delete v1",
        no="tea repos list",
    ),
    rule(
        "hg.discard",
        "ask",
        "hg chg",
        hg("strip|debugstrip|purge|clean|rollback|prune|obsolete|fold", ~opt("-p --print -n"))
        | hg("update|up|checkout|co|goto", opt("-C --clean"))
        | hg("revert", (opt("-a --all") | operand(r"\.")) & ~opt("-i --interactive -n"))
        | hg("shelve", opt("-d --delete --cleanup"))
        | hg("phase", opt("-f --force"))
        | hg("forget|remove|rm", opt("-f --force")),
        "discards work",
        yes=("hg strip tip", "hg purge --all", "hg update -C default", "hg revert --all --no-backup", "hg shelve --cleanup"),
        no=("hg update default", "hg status", "hg revert a.py", "hg shelve", "hg purge --print"),
    ),
    rule(
        "hg.push-force",
        "ask",
        "hg chg",
        hg("push", opt("-f --force")),
        "pushes new heads or unrelated history",
        yes="hg push -f default",
        no="hg push -r tip",
    ),
    rule(
        "hg.runs-code",
        "ask-once",
        "hg chg",
        text(r"--config[= ](?:hooks|alias|extensions|merge-tools|ui\.(?:ssh|editor|merge)|diff-tools|pager)[.\w-]*=[^ ]"),
        "makes hg run a program",
        yes="hg --config 'alias.x=!sh -c y' x",
        no="hg --config ui.verbose=true log",
    ),
    rule(
        "svn.discard",
        "ask",
        "svn",
        svn("revert", opt("-R --recursive") | text(r"--depth[= ]infinity") | operand(r"\.|\*"))
        | svn("delete|del|remove|rm", operand(r"\w[\w+]*://.*") | operand(r"\^/.*"))
        | svn("cleanup", opt("--remove-unversioned --remove-ignored"))
        | svn("delete|del|remove|rm", opt("--force") & operand(r"\.|\*")),
        "discards work, or deletes in the shared repository",
        yes=("svn revert -R .", "svn rm https://x.test/svn/trunk -m x", "svn cleanup --remove-unversioned"),
        no=("svn status", "svn revert a.c", "svn rm old.c", "svn cleanup", "svn update"),
        effect="remote",
    ),
    rule(
        "svn.discard",
        "ask",
        "svnadmin",
        svn("rmtxns|delrevprop|rmlocks") | svn("setrevprop", opt("--bypass-hooks")) | svn("setlog"),
        "changes a repository's contents",
        yes="svnadmin rmtxns repo 3-1",
        no="svnadmin verify repo",
    ),
    rule(
        "vcs.discard",
        "ask",
        "p4",
        Program("-c -p -u -d -P -H -C -r -x")("obliterate|revert|clean", ~opt("-n")),
        "discards work",
        yes=("p4 obliterate -y //depot/old/...", "p4 revert //..."),
        no=("p4 obliterate -n //depot/old/...", "p4 opened", "p4 sync"),
        effect="remote",
    ),
    rule(
        "vcs.discard",
        "ask",
        "darcs bzr brz fossil pijul",
        Program()("obliterate|unpull|unrecord|uncommit|clean-tree|purge|scrub|shun")
        | Program()("clean", opt("-f --force"))
        | Program()("revert", opt("-a --all") | ~operand(r".+\..+")),
        "discards work",
        yes=("darcs obliterate -a", "fossil purge files x", "bzr revert", "fossil clean --force"),
        no=("darcs log", "fossil status", "bzr revert a.c"),
        effect="remote",
    ),
    rule(
        "vcs.discard",
        "ask",
        "jj",
        Program("-R --repository --config --at-op --at-operation --color")("git push", opt("--deleted"))
        | Program("-R --repository")("op|operation abandon")
        | Program("-R --repository")("abandon"),
        "discards commits, or deletes shared branches",
        yes=("jj git push --deleted", "jj op abandon ..@-", "jj abandon xyz"),
        no=("jj git push", "jj op log", "jj log", "jj undo"),
    ),
    rule(
        "vcs.discard",
        "ask",
        "dvc",
        Program()("destroy")
        | Program()("gc", opt("-f --force -c --cloud -a --all-branches -w --workspace"))
        | Program()("exp|experiments remove|rm|gc"),
        "deletes tracked data",
        yes=("dvc destroy -f", "dvc gc -w --cloud"),
        no=("dvc push", "dvc status"),
        effect="remote",
    ),
    rule(
        "vcs.discard",
        "ask",
        "dolt",
        Program()("reset", opt("--hard"))
        | Program()("branch", opt("-D") | (opt("-d") & opt("-f")))
        | Program()("push", opt("-f --force"))
        | Program()("clean", ~DRY)
        | Program()("checkout", operand(r"\."))
        | Program()("table", operand("rm", at=0)),
        "discards data",
        yes=("dolt reset --hard HEAD~1", "dolt branch -D topic", "dolt push -f origin main"),
        no=("dolt branch", "dolt push origin main", "dolt status"),
    ),
)
