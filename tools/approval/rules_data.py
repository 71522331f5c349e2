"""Rules: databases, git, containers, clusters, clouds."""

from __future__ import annotations

from tools.approval.rule import no_word, rule, start, sub, word

_SQL = "psql mysql mariadb sqlite sqlite3 sqlcmd sqlplus clickhouse-client duckdb cockroach usql pgcli mycli bq"
_HOST = (
    r"-v ?/:|--volume[= ]/:|(?:-v ?|--volume[= ])/(?:etc|root|home|var/run|run|boot|usr|dev|proc|sys)[:/]"
    r"|--mount[= ][^ ]*(?:src|source)=/,"
)

RULES = (
    rule(
        "sql.drop",
        "ask",
        _SQL,
        r"(?=.*(?<!['\"])\bdrop\s+(?:database|table|schema|user|role|owned|tablespace|keyspace)\b)",
        "drops a database or table",
        "psql -c 'DROP TABLE users'",
        "psql -c 'select 1 from drops'",
    ),
    rule(
        "sql.truncate",
        "ask",
        _SQL,
        r"(?=.*(?<!['\"])\btruncate\s+(?:table\s+)?\w)",
        "empties a table",
        "mysql -e 'TRUNCATE TABLE logs'",
        "mysql -e 'show tables'",
    ),
    rule(
        "sql.delete-all",
        "ask",
        _SQL,
        r"(?=.*(?<!['\"])\bdelete\s+from\s+[\w.\"`]+\s*(?:;|$| |<))",
        "DELETE without WHERE",
        "sqlite3 data.db 'DELETE FROM items'",
        "sqlite3 data.db 'DELETE FROM items WHERE id = 3'",
    ),
    rule(
        "sql.update-all",
        "ask",
        _SQL,
        r"(?=.*(?<!['\"])\bupdate\s+[\w.\"`]+\s+set\b(?!.*\bwhere\b))",
        "UPDATE without WHERE",
        "psql -c 'UPDATE users SET admin = true'",
        "psql -c 'UPDATE users SET admin = true WHERE id = 1'",
    ),
    rule("sql.drop", "ask", "dropdb dropuser", " ", "drops a database", "dropdb app", "createdb app"),
    rule("sql.drop", "ask", "mysqladmin", word("drop|shutdown"), "drops a database", "mysqladmin drop app", "mysqladmin status"),
    rule(
        "sql.reset",
        "ask",
        "rails rake bundle php python python3 npx prisma sequelize alembic flask bin/rails ./manage.py django-admin knex",
        start(
            r"db:(?:drop|reset|purge|schema:load|wipe)|migrate:(?:fresh|reset)|migrate reset|db push --force"
            r"|(?:flush|reset_db)(?: |$)|downgrade base"
        ),
        "empties or rebuilds a database",
        "rails db:reset",
        "rails db:migrate",
    ),
    rule(
        "nosql.destroy",
        "ask",
        "redis-cli valkey-cli",
        word("flushall|flushdb|shutdown"),
        "empties a store",
        "redis-cli FLUSHALL",
        "redis-cli info",
    ),
    rule(
        "nosql.destroy",
        "ask",
        "mongo mongosh",
        r"(?=.*(?:dropDatabase|\.drop\(|(?:deleteMany|remove)\(\s*(?:\{\s*\})?\s*\)))",
        "drops collections or all their documents",
        "mongosh app --eval 'db.dropDatabase()'",
        "mongosh app --eval 'db.x.find()'",
    ),
    rule(
        "nosql.destroy",
        "ask",
        "curl http https xh",
        start(r"-X ?DELETE|--request[= ]DELETE|DELETE(?: |$)"),
        "deletes over HTTP",
        "curl -X DELETE localhost:9200/logs",
        "curl localhost:9200/logs",
    ),
    rule(
        "nosql.destroy",
        "ask",
        "rabbitmqctl rabbitmqadmin kafka-topics kafka-topics.sh etcdctl nats cqlsh influx",
        start(r"reset|delete|purge|--delete|del(?: |$)|drop"),
        "deletes queues or keys",
        "rabbitmqctl purge_queue q",
        "rabbitmqctl status",
    ),
    rule(
        "git.force-push",
        "ask",
        "git",
        sub("push")
        + start(r"-\w*f\w*(?: |$)|--force(?: |$)|--mirror|--delete|-d(?: |$)|\+|[^ ]*:(?<= :)")
        + no_word("--dry-run|-n"),
        "rewrites or deletes what others share",
        "git push --force origin dev",
        "git push origin dev",
    ),
    rule(
        "git.discard",
        "ask",
        "git",
        sub("reset") + word("--hard") + r".* (?!-|HEAD(?: |$))[^ ]+$",
        "throws work away",
        "git reset --hard origin/main",
        "git reset --soft HEAD~1",
    ),
    rule(
        "git.discard",
        "ask",
        "git",
        sub("clean") + word(r"-\w*f\w*|--force") + no_word(r"-\w*n\w*|--dry-run"),
        "deletes untracked files",
        "git clean -fd",
        "git clean -nd",
    ),
    rule(
        "git.discard",
        "ask",
        "git",
        sub("checkout|restore") + word(r"\.|:/|\*|-f|--force") + no_word("--staged|-S|-b|--help"),
        "throws uncommitted work away",
        "git checkout .",
        "git restore --staged .",
    ),
    rule(
        "git.discard",
        "ask",
        "git",
        sub("branch") + r"(?=.* (?-i:-\w*D\w*)(?: |$))|" + r"^git" + sub("branch") + word("--delete") + word("--force"),
        "deletes unmerged work",
        "git branch -D topic",
        "git branch -d topic",
    ),
    rule(
        "git.discard",
        "ask",
        "git",
        sub("stash") + r" (?:drop|clear)(?= |$)",
        "deletes stashed work",
        "git stash clear",
        "git stash list",
    ),
    rule(
        "git.discard",
        "ask",
        "git",
        sub("reflog|update-ref|worktree|gc|prune|lfs")
        + r"(?= (?:expire|delete|-d |remove .*(?:-f|--force)|--prune=(?:now|all)|prune))",
        "deletes what could bring work back",
        "git reflog expire --expire=now --all",
        "git reflog show",
    ),
    rule(
        "git.rewrite",
        "ask",
        "git",
        sub("filter-branch|filter-repo"),
        "rewrites history",
        "git filter-branch --all",
        "git log --all",
    ),
    rule(
        "container.host",
        "ask-once",
        "docker podman nerdctl",
        r"(?=.* (?:run|create)(?: |$))"
        + start(
            _HOST + r"|[^ ]*docker\.sock|--privileged|--pid[= ]host|--userns[= ]host|--cap-add[= ](?:ALL|SYS_ADMIN|SYS_PTRACE)"
            r"|--device[= ]/dev/|--security-opt[= ][^ ]*unconfined"
        ),
        "hands the container the host",
        "docker run -v /:/mnt alpine",
        "docker run -v ./src:/src alpine",
    ),
    rule("container.host", "ask-once", "nsenter", " ", "enters another namespace of the host", "nsenter -t 1 -m sh", "lsns"),
    rule(
        "container.remove",
        "ask",
        "docker podman nerdctl",
        r".* prune(?= |$)|.* (?:rm|rmi|kill|stop)(?= ).* \$\(|.* volume (?:rm|remove)(?= )"
        r"|.* down(?= ).* (?:-v|--volumes|--rmi)|.* (?:swarm leave|stack rm)(?= |$)",
        "removes containers, volumes or images in bulk",
        "docker system prune -af",
        "docker image ls",
    ),
    rule(
        "container.remove",
        "ask",
        "docker-compose",
        r".* down(?= ).* (?:-v|--volumes|--rmi)",
        "removes volumes",
        "docker-compose down -v",
        "docker-compose up",
    ),
    rule(
        "cluster.delete",
        "ask",
        "kubectl oc k9s",
        sub("delete|drain|cordon")
        + "|^(?:kubectl|oc)"
        + sub("scale")
        + start(r"--replicas[= ]0(?: |$)")
        + "|^(?:kubectl|oc)"
        + sub("replace")
        + word("--force"),
        "deletes or stops what runs in a cluster",
        "kubectl delete ns staging",
        "kubectl get all",
    ),
    rule(
        "cluster.delete", "ask", "helm", sub("uninstall|delete|del|un"), "uninstalls a release", "helm uninstall web", "helm list"
    ),
    rule(
        "cloud.destroy",
        "ask",
        "terraform tofu terragrunt pulumi cdk sam serverless sls eksctl kind minikube",
        r".*? (?:destroy|delete|rm|taint|remove|force-unlock)(?= |$)|.* (?:apply|up)(?= ).* --?(?:auto-approve|yes|y)(?= |=|$)",
        "destroys or changes infrastructure unasked",
        "terraform destroy",
        "terraform plan",
    ),
    rule(
        "cloud.destroy",
        "ask",
        "aws",
        r"(?=.* (?:delete|terminate|remove|deregister|purge|destroy|revoke|detach|stop|disable)-[\w-]+)"
        r"|.* s3 (?:rb(?= )|rm(?= ).* --recursive|sync(?= ).* --delete)|.* s3api delete",
        "deletes cloud resources",
        "aws ec2 terminate-instances --instance-ids i-9",
        "aws ec2 describe-instances",
    ),
    rule(
        "cloud.destroy",
        "ask",
        "gcloud az doctl linode-cli hcloud oci heroku fly flyctl vercel netlify firebase supabase gsutil ibmcloud",
        r".*?[ :-](?:delete|destroy|purge|reset|rb|rm|remove)(?= |$)",
        "deletes cloud resources",
        "az vm delete -n vm1 --yes",
        "az vm list",
    ),
    rule(
        "cloud.destroy",
        "ask",
        "gh glab",
        r" (?:repo|release|secret|environment|variable|project|gist|run|cache|label|ssh-key|gpg-key)"
        r" (?:delete|archive|remove)(?= |$)",
        "deletes what is shared",
        "gh repo delete me/tool --yes",
        "gh repo view",
    ),
    rule(
        "cloud.destroy",
        "ask",
        "npm yarn pnpm cargo gem",
        r" (?:unpublish|yank|owner rm|deprecate)(?= |$)",
        "takes a release back",
        "npm unpublish x",
        "npm ci",
    ),
)
