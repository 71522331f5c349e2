"""Rules: cloud providers, hosting services, object storage."""

from __future__ import annotations

import re

from toolcrib.contract.regex import Regex
from tools.judge.rules._program import Program, anywhere, joined
from tools.judge.table import ActView, Test, operand, rule, text, value, word

_AWS_OPTIONS = (
    "--profile --region --output --endpoint-url --query --color --ca-bundle --cli-read-timeout"
    " --cli-connect-timeout --cli-binary-format"
)
_AWS_VALUED = frozenset(_AWS_OPTIONS.split())
_HELP = word(r"-h|--help|help|-\?")
AWS_DRY = word(r"--dry-?run|--generate-cli-skeleton(?:=.*)?") & ~word("--no-dry-run") | operand("help")

_AWS_ENDS = Regex(
    r"(?:admin-|batch-|bulk-|force-|global-)?(?:delete|terminate|remove|deregister|purge|destroy"
    r"|revoke|detach|disable|stop|release|cancel-spot"
    r"|schedule-key-deletion|disassociate|unsubscribe|deactivate|erase|wipe|abort-environment"
    r"|restore-db|failover|retire|empty)-[\w-]+|schedule-key-deletion"
)
_AWS_SMALL = Regex(
    r"(?:remove|delete)-(?:tags?(?:-from-\w+)?|item|message(?:-batch)?)|(?:untag|cancel-(?:export|query"
    r"|quer\w+|journal\w*|data-\w+))-?[\w-]*"
    r"|stop-(?:query|query-execution|build|build-batch|logging-\w+|pipeline-execution|execution"
    r"|session|task-\w+|text-\w+)|disassociate-(?:qualification).*"
    r"|stop-(?:discovering|db-instance-automated).*|remove-tags.*|reset-image-attribute|terminate-session|revoke-(?:signature).*"
)
_AWS_ASIDE = Regex(
    r"stop-(?:logging|configuration-recorder|monitoring-members)|disable-(?:alarm-actions|rule"
    r"|security-hub|guard\w*)|delete-(?:trail|detector|flow-logs|log-group)"
)
_AWS_OPENS = Regex(
    r"authorize-security-group-(?:ingress|egress)|put-bucket-(?:policy|acl)|put-object-acl"
    r"|put-public-access-block|modify-image-attribute"
    r"|modify-snapshot-attribute|modify-db-snapshot-attribute|add-permission"
)


def aws_call(view: ActView) -> tuple[str, str]:
    """Return (service, operation) of ``aws --profile x ec2 stop-instances``."""
    given = [one.text for one in view.operands(_AWS_VALUED)[:2]]
    return (given[0], given[1]) if len(given) == 2 else ("", "")


def _aws_ends(view: ActView) -> bool:
    service, operation = aws_call(view)
    if service in ("", "s3", "configure", "help", "codeartifact-login") or operation == "help":
        return False
    return _AWS_ENDS.fullmatch(operation) is not None and (
        _AWS_SMALL.fullmatch(operation) is None or _AWS_ASIDE.fullmatch(operation) is not None
    )


def _aws_opens(view: ActView) -> bool:
    _, operation = aws_call(view)
    return (
        _AWS_OPENS.fullmatch(operation) is not None
        and re.search(
            r"0\.0\.0\.0/0|::/0|public-read|AllUsers|\"Principal\"\s*:\s*\"\*\"|\"AWS\"\s*:\s*\"\*\""
            r"|=false|--group-names all|--principal '?\*|Group=all",
            view.joined,
        )
        is not None
    )


def _aws_rights(view: ActView) -> bool:
    service, operation = aws_call(view)
    return service == "iam" and (
        (
            operation.startswith(("attach-", "put-"))
            and operation.endswith("-policy")
            and re.search(r"AdministratorAccess|\"Action\"\s*:\s*\"\*\"|IAMFullAccess|PowerUser", view.joined) is not None
        )
        or operation
        in (
            "create-access-key",
            "create-login-profile",
            "update-login-profile",
            "update-assume-role-policy",
            "delete-account-password-policy",
            "deactivate-mfa-device",
        )
        or (operation == "add-user-to-group" and re.search(r"(?i)admin", view.joined) is not None)
    )


_CLOUD_READS = "describe list show get info status help get-iam-policy search ls print log logs config auth"
_CLOUD_ENDS = (
    "delete destroy purge rb rm del remove delete-instances delete-group drop terminate abandon-instances deallocate stop"
    " reset power-off shutdown poweroff rebuild revoke undeploy wipe empty deprovision detach disable remove-iam-policy-binding"
)
_GCLOUD_GROUPS_READ = "describe list config info help get-value topic feedback components"

RULES = (
    rule(
        "cloud.aws",
        "ask",
        "aws awslocal aws2",
        Test(_aws_ends) & ~AWS_DRY,
        "deletes or stops cloud resources",
        at=lambda view: "/".join(aws_call(view)),
        yes=(
            "aws ec2 terminate-instances --instance-ids i-9",
            "aws --profile prod --region eu-west-1 rds delete-db-instance --db-instance-identifier x",
            "aws s3api delete-bucket --bucket b",
            "aws kms schedule-key-deletion --key-id k",
            "aws sqs purge-queue --queue-url q",
            "aws cloudtrail stop-logging --name t",
        ),
        no=(
            "aws ec2 describe-instances",
            "aws ec2 terminate-instances --dry-run --instance-ids i-9",
            "aws sqs delete-message --queue-url q --receipt-handle h",
            "aws ec2 delete-volume help",
            "aws s3 cp a.txt s3://b/delete-me",
        ),
    ),
    rule(
        "cloud.open",
        "ask",
        "aws awslocal",
        Test(_aws_opens) & ~AWS_DRY,
        "makes cloud resources public",
        yes=(
            "aws ec2 authorize-security-group-ingress --group-id g --protocol tcp --port 22 --cidr 0.0.0.0/0",
            "aws s3api put-bucket-acl --bucket b --acl public-read",
        ),
        no=("aws ec2 authorize-security-group-ingress --group-id g --port 22 --cidr 10.0.0.0/8",),
    ),
    rule(
        "cloud.aws",
        "ask",
        "aws awslocal",
        (
            text(
                r"\b(?:autoscaling|ecs|application-autoscaling|eks"
                r"|elasticbeanstalk)\b.*(?:--desired-c(?:apacity|ount)|--max-size|--max-capacity)[= ]0(?: |$)"
            )
            | text(r"\borganizations close-account\b|--no-(?:disable-api-termination|deletion-protection\w*)\b|Status=Suspended")
            | text(
                r"\broute53 change-resource-record-sets\b.*\"Action\"\s*:\s*\"DELETE\"|\bdynamodb"
                r" \S*execute-statement\b.*\bDELETE +FROM\b"
            )
        )
        & ~AWS_DRY,
        "scales a service to zero, or removes its protection",
        yes=(
            "aws ecs update-service --cluster c --service s --desired-count 0",
            "aws s3api put-bucket-versioning --bucket b --versioning-configuration Status=Suspended",
        ),
        no=("aws ecs update-service --cluster c --service s --desired-count 3",),
    ),
    rule(
        "cloud.rights",
        "ask",
        "aws awslocal",
        Test(_aws_rights) & ~AWS_DRY,
        "gives an account administrator rights or new credentials",
        yes="aws iam attach-user-policy --user-name x --policy-arn arn:aws:iam::aws:policy/AdministratorAccess",
        no=("aws iam list-users", "aws iam create-role --role-name x"),
    ),
    rule(
        "cloud.delete",
        "ask",
        "gcloud",
        (
            anywhere(
                "delete delete-instances abandon-instances stop reset remove-iam-policy-binding"
                " delete-access-config disable destroy purge"
                " suspend rollback delete-from-index failover delete-all",
                "describe list info help get-value configurations topic",
            )
            & ~operand("auth|components|config", at=0)
        )
        | (operand("storage", at=0) & operand("rm", at=1))
        | (operand("storage", at=0) & operand("buckets|objects", at=1) & operand("delete", at=2))
        | (operand("storage", at=0) & operand("rsync", at=1) & word("--delete-unmatched-destination-objects"))
        | (text(r"add-iam-policy-binding\b.*(?:allUsers|allAuthenticatedUsers|roles/(?:owner|editor))")),
        "deletes or stops cloud resources, or gives others access to them",
        at=joined,
        yes=(
            "gcloud sql instances delete main-db -q",
            "gcloud --project p compute instances delete vm1 --zone z",
            "gcloud projects delete shop",
            "gcloud storage rm -r gs://b",
            "gcloud projects add-iam-policy-binding p --member=allUsers --role=roles/viewer",
        ),
        no=(
            "gcloud config list",
            "gcloud compute instances list",
            "gcloud compute instances describe delete",
            "gcloud auth revoke",
            "gcloud run deploy x",
        ),
    ),
    rule(
        "cloud.delete",
        "ask",
        "az",
        (
            anywhere(
                "delete purge remove deallocate stop reset-password empty delete-batch delete-keys"
                " clear reset revoke-access delete-version"
                " remove-member power-off redeploy reimage",
                "show list help",
            )
            & ~operand("config|extension|cache|bicep|tag|account|cloud|version|interactive", at=0)
        )
        | (operand("ad|role", at=0) & text(r"\brole assignment create\b.*\b(?:Owner|Contributor|User Access Administrator)\b"))
        | (operand("vm", at=0) & operand("run-command", at=1) & operand("invoke", at=2))
        | (operand("rest", at=0) & value("--method -m", "(?i:delete)"))
        | text(r"nsg rule create\b.*--source-address-prefixes '?(?:\*|0\.0\.0\.0/0|Internet)'?.*--access Allow"),
        "deletes or stops cloud resources, or gives access to them",
        at=joined,
        yes=(
            "az vm delete -n vm1 -g rg --yes",
            "az group delete -n rg -y --no-wait",
            "az keyvault purge -n v",
            "az rest --method delete --url u",
        ),
        no=("az vm list", "az vm show -n delete", "az account show", "az extension remove -n x", "az group create -n rg"),
    ),
    rule(
        "cloud.delete",
        "ask",
        "doctl linode-cli hcloud oci ibmcloud scw exo vultr-cli vultr openstack civo upctl ovhcloud"
        " yc aliyun tccli huaweicloud hcloud-cli ionosctl"
        " packet metal lightsail cs cloudmonkey nova cinder glance neutron swift brightbox eb copilot",
        (
            anywhere(
                "delete destroy purge rm del remove terminate force-delete delete-all reset"
                " rebuild poweroff power-off shutdown disable-backups stop"
                " records-delete volume-delete server-delete halt abort detach bulk-delete rebuild-server empty deprovision",
                "list ls get describe show info help status inspect search",
            )
            | operand(r"(?:Delete|Terminate|Release|Remove|Stop)[A-Z]\w+")
            | (Test(lambda view: view.name == "doctl") & (operand("d", at=2) | (operand("a|apps", at=0) & operand("d", at=1))))
        )
        & ~operand("auth|context|config|configuration|profile|plugin|completion|local", at=0),
        "deletes or stops cloud resources",
        at=joined,
        yes=(
            "doctl compute droplet delete web -f",
            "hcloud server delete web",
            "linode-cli linodes delete 123",
            "openstack server delete web",
            "scw instance server terminate id",
            "eb terminate prod",
            "aliyun ecs DeleteInstance --InstanceId i",
        ),
        no=(
            "doctl compute droplet list",
            "hcloud server list",
            "hcloud server describe delete",
            "doctl auth remove --context x",
            "hcloud context delete x",
        ),
    ),
    rule(
        "cloud.delete",
        "ask",
        "heroku fly flyctl vercel vc now netlify ntl wrangler firebase supabase railway render surge"
        " amplify cf cloudfoundry dokku caprover platform upsun"
        " scalingo koyeb eas expo neonctl neon turso pscale planetscale mongocli atlas clever nhost"
        " appwrite hasura deployctl sst encore dokploy kamal"
        " cloudflared tailscale ngrok doppler infisical op bw sentry-cli stripe twilio shopify"
        " cli4 flarectl pio lando ia immich-go loft confluent-cloud databricks snow algolia atuin hf huggingface-cli"
        " wandb kaggle modal replicate",
        (
            anywhere(
                "delete destroy rm remove purge del teardown delete-all wipe hard-delete"
                " dangerous-delete down terminate delete-org delete-service delete-space"
                " delete-key revoke delete-route delete-user reset-all repo-delete deleteAll",
                "list ls get show info status logs help open whoami search",
            )
            | operand(
                r"(?:apps|addons|pg|redis|pipelines|domains|config|certs|releases|keys|members|access"
                r"|drains|kafka|orgs|teams|spaces|data|firestore|functions|hosting"
                r"|database|auth|projects|storage|sites|env|site|kv|r2|d1|queues|volumes|machines"
                r"|machine|postgres|secrets|postgres|tunnel|plugins|git|container)"
                r"(?::[\w-]+)*:(?:destroy|delete|reset|remove|purge|disable|revoke|unset|rollback"
                r"|killall|kill|detach|clear|leave)"
            )
            | operand(r"firestore:delete|database:remove|hosting:disable|functions:delete|apps:destroy|ps:(?:kill|stop)")
            | Program()("db reset")
            | (Test(lambda view: view.name == "cli4") & word("--delete|-D"))
            | (Test(lambda view: view.name == "fly") & operand(r"destroy-\w+"))
            | (Test(lambda view: view.name == "exo") & operand("evict"))
            | Program()("pg|postgres", operand("reset"))
            | Program()("scale|ps:scale", operand(r".*=0") | operand("0") | operand("count", at=0) & operand("0", at=1))
        )
        & ~_HELP
        & ~operand("plugin|plugins|login|logout|context|completion|profile|link", at=0),
        "deletes a deployment or its data",
        at=joined,
        yes=(
            "heroku apps:destroy -a shop --confirm shop",
            "heroku pg:reset DATABASE -a shop",
            "heroku destroy --app shop",
            "fly apps destroy shop -y",
            "fly -t ci destroy-pipeline -p shop",
            "cli4 --delete /zones/:example.com/dns_records/:1",
            "pio org destroy shop",
            "lando destroy",
            "flyctl volumes delete vol_1",
            "vercel remove shop --yes",
            "netlify sites:delete --force x",
            "wrangler r2 bucket delete b",
            "firebase firestore:delete --all-collections",
            "supabase db reset",
            "railway down",
            "cf delete shop -f",
        ),
        no=(
            "heroku logs -a shop",
            "fly status",
            "vercel deploy",
            "netlify deploy",
            "wrangler deploy",
            "supabase start",
            "firebase deploy",
            "fly apps list",
            "heroku plugins:uninstall x",
        ),
    ),
)
