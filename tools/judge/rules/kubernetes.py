"""Rules: Kubernetes, its clusters, and the tools that deploy to them."""

from __future__ import annotations

from tools.judge.rules._program import Program, joined
from tools.judge.table import ActView, Test, first_operand, operand, opt, rule, text, value, word

_KUBECTL = "kubectl oc kubecolor k3s microk8s minikube-kubectl"
_KUBECTL_VALUED = (
    "-n --namespace --context --cluster --user --kubeconfig -s --server --token --as --as-group"
    " --as-uid --cache-dir --certificate-authority"
    " --client-certificate --client-key --profile --profile-output --request-timeout"
    " --tls-server-name -v --v --vmodule --username --password"
)
_PLAIN = Program(_KUBECTL_VALUED)
_PREFIXED = Program(_KUBECTL_VALUED)
_REST = frozenset(
    (
        *_KUBECTL_VALUED.split(),
        "-f",
        "--filename",
        "-k",
        "--kustomize",
        "-l",
        "--selector",
        "--field-selector",
        "--grace-period",
        "--timeout",
        "-o",
    )
)
_HARMLESS = word(r"-h|--help|help|--dry-run(?:=(?:client|server|true))?")
"""Test for an option or word that keeps the program from changing anything, such as ``--dry-run=server``."""


def kubectl(path: str, test: Test | None = None) -> Test:
    """Return a test for a subcommand of kubectl, also as ``k3s kubectl`` and ``microk8s kubectl``."""
    wanted = _PLAIN(path) if test is None else _PLAIN(path, test)
    inner = _PREFIXED(f"kubectl {path}") if test is None else _PREFIXED(f"kubectl {path}", test)
    return wanted | inner


def _deleted(view: ActView) -> str:
    """Return ``deployment/web`` for ``delete deployment web``, ``file/x.yaml`` for ``delete -f x.yaml``."""
    files = [f"file/{one.text}" for one in view.values(frozenset(("-f", "--filename", "-k", "--kustomize")))]
    return "/".join(one.text for one in view.operands(_REST)[:2]) or "".join(files[:1])


def _delete_at(view: ActView) -> str:
    return _PLAIN.at("delete", _deleted)(view) or _PREFIXED.at("kubectl delete", _deleted)(view)


helm = Program(
    _KUBECTL_VALUED
    + " --kube-context --registry-config --repository-config --repository-cache --burst-limit -f --file -e --environment -l"
)
_PRIVILEGED = text(
    r"['\"]?(?:privileged|hostPID|hostNetwork|hostIPC)['\"]?\s*[:=]\s*['\"]?true"
    r"|['\"]hostPath['\"]\s*:|--privileged(?:[= ]|$)(?!false)"
)

RULES = (
    rule(
        "k8s.delete",
        "ask",
        _KUBECTL,
        kubectl("delete") & ~_HARMLESS,
        "deletes objects of a cluster",
        at=_delete_at,
        yes=(
            "kubectl delete deployment web",
            "kubectl -n prod delete pods --all",
            "kubectl --context=prod delete -f k8s/",
            "kubectl delete deploy/web --dry-run=none",
            "k3s kubectl delete ns x",
            "oc delete project shop",
        ),
        no=(
            "kubectl delete deploy web --dry-run=server",
            "kubectl delete -h",
            "kubectl get pods",
            "kubectl describe ns delete",
            "kubectl auth can-i delete pods",
            "kubectl wait --for=delete pod/x",
            "kubectl config delete-context old",
        ),
    ),
    rule(
        "k8s.stop",
        "ask",
        _KUBECTL,
        (
            kubectl("scale", value("--replicas", "0"))
            | kubectl("drain")
            | kubectl("taint", operand(r".*:NoExecute"))
            | kubectl("rollout pause")
            | kubectl("adm drain")
            | kubectl("idle")
            | kubectl("patch", text(r"['\"]?replicas['\"]?\s*:\s*0\b"))
        )
        & ~_HARMLESS,
        "stops workloads of a cluster",
        at=lambda view: _PLAIN.at("scale|drain", first_operand)(view),
        yes=(
            "kubectl scale --replicas=0 deployment/web",
            "kubectl scale deploy web --replicas 0",
            "kubectl drain node-1 --force",
            "kubectl taint nodes n1 k=v:NoExecute",
        ),
        no=("kubectl scale --replicas=3 deployment/web", "kubectl uncordon node-1", "kubectl rollout status deploy/web"),
    ),
    rule(
        "k8s.replace",
        "ask",
        _KUBECTL,
        (
            kubectl("replace", opt("--force"))
            | kubectl("apply", opt("--prune"))
            | kubectl("adm prune|migrate")
            | kubectl("patch", text(r"finalizers['\"]?\s*:\s*(?:null|\[\s*\])|['\"]?op['\"]?\s*:\s*['\"]remove"))
        )
        & ~_HARMLESS,
        "deletes and recreates objects, or deletes them",
        yes=(
            "kubectl replace --force -f pod.yaml",
            "kubectl apply --prune -l app=x -f k8s/",
            'kubectl patch ns x -p \'{"metadata":{"finalizers":null}}\'',
        ),
        no=("kubectl replace -f pod.yaml", "kubectl apply -f k8s/", 'kubectl patch deploy x -p \'{"spec":{"replicas":2}}\''),
    ),
    rule(
        "k8s.rights",
        "ask",
        _KUBECTL,
        (
            kubectl(
                "create clusterrolebinding|rolebinding",
                text(r"cluster-admin|--clusterrole[= ]admin|system:(?:anonymous|unauthenticated)"),
            )
            | kubectl("create clusterrole", text(r"--verb[= ]'?\*|--resource[= ]'?\*"))
            | kubectl("adm policy", operand("cluster-admin|privileged|anyuid"))
            | kubectl("proxy", text(r"--address[= ]0\.0\.0\.0|--accept-hosts[= ]['\"^]*(?:\.\*|\*)|--disable-filter"))
        )
        & ~_HARMLESS,
        "gives rights over a cluster",
        yes=(
            "kubectl create clusterrolebinding x --clusterrole=cluster-admin --user=bob",
            "kubectl proxy --address=0.0.0.0 --accept-hosts='.*'",
        ),
        no=(
            "kubectl create deployment web --image=x",
            "kubectl create rolebinding r --clusterrole=view --user=bob",
            "kubectl proxy",
        ),
    ),
    rule(
        "k8s.host",
        "ask-once",
        _KUBECTL,
        (kubectl("run|create|set|patch", _PRIVILEGED) | kubectl("debug", operand(r"nodes?/.*") | text(r"--profile[= ]sysadmin")))
        & ~_HARMLESS,
        "gives a container access to the node that it runs on",
        yes=(
            "kubectl run x --image=alpine --privileged",
            "kubectl debug node/n1 -it --image=alpine",
            'kubectl run x --image=a --overrides=\'{"spec":{"hostPID":true}}\'',
        ),
        no=("kubectl run x --image=alpine", "kubectl debug pod/web -it --image=alpine"),
    ),
    rule(
        "k8s.uninstall",
        "ask",
        "helm helm3 helmfile werf",
        (
            helm("uninstall|delete|del|un|destroy|dismiss")
            | helm("rollback", opt("--force --recreate-pods"))
            | helm("upgrade", opt("--force") & opt("--recreate-pods"))
            | helm("apply|sync", text("--force-delete"))
        )
        & ~_HARMLESS,
        "uninstalls workloads of a cluster",
        at=lambda view: helm.at("uninstall|delete|del|un", first_operand)(view),
        yes=("helm uninstall ingress", "helm -n prod delete api --no-hooks", "helmfile -e prod destroy"),
        no=(
            "helm template .",
            "helm upgrade --install api ./chart",
            "helm uninstall api --dry-run",
            "helm repo remove stable",
            "helm list",
        ),
    ),
    rule(
        "k8s.delete",
        "ask",
        "argocd flux",
        (
            Program("-n --namespace --context --server --auth-token --kubeconfig --grpc-web-root-path")(
                "app|appset|cluster|repo|proj|account|repocreds|cert|gpg",
                operand("delete|rm|remove|delete-token|terminate-op|delete-resource", at=0),
            )
            | Program()("app rollback|sync", opt("--prune --force --replace"))
            | Program("-n --namespace --context --kubeconfig")("uninstall|delete|suspend")
        )
        & ~_HARMLESS,
        "deletes or stops the source that a cluster is synchronised with",
        yes=(
            "argocd app delete web",
            "argocd app sync web --prune",
            "flux uninstall",
            "flux delete kustomization apps",
            "flux -n x suspend kustomization a",
        ),
        no=(
            "argocd app list",
            "argocd app sync web",
            "argocd app sync web --dry-run --prune",
            "flux get all",
            "flux reconcile kustomization a",
        ),
    ),
    rule(
        "k8s.cluster-delete",
        "ask",
        "kind minikube k3d eksctl kops kubeadm k0s k0sctl microk8s rke rke2 talosctl clusterctl"
        " kubespray ctlptl rosa openshift-install vcluster velero",
        (
            Program(
                "-p --profile -v --v -n --nodes -e --endpoints --context --state --name --kubeconfig --talosconfig --log-level"
            )("delete|remove|reset|destroy|purge|uninstall|wipe")
            | Program("--name")(
                "cluster|node|nodegroup|registry|image|backup|schedule|restore|profile|snapshot",
                operand("delete|rm|remove|destroy", at=0),
            )
            | Program()("etcd", operand("remove-member", at=0))
        )
        & ~_HARMLESS,
        "deletes or resets a cluster",
        at=joined,
        yes=(
            "kind delete cluster --name dev",
            "minikube -p x delete --all --purge",
            "eksctl delete cluster --name=prod",
            "k3d cluster delete dev",
            "kubeadm reset -f",
            "talosctl -n 10.0.0.4 reset",
            "velero backup delete daily",
        ),
        no=(
            "kind get clusters",
            "minikube start",
            "eksctl get cluster",
            "k3d cluster list",
            "kubeadm token list",
            "minikube stop",
        ),
    ),
    rule(
        "k8s.cluster-delete",
        "ask",
        "k3s-uninstall.sh k3s-agent-uninstall.sh k3s-killall.sh rke2-uninstall.sh rke2-killall.sh",
        Test(lambda _view: True),
        "removes a cluster with all its contents",
        yes=("k3s-uninstall.sh", "/usr/local/bin/k3s-killall.sh"),
        no="which k3s-uninstall.sh",
    ),
    rule(
        "k8s.delete",
        "ask",
        "ko",
        Program()("delete") & ~_HARMLESS,
        "deletes workloads of a cluster",
        yes="ko delete -f app.yaml",
        no="ko apply -f app.yaml",
    ),
    rule(
        "k8s.delete",
        "ask",
        "istioctl cilium tkn kn argo dapr odo skaffold tilt telepresence",
        (
            Program("-n --namespace --context --kubeconfig -c")("uninstall|delete|purge|down")
            | word("--delete-namespaces")
            | Program("-n")("pipeline|pipelinerun|task|taskrun|service|revision|cluster", operand("delete", at=0))
        )
        & ~_HARMLESS,
        "deletes workloads of a cluster",
        yes=("istioctl uninstall --purge -y", "cilium uninstall", "skaffold delete", "tkn pipeline delete build -f"),
        no=("istioctl analyze", "cilium status", "skaffold dev"),
    ),
)
