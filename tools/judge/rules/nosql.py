"""Rules: key-value stores, document stores, search engines, and deletions over HTTP."""

from __future__ import annotations

import re

from tools.judge.rules._program import Program, several
from tools.judge.table import FED, ActView, Test, operand, opt, reads, rule, text, value, word

_REDIS_OPTIONS = "-h -p -s -a -u -r -i -n -d -D -x -X --user --pass --sni --cacert --cert --key --eval --pattern --count"
_REDIS_VALUED = frozenset(_REDIS_OPTIONS.split())
_STORE_PORTS = (
    r":(?:9200|9201|9243|5984|15672|8500|2379|4646|8086|8200|6333|8983|9090|9091|8081|8083|3100|7474"
    r"|8529|5601|2375|2376|6443|8001|8088)\b"
)
"""Ports of stores, queues and clusters. HTTP on any other port of this machine counts as a call to a server under development."""

_HERE = r"(?:https?://)?(?:localhost|127\.\d+\.\d+\.\d+|\[::1\]|0\.0\.0\.0)(?=[:/]|$)"


def _redis(pattern: str) -> Test:
    compiled = re.compile(pattern, re.IGNORECASE)

    def ask(view: ActView) -> bool:
        given = view.operands(_REDIS_VALUED)
        return bool(given) and compiled.match(" ".join(value.text for value in given)) is not None

    return Test(ask)


_REDIS_GONE = (
    r"(?:flush(?:all|db)|shutdown|swapdb|cluster (?:reset|forget|flushslots)|(?:replicaof|slaveof)"
    r" (?!no\b)|failover|debug (?:segfault|reload|panic)"
    r"|acl (?:deluser|load)|script flush|function (?:flush|delete)|config set (?:dir|dbfilename"
    r"|requirepass|protected-mode|appendonly|rename))\b"
)
_HTTP_STORE_DELETE = text(_STORE_PORTS) | ~text(rf"(?:^| )['\"]?{_HERE}")

RULES = (
    rule(
        "nosql.destroy",
        "ask",
        "redis-cli valkey-cli keydb-cli dragonfly-cli",
        _redis(_REDIS_GONE)
        | reads(rf"(?:^|\n)\s*{_REDIS_GONE}")
        | (_redis(r"(?:del|unlink|evalsha|hdel|xtrim)\b") & FED)
        | (_redis(r"eval\b|--eval\b") & text(r"flush(?:all|db)|redis\.call\(\s*['\"](?:del|unlink)"))
        | (opt("--cluster") & text(r"--cluster (?:del-node|reshard|call .*flush)")),
        "empties, stops or takes over a store",
        yes=(
            "redis-cli FLUSHALL",
            "redis-cli -a pw -n 2 flushdb",
            "redis-cli -h db shutdown nosave",
            "echo FLUSHALL | redis-cli",
        ),
        no=("redis-cli info", "redis-cli get flushall", "redis-cli del key1", "redis-cli config get dir"),
    ),
    rule(
        "nosql.destroy",
        "ask",
        "nc ncat netcat telnet socat",
        reads(r"(?:^|\n)\s*(?:flush_all|flushall|flushdb|shutdown)\b"),
        "empties a cache or store",
        yes=("echo flush_all | nc localhost 11211", "printf 'FLUSHALL\\r\\n' | nc localhost 6379"),
        no=("echo stats | nc localhost 11211",),
    ),
    rule(
        "nosql.destroy",
        "ask",
        "memcached-tool",
        word(r"flush(?:_all)?"),
        "empties a cache",
        yes="memcached-tool localhost:11211 flush_all",
        no="memcached-tool localhost:11211 stats",
    ),
    rule(
        "nosql.destroy",
        "ask",
        "memcflush memflush memcrm",
        Test(lambda _view: True),
        "empties a cache",
        yes="memcflush --servers=localhost",
        no="memcstat --servers=localhost",
    ),
    rule(
        "nosql.destroy",
        "ask",
        "@mongo",
        Test(lambda _view: True),
        "drops collections or all their documents",
        yes=("mongosh app --eval 'db.dropDatabase()'", "mongosh app --eval 'db.events.deleteMany({})'"),
        no=("mongosh app --eval 'db.x.find()'", "mongosh app --eval 'db.x.deleteMany({id: 3})'"),
    ),
    rule(
        "http.delete",
        "ask",
        "curl curlie",
        value("-X --request", "delete", re.IGNORECASE) & _HTTP_STORE_DELETE,
        "deletes over HTTP",
        yes=("curl -XDELETE localhost:9200/logs-2024", "curl -s --request DELETE https://api.example.net/v1/zones/4"),
        no=(
            "curl localhost:9200/logs",
            "curl -X DELETE http://localhost:3000/api/todos/4",
            "curl -d DELETE localhost:9200/x/_doc",
        ),
    ),
    rule(
        "http.delete",
        "ask",
        "http https xh xhs wget",
        ((operand("DELETE|delete", at=0) & ~value("--method", "(?i:get|head)")) | value("--method", "(?i:delete)"))
        & _HTTP_STORE_DELETE,
        "deletes over HTTP",
        yes=("http DELETE api.example.net/users/4", "wget --method=DELETE https://api.example.net/v1/x", "xh delete :9200/logs"),
        no=("http GET api.example.net/users", "wget https://x.test/delete"),
    ),
    rule(
        "http.delete",
        "ask",
        "curl curlie http https xh wget",
        text(
            r"/_delete_by_query\b|/_shutdown\b|admin/tsdb/delete_series|/_all/_delete"
            r"|stream\.body=%?\W{0,3}<?delete|<delete><query>\*:\*"
            r"|[?&]command=delete|/FLUSHALL\b|:8123\b.*\b(?:drop|truncate)\b|\b(?:drop|truncate)\b.*:8123\b"
            r"|/query\b.*\bq=(?:drop|delete)\b"
            r"|\"?settings\"?.*cluster\.blocks|/_snapshot/[^ ]*/_restore"
        )
        & ~text(r"(?:^| )-I(?: |$)"),
        "deletes data of a search engine or store",
        yes=(
            'curl -X POST localhost:9200/logs/_delete_by_query -d \'{"query":{"match_all":{}}}\'',
            "curl 'localhost:8123/?query=DROP+TABLE+x' -d 'drop table x'",
        ),
        no=("curl localhost:9200/_cat/indices", "curl localhost:8123/ping"),
    ),
    rule(
        "nosql.destroy",
        "ask",
        "etcdctl",
        Program("--endpoints --cacert --cert --key --user --password")("del|rm|rmdir")
        | Program("--endpoints --cacert --cert --key --user --password")("member remove")
        | Program("--endpoints --cacert --cert --key --user --password")("user|role delete")
        | Program("--endpoints --cacert --cert --key --user --password")("auth disable"),
        "deletes keys or members of a cluster's store",
        yes=("etcdctl del --prefix /registry", "etcdctl --endpoints x del my/key", "etcdctl member remove 8e9e"),
        no=("etcdctl get my/key", "etcdctl member list", "etcdctl put del x"),
    ),
    rule(
        "nosql.destroy",
        "ask",
        "nodetool",
        Program("-h -p -u -pw --host --port")(
            "decommission|removenode|assassinate|clearsnapshot|drain|stopdaemon|truncatehints|resetlocalschema"
            "|disablegossip|disablebinary"
        ),
        "removes a database node or its snapshots",
        yes=("nodetool decommission", "nodetool -h db clearsnapshot --all"),
        no=("nodetool status", "nodetool snapshot"),
    ),
    rule(
        "nosql.destroy",
        "ask",
        "influx",
        Program("--host -t --token -o --org")("delete")
        | Program("--host -t --token -o --org")("bucket|org|user|task|auth|stack|dashboards delete"),
        "deletes measurements or buckets",
        yes=("influx delete --bucket b --start 1970-01-01T00:00:00Z --stop 2030-01-01T00:00:00Z", "influx bucket delete -n b"),
        no=("influx bucket list", "influx query 'from(bucket:\"b\")'"),
    ),
    rule(
        "nosql.destroy",
        "ask",
        "elasticsearch-node elasticsearch-reset-password elasticsearch-users elasticsearch-keystore curator_cli curator",
        word(r"detach-cluster|unsafe-bootstrap|repurpose|remove-settings|remove-customs|userdel|delete[-_]\w+")
        | Test(lambda view: view.name == "elasticsearch-reset-password"),
        "changes or deletes data of a search cluster",
        yes=("elasticsearch-reset-password -u elastic", "curator_cli delete_indices --filter_list x"),
        no=("curator_cli show_indices",),
    ),
    rule(
        "nosql.destroy",
        "ask",
        "couchbase-cli cbq asinfo aql surreal arangosh dgraph",
        word(r"bucket-(?:delete|flush)|server-eject|failover|user-delete")
        | text(r"\b(?:truncate|drop) +(?:index|set|bucket|table|collection)?\b *\w|\._drop\w*\("),
        "deletes data of a store",
        yes=("couchbase-cli bucket-flush -c x --bucket b", "arangosh --javascript.execute-string 'db._dropDatabase(\"x\")'"),
        no=("couchbase-cli bucket-list -c x",),
    ),
    rule(
        "nosql.destroy",
        "ask",
        "zkCli.sh zookeepercli zkcli",
        word(r"deleteall|rmr|delete"),
        "deletes nodes of a cluster's store",
        yes="zkCli.sh -server x deleteall /brokers",
        no="zkCli.sh -server x ls /",
    ),
    rule(
        "nosql.destroy",
        "ask",
        "ldapdelete",
        several(1) | opt("-r -f"),
        "deletes directory entries",
        yes="ldapdelete -r ou=people,dc=x",
        no="ldapsearch -b dc=x",
    ),
)
