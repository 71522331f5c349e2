"""Rules: SQL statements (reported by tools/judge/languages as ``@sql``), and the tools of relational databases."""

from __future__ import annotations

import re

from toolcrib.contract.regex import Regex
from tools.judge.rules._program import Program
from tools.judge.table import ActView, Test, first_operand, operand, opt, rule, text, value, word

_OBJECT = Regex(
    r"(?:DROP (?:\w+ )??(?:DATABASE|SCHEMA|TABLE|USER|ROLE|OWNED BY|TABLESPACE|KEYSPACE|COLLECTION|CATALOG|WAREHOUSE|STAGE)"
    r"|TRUNCATE(?: TABLE)?|DELETE FROM(?: ONLY)?|UPDATE(?: ONLY)?|ALTER TABLE)(?: IF EXISTS)?(?: ONLY)? ([^ ;(,]+)",
    re.IGNORECASE,
)


def _object(view: ActView) -> str:
    """Return the table or database of a statement."""
    match = _OBJECT.match(view.joined)
    return match[1].strip("\"`'[]") if match else ""


def _says(pattern: str) -> Test:
    return text(rf"^\s*(?:{pattern})")


_BARE_WHERE = text(r"\sWHERE\s")

RULES = (
    rule(
        "sql.drop",
        "ask",
        "@sql",
        _says(
            r"DROP (?:(?:EXTERNAL|FOREIGN|CLUSTERED|MATERIALIZED TABLE|LOGIN) )?(?:DATABASE|SCHEMA|TABLE|TABLES"
            r"|USER|ROLE|LOGIN|OWNED|TABLESPACE"
            r"|KEYSPACE|COLLECTION|CATALOG|WAREHOUSE|STAGE|SERIES|MEASUREMENT|BUCKET|SERVER|SUBSCRIPTION"
            r"|PUBLICATION|EXTENSION .* CASCADE)\b"
        ),
        "drops a database, a table or an account",
        at=_object,
        yes=("psql -c 'DROP TABLE users'", "mysql -e 'drop database if exists shop'", "sqlite3 a.db 'DROP TABLE IF EXISTS t'"),
        no=("psql -c 'select 1 from drops'", "psql -c 'create table t (id int)'", "echo 'DROP TABLE users'"),
    ),
    rule(
        "sql.drop-column",
        "ask",
        "@sql",
        _says(
            r"ALTER (?:FOREIGN )?TABLE .*\bDROP (?!CONSTRAINT\b|INDEX\b|KEY\b|DEFAULT\b|NOT NULL\b|PRIMARY"
            r" KEY\b|FOREIGN KEY\b|CHECK\b|EXPRESSION\b|IDENTITY\b)"
        ),
        "drops a column or a partition with its data",
        at=_object,
        yes="psql -c 'ALTER TABLE users DROP COLUMN email'",
        no=("psql -c 'ALTER TABLE users ADD COLUMN email text'", "psql -c 'alter table users drop constraint u_fk'"),
    ),
    rule(
        "sql.truncate",
        "ask",
        "@sql",
        _says(r"TRUNCATE\b"),
        "empties a table",
        at=_object,
        yes="mysql -e 'TRUNCATE TABLE logs' app",
        no="mysql -e 'show tables'",
    ),
    rule(
        "sql.delete-all",
        "ask",
        "@sql",
        _says(r"(?:WITH .*)?DELETE\b") & ~_BARE_WHERE,
        "deletes every row of a table",
        at=_object,
        yes=("sqlite3 data.db 'DELETE FROM items'", "psql -c 'delete from items where true'"),
        no="sqlite3 data.db 'DELETE FROM items WHERE id = 3'",
    ),
    rule(
        "sql.update-all",
        "ask",
        "@sql",
        _says(r"(?:WITH .*)?UPDATE\b") & ~_BARE_WHERE,
        "changes every row of a table",
        at=_object,
        yes="psql -c 'UPDATE users SET admin = true'",
        no="psql -c 'UPDATE users SET admin = true WHERE id = 1'",
    ),
    rule(
        "sql.rights",
        "ask",
        "@sql",
        _says(
            r"GRANT (?:ALL\b|SUPER\b|DBA\b|SYSADMIN\b|.*WITH (?:GRANT|ADMIN) OPTION|.* TO PUBLIC\b|.*@ ?'%'"
            r"|(?:pg_execute|pg_write|rds_superuser|accountadmin)\w*)"
            r"|(?:CREATE|ALTER) (?:USER|ROLE|LOGIN) .*(?<!NO)\b(?:SUPERUSER|CREATEROLE|BYPASSRLS|REPLICATION)\b"
            r"|ALTER (?:USER|ROLE|LOGIN) .*(?:PASSWORD|IDENTIFIED)|SET PASSWORD\b"
        ),
        "gives rights in a database, or changes a password",
        yes=("psql -c 'ALTER USER app SUPERUSER'", "mysql -e \"GRANT ALL PRIVILEGES ON *.* TO 'x'@'%'\""),
        no="psql -c 'GRANT SELECT ON items TO app'",
    ),
    rule(
        "sql.stop",
        "ask",
        "@sql",
        _says("SHUTDOWN"),
        "stops the database server",
        yes="mysql -e SHUTDOWN",
        no="mysql -e 'show status'",
    ),
    rule(
        "sql.drop",
        "ask",
        "dropdb dropuser pg_dropcluster pg_drop_replication_slot",
        ~opt("-i --interactive") & operand(".*"),
        "drops a database or an account",
        at=first_operand,
        yes=("dropdb app", "dropdb --if-exists -h db app", "dropuser bob"),
        no=("createdb app", "dropdb --help", "dropdb -i app"),
    ),
    rule(
        "sql.drop",
        "ask",
        "mysqladmin mariadb-admin",
        word("drop|shutdown|flush-(?:logs|privileges)-all|password") | opt("--old-password"),
        "drops a database, stops the server or changes its password",
        yes=("mysqladmin -u root drop app", "mariadb-admin shutdown"),
        no=("mysqladmin status", "mysqladmin create app"),
    ),
    rule(
        "sql.restore-over",
        "ask",
        "pg_restore",
        opt("-c --clean"),
        "drops the data that it restores over",
        yes="pg_restore --clean -d app app.dump",
        no=("pg_restore -l app.dump", "pg_restore -d app app.dump"),
    ),
    rule(
        "sql.restore-over",
        "ask",
        "mongorestore mongoimport",
        opt("--drop") | value("--mode", "delete"),
        "drops or deletes the data that it imports over",
        yes=("mongorestore --drop dump/", "mongoimport --mode=delete -c users u.json"),
        no=("mongorestore dump/", "mongoimport -c users u.json"),
    ),
    rule(
        "sql.stop",
        "ask",
        "pg_ctl pg_ctlcluster",
        word("stop|kill"),
        "stops the database server",
        yes="pg_ctl -D data stop",
        no="pg_ctl -D data status",
    ),
    rule(
        "sql.low-level",
        "ask",
        "pg_resetwal pg_resetxlog myisamchk innochecksum pg_archivecleanup pg_rewind",
        ~opt("-n -V -? --dry-run") & operand(".*") & ~(word("myisamchk") & opt("-c")),
        "changes a database's own files",
        yes="pg_resetwal -f /srv/pg",
        no="pg_resetwal -n /srv/pg",
    ),
    rule(
        "sql.drop",
        "ask",
        "bq",
        Program("--project_id --location --dataset_id")("rm|remove"),
        "deletes a dataset or table",
        at=Program("--project_id --location --dataset_id").at("rm|remove", first_operand),
        yes=("bq rm -r -f shop", "bq --project_id p rm shop.users"),
        no=("bq ls", "bq show shop"),
    ),
    rule(
        "sql.drop",
        "ask",
        "cockroach",
        Program()("node decommission|drain") | Program()("quit|demo-wipe"),
        "removes a node of the database",
        yes="cockroach node decommission 4",
        no="cockroach node status",
    ),
    rule(
        "sql.drop",
        "ask",
        "sqlite-utils",
        word("drop-table|drop-view|disable-wal"),
        "drops a table",
        yes="sqlite-utils drop-table a.db t",
        no="sqlite-utils tables a.db",
    ),
    rule(
        "sql.drop",
        "ask",
        "wp drush",
        word(r"sql[:-]drop|sqlc?-?drop|site[:-]install") | Program()("db reset|drop|clean") | Program()("site empty|delete"),
        "empties a site's database",
        yes=("wp db reset --yes", "drush sql-drop -y"),
        no=("wp db export", "drush status", "wp plugin list"),
    ),
    rule(
        "sql.drop",
        "ask",
        "neo4j-admin cypher-shell neo4j",
        text(r"\bdetach +delete\b|\bdrop +database\b") | Program()("database delete|drop") | text(r"match *\(\w*\) *delete\b"),
        "deletes a graph",
        yes="cypher-shell 'MATCH (n) DETACH DELETE n'",
        no="cypher-shell 'MATCH (n) RETURN n'",
    ),
    rule(
        "sql.drop",
        "ask",
        "bq cqlsh influx ksql beeline hive impala-shell presto trino snowsql vsql wrangler turso pscale",
        text(
            r"(?:^|[;'\" ])(?:drop +(?:keyspace|table|database|schema|series|measurement|user|role)|truncate(?:"
            r" +table)?) +[\w\"`.]"
            r"|(?:^|[;'\"= ])delete +from +[\w\"`.]+ *(?:[;'\"]|$)"
        ),
        "drops or empties tables of a database",
        yes=(
            "cqlsh -e 'DROP KEYSPACE shop'",
            "influx -execute 'DROP DATABASE metrics'",
            "snowsql -q 'drop table t'",
            "wrangler d1 execute app --command 'DROP TABLE users'",
        ),
        no=("cqlsh -e 'DESCRIBE KEYSPACES'", "influx -execute 'SHOW DATABASES'"),
    ),
    rule(
        "sql.drop",
        "ask",
        "sqlpackage",
        text(r"DropObjectsNotInSource=true|BlockOnPossibleDataLoss=false"),
        "drops data that the new schema does not have",
        yes="sqlpackage /Action:Publish /p:BlockOnPossibleDataLoss=false",
        no="sqlpackage /Action:Extract",
    ),
    rule(
        "sql.drop",
        "ask",
        "immuadmin",
        Program()("database delete|unload"),
        "deletes a database",
        yes="immuadmin database delete shop",
        no="immuadmin database list",
    ),
)
