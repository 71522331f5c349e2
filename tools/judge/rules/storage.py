"""Rules: object storage."""

from __future__ import annotations

from tools.judge.rules._program import Program
from tools.judge.rules.cloud import AWS_DRY, aws_call
from tools.judge.table import ActView, Test, operand, opt, rule, text, word

_HELP = word(r"-h|--help|help")
s3 = Program("-c --config --access_key --secret_key --region --host")
rclone = Program(
    "--config --bwlimit --transfers --checkers --include --exclude --filter --filter-from --log-file"
    " --log-level --stats --max-age --min-age"
)
gsutil = Program("-o -h -u -i")


def _removes_objects(view: ActView) -> bool:
    service, operation = aws_call(view)
    words = view.words
    return service == "s3" and (
        operation in ("rb", "rm")
        or (operation in ("sync", "mv") and ("--delete" in words or (operation == "mv" and "--recursive" in words)))
    )


RULES = (
    rule(
        "cloud.storage-delete",
        "ask",
        "aws awslocal s5cmd",
        (
            Test(_removes_objects)
            | (
                Test(lambda view: view.name == "s5cmd")
                & Program("--endpoint-url --profile --numworkers")("rm|rb|sync|mv", opt("--delete") | operand("s3://.*"))
            )
        )
        & ~AWS_DRY,
        "deletes buckets or their objects",
        at=lambda view: next((one.text for one in view.operands() if one.text.startswith("s3://")), ""),
        yes=(
            "aws s3 rm s3://bucket/data --recursive",
            "aws s3 rb s3://bucket --force",
            "aws s3 sync a s3://b --delete",
            "s5cmd rm 's3://b/*'",
        ),
        no=("aws s3 ls s3://b", "aws s3 sync a s3://b", "aws s3 rm s3://b/x --dryrun", "aws s3 cp a s3://b/a"),
    ),
    rule(
        "cloud.storage-delete",
        "ask",
        "gsutil",
        gsutil("rm|rb")
        | gsutil("rsync", opt("-d") & ~opt("-n"))
        | gsutil("mv", opt("-r"))
        | gsutil("acl|iam ch", text(r"AllUsers|allUsers")),
        "deletes buckets or their objects, or makes them public",
        at=lambda view: next((one.text for one in view.operands() if one.text.startswith("gs://")), ""),
        yes=(
            "gsutil -m rm -r gs://b",
            "gsutil rb gs://b",
            "gsutil rsync -d -r a gs://b",
            "gsutil iam ch allUsers:objectViewer gs://b",
        ),
        no=("gsutil ls gs://b", "gsutil cp a gs://b/", "gsutil rsync -r a gs://b", "gsutil rsync -n -d a gs://b"),
    ),
    rule(
        "cloud.storage-delete",
        "ask",
        "s3cmd s4cmd",
        (
            s3("del|rm|rb|expire|dellifecycle|delpolicy|sync|mv|setacl", text(r"^(?!sync|setacl)|--delete-removed|--acl-public"))
            & ~opt("-n --dry-run")
        )
        & (s3("del|rm|rb|expire") | text(r"--delete-removed|--acl-public|--recursive")),
        "deletes buckets or their objects, or makes them public",
        yes=("s3cmd del --recursive --force s3://b/", "s3cmd rb s3://b", "s3cmd sync --delete-removed a s3://b"),
        no=("s3cmd ls", "s3cmd put a s3://b", "s3cmd sync a s3://b", "s3cmd del -n s3://b/x"),
    ),
    rule(
        "cloud.storage-delete",
        "ask",
        "rclone",
        rclone("delete|purge|sync|rmdirs|cleanup|deletefile|dedupe|move|bisync|backend", ~opt("-n --dry-run -i --interactive"))
        & ~rclone("backend", operand("features|help|versioning", at=0))
        & ~text(r"(?:^| )(?:-n|--dry-run|-i|--interactive)(?: |$)"),
        "deletes objects in a store, or those missing from the source",
        yes=("rclone purge remote:photos", "rclone sync a remote:b", "rclone delete remote:b --min-age 7d"),
        no=("rclone copy a remote:b", "rclone ls remote:b", "rclone sync -n a remote:b", "rclone --dry-run delete remote:x"),
    ),
    rule(
        "cloud.storage-delete",
        "ask",
        "mc mcli",
        Program("-C --config-dir")("rm|rb", opt("-r --recursive --force --dangerous --incomplete --versions") | operand(".+"))
        | Program("-C --config-dir")("mirror", opt("--remove"))
        | Program("-C --config-dir")(
            "admin user|policy|group|service|bucket|decommission|cluster",
            operand("remove|rm|delete|stop|start-decommission|unlock"),
        )
        | Program("-C --config-dir")(
            "ilm|anonymous|policy|replicate|event|retention|legalhold|undo",
            operand("set|rm|remove|clear", at=0) & text(r"public|rm|remove|clear|upload|download"),
        )
        | Program("-C --config-dir")("anonymous set", text("public|upload")),
        "deletes buckets or their objects, or makes them public",
        yes=(
            "mc rm --recursive --force local/b",
            "mc rb --force local/b",
            "mc mirror --remove a local/b",
            "mc anonymous set public local/b",
        ),
        no=("mc ls local", "mc cp a local/b", "mc mirror a local/b"),
    ),
    rule(
        "cloud.storage-delete",
        "ask",
        "azcopy b2 storj uplink obsutil ossutil coscmd mcs rados radosgw-admin ceph s3fs-rm swift-rm cos gdrive dropbox",
        (
            Program("-p --pool -c --conf -n --name")(
                "rm|remove|delete|delete-bucket|delete-file-version|rb|delete_bucket"
                "|delete_file_version|purge|cleanup|wipe|clear-files|hide-file|format"
            )
            | Program()("bucket delete")
            | Program()("osd purge|destroy|rm|out|down|crush|pool")
            & text(r"osd (?:purge|destroy|rm|out|down)|crush rm|pool (?:delete|rm)")
            | Program()("fs|mon|mgr|auth", operand("rm|remove|fail|del", at=0))
            | Program()("user|bucket|object", operand("rm", at=0))
            | Program()("sync|s", text(r"--delete(?:-destination)?(?:[= ]true| |$)|--delete-destination$"))
        )
        & ~_HELP,
        "deletes buckets or their objects",
        yes=(
            "azcopy remove 'https://x.test/c' --recursive",
            "azcopy sync a 'https://x.test/c' --delete-destination=true",
            "b2 rm -r b2://b",
            "ceph osd pool delete p p --yes-i-really-really-mean-it",
            "rados -p pool purge pool",
        ),
        no=("azcopy copy a 'https://x.test/c'", "azcopy sync a 'https://x.test/c'", "ceph status", "b2 ls"),
    ),
)
