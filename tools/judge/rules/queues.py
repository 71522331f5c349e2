"""Rules: message queues and job queues."""

from __future__ import annotations

from tools.judge.rules._program import Program
from tools.judge.table import first_operand, operand, opt, rule, word

_WHY = "deletes or empties a queue or topic"
rabbit = Program("-n --node -q -p --vhost -t --timeout -H -u --host --username --password -P --port")
nats = Program("-s --server --creds --user --password --context --nkey --tlscert --tlskey --tlsca")
rpk = Program("-X --config --profile --brokers")

RULES = (
    rule(
        "queue.destroy",
        "ask",
        "rabbitmq-queues rabbitmq-streams",
        rabbit("delete_member|delete_replica|shrink"),
        "removes copies of a queue",
        yes="rabbitmq-queues delete_member orders rabbit@b",
        no="rabbitmq-queues quorum_status orders",
    ),
    rule(
        "queue.destroy",
        "ask",
        "kafka-topics kafka-topics.sh kafka-consumer-groups kafka-consumer-groups.sh kafka-acls kafka-acls.sh kafka-configs"
        " kafka-configs.sh",
        word("--delete|--delete-offsets|--delete-config")
        | (word("--reset-offsets") & word("--execute"))
        | word(r".*retention\.(?:ms|bytes)=\d{1,4}"),
        _WHY,
        yes=(
            "kafka-topics.sh --bootstrap-server x:9092 --delete --topic orders",
            "kafka-consumer-groups --group g --reset-offsets --to-earliest --execute --all-topics",
        ),
        no=(
            "kafka-topics.sh --list",
            "kafka-topics --create --topic delete",
            "kafka-consumer-groups --group g --reset-offsets --to-earliest",
        ),
    ),
    rule(
        "queue.destroy",
        "ask",
        "kafka-delete-records kafka-delete-records.sh kafka-streams-application-reset kafka-streams-application-reset.sh"
        " kafka-server-stop kafka-server-stop.sh zookeeper-server-stop zookeeper-server-stop.sh",
        ~opt("--dry-run"),
        "deletes records, or stops the broker",
        yes=(
            "kafka-delete-records --bootstrap-server x --offset-json-file f",
            "kafka-server-stop.sh",
        ),
        no="kafka-dump-log --files x",
    ),
    rule(
        "queue.destroy",
        "ask",
        "kafka-storage kafka-storage.sh",
        Program()("format"),
        "formats a broker's storage",
        yes="kafka-storage.sh format -t id -c server.properties",
        no="kafka-storage.sh random-uuid",
    ),
    rule(
        "queue.destroy",
        "ask",
        "rpk kaf kafkactl confluent kcctl",
        rpk("topic|group|cluster|acl|user|connector|connectors|schema", operand("delete|rm|trim-prefix|trim", at=0))
        | rpk("delete|del")
        | rpk("kafka topic|cluster|link|acl", operand("delete", at=0))
        | rpk("environment|api-key|iam|schema-registry|flink|connect|ksql", operand("delete"))
        | rpk("redpanda|container purge|stop"),
        _WHY,
        yes=(
            "rpk topic delete orders",
            "kafkactl delete topic orders",
            "confluent kafka topic delete orders",
            "kaf topic delete orders",
        ),
        no=("rpk topic list", "confluent kafka topic list", "kaf topics"),
    ),
    rule(
        "queue.destroy",
        "ask",
        "rabbitmqctl",
        rabbit(
            "reset|force_reset|delete_queue|purge_queue|delete_vhost|delete_user|stop|stop_app"
            "|shutdown|forget_cluster_node|close_all_connections"
            "|delete_shovel|clear_policy|clear_permissions|delete_member|force_boot|change_password"
            "|delete_operator_policy|close_all_user_connections"
        ),
        "deletes queues or accounts, or stops the broker",
        at=rabbit.at("delete_queue|purge_queue|delete_vhost|delete_user", first_operand),
        yes=(
            "rabbitmqctl purge_queue q",
            "rabbitmqctl -n rabbit@x force_reset",
            "rabbitmqctl delete_vhost prod",
            "rabbitmqctl stop_app",
        ),
        no=("rabbitmqctl status", "rabbitmqctl list_queues", "rabbitmqctl start_app"),
    ),
    rule(
        "queue.destroy",
        "ask",
        "rabbitmqadmin",
        rabbit("delete|purge|close"),
        _WHY,
        yes=("rabbitmqadmin -u x -p y delete queue name=q", "rabbitmqadmin purge queue name=q"),
        no=("rabbitmqadmin list queues", "rabbitmqadmin declare queue name=purge"),
    ),
    rule(
        "queue.destroy",
        "ask",
        "nats",
        nats("stream|str|st|s|consumer|con|c|kv|object|obj|counter", operand("rm|del|delete|purge|clear|seal", at=0))
        | nats("server|srv|account", operand("purge|peer-remove|cluster", at=0) & operand("purge|peer-remove|step-down|sd")),
        _WHY,
        yes=("nats stream rm ORDERS -f", "nats stream purge ORDERS", "nats kv del settings"),
        no=("nats stream ls", "nats pub rm x", "nats kv get settings x"),
    ),
    rule(
        "queue.destroy",
        "ask",
        "pulsar-admin pulsar-ctl",
        Program()(
            "topics|namespaces|tenants|clusters|functions|sinks|sources|subscriptions|schemas",
            operand("delete|clear-backlog|unload|delete-partitioned-topic|truncate", at=0),
        ),
        _WHY,
        yes=("pulsar-admin topics delete persistent://t/n/x", "pulsar-admin namespaces clear-backlog t/n"),
        no="pulsar-admin topics list t/n",
    ),
    rule(
        "queue.destroy",
        "ask",
        "celery rq dramatiq activemq artemis sidekiqctl resque",
        word("purge|empty|amqp.purge|shutdown") | (operand("control") & operand("shutdown|cancel_consumer")),
        "empties a job queue or stops its workers",
        yes=("celery -A app purge -f", "rq empty default", "celery -A app control shutdown"),
        no=("celery -A app worker", "rq info"),
    ),
    rule(
        "queue.destroy",
        "ask",
        "postsuper",
        opt("-d"),
        "deletes queued mail",
        yes="postsuper -d ALL",
        no="postqueue -p",
    ),
    rule(
        "queue.destroy",
        "ask",
        "exim exim4",
        word(r"-M(?:rm|g|c)|-Mrm"),
        "deletes queued mail",
        yes="exim -Mrm 1a2b",
        no="exim -bp",
    ),
    rule(
        "queue.destroy",
        "ask",
        "lprm cancel",
        word(r"-a|-"),
        "cancels every print job",
        yes=("cancel -a", "lprm -"),
        no="lpq -a",
    ),
)
