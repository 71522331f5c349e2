"""Rules: frameworks' commands that empty or rebuild a database."""

from __future__ import annotations

import re

from tools.judge.rules._program import Program
from tools.judge.table import Test, operand, opt, reads, rule, sub, text, word

_RUNNERS = "npx bunx pnpx yarn pnpm npm bun"
_WHY = "empties or rebuilds a database"

prisma = Program("--schema --config")
_PRISMA = r"\bprisma(?:@[\w.^~-]+)? (?:migrate reset\b|db push\b.*--(?:force-reset|accept-data-loss))"
_RAILS = word(
    r"(?:app:)?db:(?:drop|reset|purge|schema:load|structure:load|migrate:reset|truncate_all|seed:replant|test:purge)(?::\w+)*"
)
_ARTISAN = word(r"migrate:(?:fresh|refresh|reset)|db:wipe|queue:(?:clear|flush)|schedule:clear-cache|model:prune")
_DOCTRINE = word(r"doctrine:(?:database|schema|mongodb:schema):drop|d:(?:d|s):d|doctrine:migrations:reset")
_NODE_ORM = (
    r"\b(?:sequelize(?:-cli)? (?:.* )?(?:db:drop|db:migrate:undo:all|db:seed:undo:all)\b"
    r"|knex (?:.* )?migrate:rollback\b.*--all"
    r"|(?:typeorm|typeorm-ts-node-\w+) (?:.* )?schema:drop\b"
    r"|mikro-orm (?:.* )?(?:schema:drop|schema:fresh|migration:fresh|database:drop)\b"
    r"|payload (?:.* )?migrate:(?:fresh|reset|refresh)\b"
    r"|drizzle-kit (?:.* )?(?:drop\b|push\b.*--force))"
)

_ALL_ROWS = "deletes every row of a table, or all objects of a bucket"


def _code(pattern: str) -> Test:
    """Return a test for code in the framework's own shell, as an argument or as its input."""
    return text(pattern, re.DOTALL) | reads(pattern, re.DOTALL)


RULES = (
    rule(
        "sql.reset",
        "ask",
        "rails rake bundle spring",
        _RAILS,
        _WHY,
        yes=("rails db:reset", "bundle exec rake db:drop db:create", "bin/rails db:schema:load"),
        no=("rails db:migrate", "rake db:seed", "rails db:rollback", "rails db:test:prepare"),
    ),
    rule(
        "sql.reset",
        "ask",
        "php artisan sail",
        _ARTISAN | _DOCTRINE | (word("doctrine:fixtures:load") & ~opt("--append")),
        _WHY,
        yes=("php artisan migrate:fresh --seed", "php bin/console doctrine:database:drop --force", "sail artisan db:wipe"),
        no=("php artisan migrate", "php artisan cache:clear", "php bin/console doctrine:migrations:migrate"),
    ),
    rule(
        "sql.reset",
        "ask",
        "console symfony",
        _DOCTRINE | (word("doctrine:fixtures:load") & ~opt("--append")),
        _WHY,
        yes="bin/console doctrine:schema:drop --force",
        no="bin/console doctrine:migrations:status",
    ),
    rule(
        "sql.reset",
        "ask",
        "python manage.py django-admin manage",
        text(r"(?:^|[ /])(?:manage\.py )?(?:flush|reset_db|reset_schema|drop_test_database)(?: |$)")
        & (text(r"manage\.py") | ~text(r"\.py\b|^-"))
        | (text(r"(?:^|/)(?:manage\.py )?migrate \w+ zero(?: |$)")),
        _WHY,
        yes=(
            "python manage.py flush --noinput",
            "django-admin reset_db",
            "./manage.py flush",
            "python3 manage.py migrate shop zero",
        ),
        no=("python manage.py migrate", "python manage.py sqlflush", "python flush.py", "python -m flush"),
    ),
    rule(
        "sql.delete-all",
        "ask",
        "python manage.py django-admin ipython",
        text(r"(?:^|[ /])(?:manage\.py )?shell(?:_plus)?(?: |$)|^-\w*c ")
        & _code(r"\.objects(?:\.using\([^()]*\))?\.all\(\)\s*\.(?:delete|_raw_delete)\(|\.query\.delete\(\)"),
        _ALL_ROWS,
        yes=(
            "python manage.py shell -c 'User.objects.all().delete()'",
            "python manage.py shell <<< 'User.objects.all().delete()'",
        ),
        no=(
            "python manage.py shell -c 'print(User.objects.count())'",
            "python manage.py shell -c 'User.objects.filter(id=3).delete()'",
            "python check.py 'User.objects.all().delete()'",
        ),
    ),
    rule(
        "sql.delete-all",
        "ask",
        "rails ruby",
        (sub("runner|console|r|c") | opt("-e"))
        & _code(
            r"(?<![\w.)])(?:[A-Z]\w*(?:::[A-Z]\w*)*)(?:\.(?:all|unscoped))*\.(?:delete_all|destroy_all)\b"
            r"|\bconnection\.(?:truncate|drop_table|truncate_tables)\b"
        ),
        _ALL_ROWS,
        yes=("rails runner 'User.delete_all'", "bin/rails runner 'Order.all.destroy_all'", "rails c <<< User.destroy_all"),
        no=("rails runner 'puts User.count'", "rails runner 'User.where(id: 3).delete_all'"),
    ),
    rule(
        "sql.delete-all",
        "ask",
        "php artisan",
        word("tinker")
        & _code(r"(?<![\w)])[A-Z]\w*::(?:truncate|query\(\)->(?:delete|truncate))\(|::table\([^()]*\)->(?:delete|truncate)\("),
        _ALL_ROWS,
        yes="php artisan tinker --execute='User::truncate();'",
        no=("php artisan tinker --execute='User::count();'", "php artisan tinker --execute='User::find(3)->delete();'"),
    ),
    rule(
        "sql.reset",
        "ask",
        "alembic flask superset aerich",
        text(r"\bdowngrade\b.* (?:base|-\d{2,}|0)(?: |$)") & ~opt("--sql"),
        _WHY,
        yes=("alembic downgrade base", "flask db downgrade base"),
        no=("alembic upgrade head", "alembic downgrade base --sql", "flask db migrate"),
    ),
    rule(
        "sql.reset",
        "ask",
        "prisma",
        prisma("migrate reset") | prisma("db push", opt("--force-reset --accept-data-loss")),
        _WHY,
        yes=("prisma migrate reset --force", "prisma db push --force-reset"),
        no=("prisma migrate deploy", "prisma migrate dev", "prisma generate", "prisma db push"),
    ),
    rule(
        "sql.reset",
        "ask",
        _RUNNERS,
        text(_PRISMA) | text(_NODE_ORM),
        _WHY,
        yes=(
            "npx prisma migrate reset --force",
            "yarn sequelize db:drop",
            "pnpm typeorm schema:drop -d ds.ts",
            "npx knex migrate:rollback --all",
        ),
        no=("npx prisma migrate dev", "npx sequelize db:migrate", "npx knex migrate:latest"),
    ),
    rule(
        "sql.reset",
        "ask",
        "sequelize sequelize-cli knex typeorm mikro-orm payload drizzle-kit",
        word(
            r"db:drop|db:(?:migrate|seed):undo:all|schema:(?:drop|fresh)|migration:fresh|database:drop"
            r"|migrate:(?:fresh|reset|refresh)"
        )
        | (word("migrate:rollback") & opt("--all"))
        | operand("drop", at=0)
        | (operand("push", at=0) & opt("--force")),
        _WHY,
        yes=("sequelize db:drop", "knex migrate:rollback --all", "typeorm schema:drop", "drizzle-kit push --force"),
        no=("sequelize db:migrate", "knex migrate:rollback", "typeorm migration:run", "drizzle-kit push"),
    ),
    rule(
        "sql.reset",
        "ask",
        "mix",
        word(r"ecto\.(?:drop|reset)|ash\.(?:reset|tear_down)") | (word(r"ecto\.rollback") & opt("--all")),
        _WHY,
        yes=("mix ecto.reset", "mix ecto.drop --quiet"),
        no=("mix ecto.migrate", "mix test"),
    ),
    rule(
        "sql.reset",
        "ask",
        "diesel sqlx sea-orm-cli",
        Program("--database-url --source -D")("database|db reset|drop")
        | Program()("migrate fresh|refresh|reset")
        | (Program()("migration revert|redo") & opt("-a --all")),
        _WHY,
        yes=("diesel database reset", "sqlx database drop -y", "sea-orm-cli migrate fresh"),
        no=("diesel migration run", "sqlx migrate run"),
    ),
    rule(
        "sql.reset",
        "ask",
        "flyway liquibase dbmate goose atlas hasura atlasgo dbdeployer mongock flask-migrate",
        word(r"clean|drop-?all|dropAll|drop")
        | (word("reset") & ~operand(r".*\.(?:yaml|yml)"))
        | (operand("down-to") & operand("0"))
        | (text(r"migrate apply\b.*--down all"))
        | (text(r"^schema apply\b.*--auto-approve")),
        _WHY,
        yes=(
            "flyway clean",
            "liquibase drop-all --force",
            "dbmate drop",
            "goose postgres 'dbname=x' reset",
            "atlas schema clean -u x",
        ),
        no=("flyway migrate", "flyway info", "liquibase update", "dbmate up", "goose status"),
    ),
    rule(
        "sql.reset",
        "ask",
        "migrate",
        word("drop") | Program("-path -database -source -prefetch -lock-timeout")("down", ~operand(r"\d+")),
        _WHY,
        yes=("migrate -path db -database x drop -f", "migrate -path db -database x down"),
        no=("migrate -path db -database x up", "migrate -path db -database x down 1"),
    ),
    rule(
        "sql.reset",
        "ask",
        "airflow",
        Program()("db reset|clean") | Program()("dags|connections|variables|pools|users delete"),
        "deletes the scheduler's data",
        yes=("airflow db reset -y", "airflow dags delete sales"),
        no=("airflow db migrate", "airflow dags list"),
    ),
    rule(
        "sql.reset",
        "ask",
        "dotnet",
        Program()("ef database", operand("drop", at=0)) | (Program()("ef database") & text(r"database update 0(?: |$)")),
        _WHY,
        yes=("dotnet ef database drop -f", "dotnet ef database update 0"),
        no=("dotnet ef database update", "dotnet ef database drop --dry-run"),
    ),
    rule(
        "sql.reset",
        "ask",
        "mvn gradle gradlew mvnw",
        word(r"(?:[\w.:-]*:)?(?:flyway:clean|flywayClean|liquibase:dropAll|dropAll|hibernate:drop)"),
        _WHY,
        yes=("mvn flyway:clean", "./gradlew flywayClean"),
        no=("mvn clean install", "gradle clean build"),
    ),
)
