"""Rules: deletion of backups and snapshots."""

from __future__ import annotations

from tools.judge.rules._program import Program
from tools.judge.table import Test, operand, opt, rule, text, word

_WHY = "deletes backups"
restic = Program(
    "-r --repo -p --password-file --password-command -o --option --cache-dir --cacert --key-hint --limit-upload --repository-file"
)

RULES = (
    rule(
        "backup.delete",
        "ask",
        "restic rustic",
        (
            restic("forget|prune", ~opt("-n --dry-run"))
            | restic("key|keys", operand("remove|rm", at=0))
            | restic("rewrite", opt("--forget"))
            | restic("repair|rebuild-index|migrate", operand("snapshots|packs", at=0) & opt("--forget"))
            | restic("unlock", opt("--remove-all"))
        ),
        _WHY,
        yes=("restic forget --keep-last 1 --prune", "restic -r /srv/b prune", "restic key remove x"),
        no=("restic snapshots", "restic backup src", "restic forget -n --keep-last 1", "restic check"),
    ),
    rule(
        "backup.delete",
        "ask",
        "borg borgmatic borg1 borg2",
        Program("--repo -r --rsh --remote-path -c --config --log-json")(
            "delete|prune|compact|recreate|repo-delete|rdelete|undelete|break-lock", ~opt("-n --dry-run")
        )
        | Program()("check", opt("--repair"))
        | Program()("key", operand("remove|change-location", at=0)),
        _WHY,
        yes=("borg delete repo::monday", "borg prune --keep-daily 7 repo", "borg check --repair repo"),
        no=("borg list repo", "borg create repo::x src", "borg prune -n --keep-daily 7 repo"),
    ),
    rule(
        "backup.delete",
        "ask",
        "duplicity duplicati-cli duplicacy duply bup",
        (
            word(r"remove-(?:all\S*|older-than|all-but-n-full|all-inc\S*)|cleanup|delete|prune|purge\S*|rm|gc")
            & (opt("--force --unsafe -exhaustive") | word("-exclusive|-r|delete|rm|remove-all-but-n-full|prune|purge\\S*"))
        ),
        _WHY,
        yes=(
            "duplicity remove-all-but-n-full 1 --force file:///b",
            "duplicity remove-older-than 1D --force file:///b",
            "duplicacy prune -r 1-5",
            "duply x purge --force",
        ),
        no=("duplicity collection-status file:///b", "duplicity remove-older-than 1D file:///b", "bup ls"),
    ),
    rule(
        "backup.delete",
        "ask",
        "kopia",
        Program("--config-file --password --log-dir")(
            "snapshot|snapshots",
            operand("delete|expire", at=0) & (opt("--delete --all-snapshots-for-source") | operand("delete", at=0)),
        )
        | Program()("blob|repository|content|maintenance|policy", operand("delete|rm|gc", at=0))
        | Program()("maintenance run", text("--safety[= ]none")),
        _WHY,
        yes=("kopia snapshot delete k1 --delete", "kopia blob delete x"),
        no=("kopia snapshot list", "kopia snapshot create src", "kopia snapshot expire"),
    ),
    rule(
        "backup.delete",
        "ask",
        "snapper",
        Program("-c --config -r --root -t --table-style")("delete|rm|remove|cleanup|undochange|rollback|delete-config"),
        "deletes snapshots, or rolls the system back to one",
        yes=("snapper -c root delete 5-9", "snapper rollback 4", "snapper delete-config"),
        no=("snapper list", "snapper -c root create", "snapper status 1..2"),
    ),
    rule(
        "backup.delete",
        "ask",
        "timeshift timeshift-launcher",
        opt("--delete --delete-all --restore"),
        "deletes snapshots, or rolls the system back to one",
        yes=("timeshift --delete --snapshot x", "timeshift --delete-all", "timeshift --restore"),
        no=("timeshift --list", "timeshift --create"),
    ),
    rule(
        "backup.delete",
        "ask",
        "tmutil",
        Program()("delete|deletelocalsnapshots|disable|disablelocal|thinlocalsnapshots|removedestination|restore"),
        _WHY,
        yes=("tmutil disable", "tmutil deletelocalsnapshots /"),
        no=("tmutil listbackups", "tmutil status"),
    ),
    rule(
        "backup.delete",
        "ask",
        "rdiff-backup rsnapshot dirvish-expire tarsnap urbackupsrv bareos bconsole"
        " proxmox-backup-client proxmox-backup-manager pgbackrest barman wal-g wal-e velero pghoard",
        opt("--remove-older-than --remove-increments-older-than")
        | (
            word(
                r"remove|purge|delete|expire|stanza-delete|forget|prune|everything|nuke|delete-backup"
                r"|remove-backups|garbage|namespace|\S*older-than"
            )
            & ~operand("list|show|status|info|backup-list", at=0)
        )
        | (Test(lambda view: view.name == "tarsnap") & opt("-d --nuke"))
        | Test(lambda view: view.name == "dirvish-expire"),
        _WHY,
        yes=(
            "rdiff-backup --remove-older-than 1D /srv/b",
            "tarsnap -d -f monday",
            "pgbackrest stanza-delete --stanza=x --force",
            "barman delete main oldest",
            "wal-g delete everything FORCE",
        ),
        no=("rdiff-backup src /srv/b", "tarsnap --list-archives", "pgbackrest info", "barman list-backup main"),
    ),
    rule(
        "backup.delete",
        "ask",
        "vssadmin wbadmin",
        word(r"(?i:delete|resize)"),
        _WHY,
        yes=("vssadmin delete shadows /all /quiet", "wbadmin delete catalog"),
        no="vssadmin list shadows",
    ),
    rule(
        "backup.delete",
        "ask",
        "wmic",
        text(r"shadowcopy\b.*\bdelete\b|\bprocess\b.*\b(?:delete|terminate)\b"),
        _WHY,
        yes="wmic shadowcopy delete",
        no="wmic os get version",
    ),
    rule(
        "backup.delete",
        "ask",
        "zfs-auto-snapshot sanoid syncoid zrepl pyznap btrbk",
        (word(r"--prune-snapshots|--force-delete|zfs-destroy|--destroy\S*|clean|prune|delete") & ~opt("-n --dry-run --readonly"))
        & ~text(r"^(?:list|status)\b"),
        "deletes snapshots",
        yes=("sanoid --prune-snapshots --verbose", "btrbk clean", "syncoid --force-delete a b"),
        no=("sanoid --take-snapshots", "btrbk -n clean", "btrbk list"),
    ),
)
