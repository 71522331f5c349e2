"""Rules: infrastructure as code, configuration management, secrets and service registries."""

from __future__ import annotations

import re

from tools.judge.rules._program import Program
from tools.judge.table import ANY, ActView, Test, first_operand, operand, opt, rule, text, value, word

_TERRAFORM = "terraform tofu terragrunt terramate"
_TF_VALUED = "-C --terragrunt-working-dir --working-dir --terragrunt-config --config"
terraform = Program(_TF_VALUED)
_HELP = word(r"-h|-?-help|help")
_APPROVED = word(r"--?auto-approve(?:=true)?|--?auto-approve=[1t]|--terragrunt-non-interactive|--non-interactive")

_ANSWERED = Test(lambda view: view.act.stdin is not None)
"""Test for an answer on standard input: ``yes | terraform apply``."""


def _tf(path: str, test: Test = ANY) -> Test:
    """Return a test for a subcommand, also after ``run-all`` and ``run --all --``."""
    return terraform(path, test) | terraform(f"run-all {path}", test) | terraform(f"run {path}", test)


def _saved_plan(view: ActView) -> bool:
    """Return whether the words name a saved plan: ``terraform apply p.out`` runs it without a question, while ``apply`` alone
    asks at the terminal.
    """
    return any(
        re.fullmatch(r"[^=]+", one.text)
        for one in view.operands(
            frozenset(("-var", "-var-file", "-target", "-replace", "-state", "--var", "--var-file", "--target"))
        )
    )


pulumi = Program("-C --cwd --color --logtostderr -v --tracing --profiling -s --stack")
ansible_destroys = (
    r"state=absent.*(?:recurse|path)|(?:rm|dd|mkfs|shutdown|reboot|halt|poweroff) "
    r"|name=\S+ state=(?:stopped|absent)|enabled=(?:no|false)"
)
consul = Program("-http-addr -token -datacenter -namespace -address -ca-file")

RULES = (
    rule(
        "iac.destroy",
        "ask",
        _TERRAFORM,
        (_tf("destroy|destroy-all") | _tf("apply", word(r"--?destroy(?:=true)?"))) & ~_HELP,
        "destroys infrastructure",
        yes=(
            "terraform destroy",
            "terraform -chdir=prod destroy -auto-approve",
            "tofu apply -destroy",
            "terragrunt run-all destroy",
        ),
        no=("terraform plan", "terraform plan -destroy", "terraform destroy -help", "terraform output"),
    ),
    rule(
        "iac.apply",
        "ask",
        _TERRAFORM,
        (_tf("apply", _APPROVED | _ANSWERED | Test(_saved_plan)) | (_tf("apply|up|apply-all") & _APPROVED)) & ~_HELP,
        "changes infrastructure without asking",
        yes=(
            "terraform apply -auto-approve",
            "terraform apply -auto-approve -var x=1",
            "terragrunt run-all apply --terragrunt-non-interactive",
            "terraform apply p.out",
            "yes | terraform apply",
        ),
        no=("terraform plan -out p", "terraform apply", "terraform apply -var x=1", "terraform init"),
    ),
    rule(
        "iac.state",
        "ask",
        _TERRAFORM,
        _tf("state rm|push|replace-provider")
        | _tf("force-unlock|taint")
        | terraform("workspace delete")
        | _tf("init", word(r"--?migrate-state|--?force-copy") & word(r"--?force-copy")),
        "changes the recorded state of the infrastructure",
        yes=(
            "terraform state rm aws_instance.web",
            "terraform force-unlock -force id",
            "terraform workspace delete prod",
            "tofu taint x.y",
        ),
        no=("terraform state list", "terraform workspace list", "terraform state show x.y", "terraform untaint x.y"),
    ),
    rule(
        "iac.destroy",
        "ask",
        "pulumi",
        (
            pulumi("destroy|down", ~opt("--preview-only"))
            | pulumi("up|update|refresh", opt("-y --yes") | opt("-f --skip-preview"))
            | pulumi("stack|env|state|org|deployment", operand("rm|delete|unprotect|cancel", at=0))
            | pulumi("cancel")
        )
        & ~_HELP,
        "destroys or changes infrastructure",
        yes=("pulumi destroy -y", "pulumi -C infra up --yes", "pulumi stack rm prod --force", "pulumi state delete urn"),
        no=("pulumi preview", "pulumi up", "pulumi stack ls", "pulumi config rm key", "pulumi plugin rm x"),
    ),
    rule(
        "iac.destroy",
        "ask",
        "cdk cdktf sam serverless sls sst copilot chalice zappa up apex claudia architect arc eb"
        " amplify terraspace cfn-cli sceptre stacker runway",
        (
            Program("-a --app -c --context --profile --stack --stage -s --region -r")(
                "destroy|delete|remove|undeploy|rm|terminate"
            )
            | Program()("deploy", text(r"--require-approval[= ]never|--auto-approve|--no-confirm-changeset"))
            | Program()("app|env|svc|job|pipeline|task", operand("delete|rm", at=0))
            | Program()("stack|logs", operand("delete|destroy", at=0))
        )
        & ~_HELP,
        "destroys or changes infrastructure",
        yes=(
            "cdk destroy --all --force",
            "sam delete --no-prompts",
            "serverless remove --stage prod",
            "sls remove",
            "cdk deploy --require-approval never",
            "copilot app delete",
        ),
        no=("cdk diff", "cdk synth", "sam build", "serverless deploy", "cdk deploy", "sls info"),
    ),
    rule(
        "iac.destroy",
        "ask",
        "npx bunx pnpx yarn pnpm",
        text(
            r"(?:^| )(?:aws-)?(?:cdk|cdktf|serverless|sls|sst|wrangler|vercel|netlify"
            r"|firebase)(?:@\S+)? (?:.* )?(?:destroy|remove|undeploy|delete|sites:delete|firestore:delete)(?: |$)"
            r"|(?:^| )cdk(?:tf)? deploy\b.*(?:--require-approval[= ]never|--auto-approve)"
        ),
        "destroys or changes infrastructure",
        yes=("npx cdk destroy --force", "npx serverless remove", "npx cdk deploy --require-approval never"),
        no=("npx cdk diff", "npx serverless deploy", "yarn remove lodash", "pnpm remove vercel"),
    ),
    rule(
        "iac.destroy",
        "ask",
        "ansible ansible-console",
        ~opt("-C --check --list-hosts --syntax-check")
        & (
            value(
                "-m --module-name",
                r"(?:ansible\.\w+\.)?(?:file|service|systemd|reboot|user|apt|yum|dnf|docker_container"
                r"|docker_volume|lvol|filesystem|parted|mysql_db|postgresql_db)",
            )
            & text(r"state=(?:absent|stopped)|enabled=(?:no|false)|-m \S*reboot")
            | value("-m --module-name", r"(?:ansible\.\w+\.)?reboot")
            | value(
                "-a --args",
                r"(?:.*[;&|\s/])?(?:rm\s+-\w*[rf]|mkfs|dd\s|shutdown|reboot|poweroff|halt"
                r"|systemctl\s+(?:stop|disable|mask)|pkill|killall|userdel)\b.*",
            )
        ),
        "destroys or stops things on many machines",
        yes=(
            "ansible all -m file -a 'path=/srv/x state=absent'",
            "ansible web -b -a 'reboot'",
            "ansible all -m shell -a 'rm -rf /srv/x'",
            "ansible web -m service -a 'name=nginx state=stopped'",
        ),
        no=("ansible all -m ping", "ansible web -a uptime", "ansible all --check -m file -a 'path=/x state=absent'"),
    ),
    rule(
        "iac.destroy",
        "ask",
        "ansible-playbook",
        ~opt("-C --check --list-tasks --list-hosts --list-tags --syntax-check")
        & text(
            r"(?:^|[ /_-])(?:destroy|teardown|tear-down|uninstall|remove|delete|decommission|wipe"
            r"|cleanup|reset)[\w-]*\.ya?ml|state=absent"
        ),
        "runs a playbook that removes or stops something",
        yes=("ansible-playbook teardown.yml", "ansible-playbook site.yml -e state=absent"),
        no=("ansible-playbook x.yml --check", "ansible-playbook site.yml", "ansible-playbook --check destroy.yml"),
    ),
    rule(
        "iac.destroy",
        "ask",
        "salt salt-call salt-ssh puppet knife chef-client mco bolt",
        text(
            r"\b(?:service\.(?:stop|disable|mask)|system\.(?:reboot|shutdown|poweroff|halt|init)"
            r"|pkg\.(?:remove|purge)|file\.remove|user\.delete|ps\.p?kill\w*|disk\.wipe|cmd\.run"
            r" ['\"]?(?:rm|shutdown|reboot|dd|mkfs)\b)"
        )
        | (word("node|client|environment|role|cookbook|data|server|node_purge") & word("delete|purge|destroy|clean|bulk"))
        | text(r"\b(?:cert|ca) (?:clean|destroy)\b|resource \w+ \S+ ensure=(?:absent|stopped)|--destroy"),
        "destroys or stops things on many machines",
        yes=(
            "salt '*' service.stop nginx",
            "knife node delete web -y",
            "puppet resource service nginx ensure=stopped",
            "salt '*' system.reboot",
        ),
        no=("salt '*' test.ping", "knife node list", "puppet agent --test --noop", "salt '*' service.status nginx"),
    ),
    rule(
        "iac.destroy",
        "ask",
        "packer",
        Program()("build", word("--?force")),
        "replaces existing images",
        yes="packer build -force image.pkr.hcl",
        no=("packer build image.pkr.hcl", "packer validate x"),
    ),
    rule(
        "secrets.destroy",
        "ask",
        "vault bao openbao",
        Program("-address -namespace -ca-cert -format")("delete|seal")
        | Program()(
            "kv|secrets|auth|policy|audit|namespace|lease|token|plugin|operator",
            operand("delete|destroy|disable|revoke|metadata|deregister|seal|rekey|remove-peer", at=0)
            & ~text(r"^metadata (?:get|put|patch|list)"),
        )
        | Program()("operator raft", operand("remove-peer"))
        | Program()("operator", operand("generate-root", at=0) & ~opt("-status")),
        "deletes secrets or removes access",
        yes=(
            "vault kv delete secret/app",
            "vault kv metadata delete secret/app",
            "vault secrets disable kv",
            "vault operator seal",
            "vault token revoke x",
            "vault kv destroy -versions=1 secret/app",
        ),
        no=("vault kv get secret/app", "vault status", "vault kv put secret/app delete=1", "vault kv list secret/"),
    ),
    rule(
        "iac.destroy",
        "ask",
        "nomad levant",
        Program("-address -namespace -region -token")("stop", operand(".+"))
        | Program("-address -namespace -region -token")(
            "job|alloc|volume|namespace|node|server|acl|system|operator|var|quota|sentinel|deployment",
            operand("stop|delete|purge|deregister|detach|force-leave|gc|drain|remove-peer|fail|token", at=0)
            & ~text("^token (?:list|info|self|create|read)|^drain.*-disable"),
        )
        | Program()("acl token|policy|role delete"),
        "stops or deletes jobs of a cluster",
        yes=(
            "nomad job stop -purge web",
            "nomad stop web",
            "nomad volume delete v",
            "nomad node drain -enable -yes n1",
            "nomad system gc",
        ),
        no=("nomad status", "nomad job run web.nomad", "nomad job plan web.nomad", "nomad node status"),
    ),
    rule(
        "nosql.destroy",
        "ask",
        "consul",
        consul("kv delete")
        | consul("leave|force-leave")
        | consul("operator raft", operand("remove-peer"))
        | consul("acl", operand("delete"))
        | consul(
            "config|peering|namespace|partition|services|snapshot|intention|resource", operand("delete|deregister|restore", at=0)
        )
        | consul("maint", word("-enable")),
        "deletes keys, services or members of a cluster",
        at=consul.at("kv delete", first_operand),
        yes=("consul kv delete -recurse app/", "consul leave", "consul force-leave n1", "consul snapshot restore b.snap"),
        no=("consul kv get app", "consul members", "consul kv put delete x", "consul snapshot save b.snap"),
    ),
    rule(
        "iac.destroy",
        "ask",
        "juju charmcraft maas",
        Program("-m -c --model --controller")(
            r"destroy-model|destroy-controller|kill-controller|remove-application|remove-machine"
            r"|remove-unit|remove-storage|remove-cloud|destroy-environment"
        )
        | (Test(lambda view: view.name == "maas") & word("delete|release|power-off|destroy")),
        "destroys models or machines",
        yes=("juju destroy-model prod -y", "juju remove-application web --force"),
        no=("juju status", "juju deploy web"),
    ),
    rule(
        "iac.destroy",
        "ask",
        "spacectl tfe tfc atlantis env0",
        Program()("stack|workspace|run", operand("delete|destroy|discard", at=0)),
        "destroys infrastructure",
        yes="spacectl stack delete --id x",
        no="spacectl stack list",
    ),
    rule(
        "iac.destroy",
        "ask",
        "cap kamal capistrano",
        Program("-d --destination -c --config-file")("remove")
        | Program()("app|proxy|accessory|traefik|registry", operand("remove|stop", at=0)),
        "removes a deployment",
        yes=("kamal remove -y", "kamal accessory remove db"),
        no=("kamal deploy", "kamal app logs"),
    ),
)
