"""Rules: jobs of clusters, and programs that keep others running."""

from __future__ import annotations

from tools.judge.rules._program import MANY, Program, several
from tools.judge.table import Test, first_operand, operand, opt, rule, text, word

_JOBS = "ends many jobs"
_STOP = "stops supervised programs"

RULES = (
    rule(
        "jobs.cancel",
        "ask",
        "scancel",
        opt("-u --user -A --account -p --partition -n --name -t --state -q --qos -w --nodelist --me -M --clusters")
        | MANY
        | several(4),
        _JOBS,
        yes=("scancel -u dev", "scancel --state=PENDING", "squeue -h -o %i | xargs scancel", "scancel --me"),
        no=("scancel 4242", "squeue -u dev", "scancel --help"),
    ),
    rule(
        "jobs.cancel",
        "ask",
        "scontrol sacctmgr",
        Program()("delete|shutdown|takeover|remove|reboot|dump") & ~word("dump")
        | (Program()("update", text(r"state=(?:down|drain|fail)"))),
        "removes jobs, nodes or accounts of a cluster",
        yes=("scontrol update nodename=n1 state=drain reason=x", "sacctmgr -i delete user bob", "scontrol shutdown"),
        no=("scontrol show job 4242", "sacctmgr show user", "scontrol hold 4242"),
    ),
    rule(
        "jobs.cancel",
        "ask",
        "condor_rm condor_vacate condor_off condor_drain",
        opt("-all -constraint")
        | word(r"-all|-constraint|-[a-z]+|(?!\d)[\w.-]+|-forcex")
        | Test(lambda view: view.name in ("condor_off", "condor_drain")),
        _JOBS,
        yes=("condor_rm -all", "condor_rm dev", "condor_off"),
        no=("condor_rm 12.0", "condor_q"),
    ),
    rule(
        "jobs.cancel",
        "ask",
        "qdel bkill canceljob",
        word("-u|all|0|-a|-J|-q|-g") | MANY,
        _JOBS,
        yes=("qdel all", "bkill 0", "bkill -u all", "qselect -u dev | xargs qdel"),
        no=("qdel 4242", "bkill 4242", "qstat"),
    ),
    rule(
        "jobs.cancel",
        "ask",
        "qmgr badmin bconf",
        text(r"\b(?:delete|d|hclose|qclose|shutdown) +(?:queue|server|node|q|s|n)?\b"),
        "removes queues or nodes of a cluster",
        yes=("qmgr -c 'delete queue batch'", "badmin qclose all"),
        no="qmgr -c 'list server'",
    ),
    rule(
        "jobs.cancel",
        "ask",
        "atrm",
        MANY | several(3),
        "cancels scheduled jobs",
        yes="atq | cut -f1 | xargs atrm",
        no=("atrm 4", "atq"),
    ),
    rule(
        "service.stop",
        "ask",
        "pm2",
        Program()("delete|del|kill|unstartup|update") | Program()("stop|delete", operand(".*")) | Program()("flush"),
        _STOP,
        at=Program().at("delete|del|stop", first_operand),
        yes=("pm2 delete all", "pm2 stop web", "pm2 kill"),
        no=("pm2 list", "pm2 start app.js", "pm2 logs", "pm2 restart web"),
    ),
    rule(
        "service.stop",
        "ask",
        "supervisorctl",
        Program("-c -s -u -p --configuration --serverurl --username --password")("stop|shutdown|remove|clear"),
        _STOP,
        at=Program("-c -s -u -p").at("stop|remove", first_operand),
        yes=("supervisorctl stop all", "supervisorctl -c s.conf stop web", "supervisorctl shutdown"),
        no=("supervisorctl status", "supervisorctl restart web", "supervisorctl tail web"),
    ),
    rule(
        "service.stop",
        "ask",
        "monit forever circusctl immortalctl god overmind hivemind",
        Program("-c -g -s")("stop|stopall|unmonitor|quit|kill|rm|terminate|halt|exit"),
        _STOP,
        yes=("monit stop all", "forever stopall", "circusctl quit"),
        no=("monit status", "forever list", "overmind start"),
    ),
    rule(
        "service.stop",
        "ask",
        "nginx apachectl apache2ctl httpd caddy haproxy lighttpd unicornctl catalina.sh asadmin jboss-cli",
        Program("-p -c -g -f")("stop|graceful-stop|shutdown|stop-domain|undeploy")
        | text(r"(?:^| )-(?:s|k) ?(?:stop|quit|graceful-stop|shutdown)\b")
        | text(r"--command=:?shutdown"),
        "stops a server",
        yes=("nginx -s stop", "apachectl -k graceful-stop", "caddy stop", "catalina.sh stop"),
        no=("nginx -t", "nginx -s reload", "apachectl configtest", "caddy run"),
    ),
    rule(
        "jobs.cancel",
        "ask",
        "ray dask spark-class yarn-cli mapred hadoop hdfs",
        Program()("stop|down", operand(".*") | opt("-f --force"))
        | Program("-conf -D -fs")(
            "fs|dfs|namenode|job|application|dfsadmin",
            text(r"-(?:rmr|rm -[rRf]|rm -skipTrash|expunge|format|kill|deleteSnapshot|rm -r)\b|-safemode (?:enter|leave)"),
        ),
        "stops a cluster or a job, or deletes files in its file system",
        yes=("hdfs dfs -rm -r /data", "hadoop fs -rmr /data", "hdfs namenode -format", "ray down cluster.yaml"),
        no=("hdfs dfs -ls /data", "hadoop fs -cat /data/a", "ray status"),
    ),
)
