"""The list of operators: module, version, and the edits of their manifests with the reasons."""

from collections.abc import Mapping

import msgspec

from devcluster.errors import DevclusterError
from devcluster.operators.program import TOOLS_IMAGE, Program

Json = Mapping[str, object]


class Edit(msgspec.Struct, frozen=True):
    """An edit of a file in an operator's module, such as an administrator would make: `old` becomes `new`."""

    file: str
    old: str
    new: str


class Operator(msgspec.Struct, frozen=True, kw_only=True):
    """An operator and its pinned version.

    Args:
        manifests: kustomize folders or files of the module.
        without: objects that are left out (``Kind/name``).
        args, env: additions to its container.
        extra: additional objects.
        certificate: ``(secret, service)``, if the operator does not make its own certificate.
        needs: operators that must be installed before it.
        clashes: operators that must not be installed with it.
    """

    name: str
    module: str
    version: str
    programs: tuple[Program, ...]
    manifests: tuple[str, ...]
    edits: tuple[Edit, ...] = ()
    without: frozenset[str] = frozenset()
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    extra: tuple[Json, ...] = ()
    certificate: tuple[str, str] | None = None
    replaces: tuple[str, ...] = ()
    go_env: Mapping[str, str] = {}
    needs: tuple[str, ...] = ()
    clashes: tuple[str, ...] = ()


JOBSET = Operator(
    name="jobset",
    module="sigs.k8s.io/jobset",
    version="0.10.1",
    programs=(Program("", "us-central1-docker.pkg.dev/k8s-staging-images/jobset/jobset", "/manager"),),
    manifests=("config/default",),
)
LWS = Operator(
    name="lws",
    module="sigs.k8s.io/lws",
    version="0.7.0",
    programs=(Program("cmd", "us-central1-docker.pkg.dev/k8s-staging-images/lws/lws", "/manager"),),
    manifests=("config/default",),
)
TRAINING_OPERATOR = Operator(
    name="training-operator",
    module="github.com/kubeflow/training-operator",
    version="1.8.1",
    programs=(Program("cmd/training-operator.v1", "kubeflow/training-operator", "/manager"),),
    manifests=("manifests/overlays/standalone",),
    # The images that it puts into pods itself: one waits for the master, and one copies kubectl for MPIJob v1.
    args=(f"--pytorch-init-container-image={TOOLS_IMAGE}", f"--mpi-kubectl-delivery-image={TOOLS_IMAGE}"),
    clashes=("mpi-operator",),
)
MPI_OPERATOR = Operator(
    name="mpi-operator",
    module="github.com/kubeflow/mpi-operator",
    version="0.6.0",
    programs=(Program("cmd/mpi-operator", "mpioperator/mpi-operator", "/opt/mpi-operator"),),
    manifests=("manifests/overlays/standalone",),
    clashes=("training-operator",),
)
KUBERAY = Operator(
    name="kuberay",
    module="github.com/ray-project/kuberay/ray-operator",
    version="1.4.2",
    programs=(Program("", "quay.io/kuberay/operator", "/manager"),),
    manifests=("config/default",),
    edits=(Edit("config/default/kustomization.yaml", "namespace: default", "namespace: ray-system"),),
    # The injected init container and probes run `ray`, which the tests' image does not have.
    env={"ENABLE_INIT_CONTAINER_INJECTION": "false", "ENABLE_PROBES_INJECTION": "false"},
    extra=({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ray-system"}},),
)
KUEUE = Operator(
    name="kueue",
    module="sigs.k8s.io/kueue",
    version="0.14.0",
    programs=(Program("cmd/kueue", "us-central1-docker.pkg.dev/k8s-staging-images/kueue/kueue", "/manager"),),
    manifests=("config/default",),
    edits=tuple(
        Edit("config/components/manager/controller_manager_config.yaml", f'#  - "{kind}"', f'  - "{kind}"')
        for kind in ("pod", "deployment", "statefulset")
    ),
    # An aggregated API, for which the apiserver would need a front proxy's certificate authority.
    without=frozenset({"APIService/v1beta1.visibility.kueue.x-k8s.io"}),
    args=("--feature-gates=VisibilityOnDemand=false",),
)
TRAINER = Operator(
    name="trainer",
    module="github.com/kubeflow/trainer/v2",
    version="2.0.0",
    programs=(
        Program("cmd/trainer-controller-manager", "ghcr.io/kubeflow/trainer/trainer-controller-manager", "/manager"),
    ),
    manifests=("manifests/overlays/manager",),
    # Its own words: "Comment this line if JobSet is installed on the Kubernetes cluster."
    edits=(Edit("manifests/overlays/manager/kustomization.yaml", "- ../../third-party/jobset", "#"),),
    needs=("jobset",),
)
_OTLP = "go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
VOLCANO = Operator(
    name="volcano",
    module="volcano.sh/volcano",
    version="1.14.1",
    programs=(
        Program("cmd/controller-manager", "docker.io/volcanosh/vc-controller-manager", "/vc-controller-manager"),
        Program("cmd/webhook-manager", "docker.io/volcanosh/vc-webhook-manager", "/vc-webhook-manager"),
    ),
    manifests=("installer/volcano-development.yaml",),
    # Slurm takes the place of its scheduler; admission-init would make the certificate in a shell.
    without=frozenset(
        {
            "Deployment/volcano-scheduler",
            "Service/volcano-scheduler-service",
            "Job/volcano-admission-init",
            "Namespace/volcano-monitoring",
        }
    ),
    certificate=("volcano-admission-secret", "volcano-admission-service"),
    replaces=(
        "cloud.google.com/go => cloud.google.com/go v0.100.2",
        f"{_OTLP} => {_OTLP} v1.19.0",
        "google.golang.org/grpc => google.golang.org/grpc v1.64.0",
        *(
            f"k8s.io/{each} => k8s.io/{each} v0.34.1"
            for each in (
                *("api", "apiextensions-apiserver", "apimachinery", "apiserver", "cli-runtime", "client-go"),
                *("cloud-provider", "cluster-bootstrap", "code-generator", "component-base", "component-helpers"),
                *("controller-manager", "cri-api", "cri-client", "csi-translation-lib"),
                *("dynamic-resource-allocation", "endpointslice", "externaljwt", "kube-aggregator"),
                *("kube-controller-manager", "kube-proxy", "kube-scheduler", "kubectl", "kubelet", "metrics"),
                *("mount-utils", "pod-security-admission", "sample-apiserver"),
            )
        ),
        "volcano.sh/apis => volcano.sh/apis v1.14.0",
    ),
)
PADDLE_OPERATOR = Operator(
    name="paddle-operator",
    module="github.com/paddleflow/paddle-operator",
    version="0.3.5",
    programs=(Program("", "registry.baidubce.com/paddlecloud/controller", "/manager"),),
    manifests=("config/default",),
    args=(f"--initImage={TOOLS_IMAGE}",),
    # Never entered into the checksum database.
    go_env={"GONOSUMDB": "github.com/paddleflow/*"},
)
ARGO_WORKFLOWS = Operator(
    name="argo-workflows",
    module="github.com/argoproj/argo-workflows/v3",
    version="3.7.4",
    programs=(Program("cmd/workflow-controller", "quay.io/argoproj/workflow-controller", "/bin/workflow-controller"),),
    manifests=("manifests/cluster-install",),
    without=frozenset({"Deployment/argo-server", "Service/argo-server"}),
    # Its executor does not build: the module lacks signal_linux.go. So steps get their pods, but do not finish.
    args=(f"--executor-image={TOOLS_IMAGE}", "--executor-image-pull-policy=IfNotPresent"),
    extra=(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "argo"}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "argo-jobset", "namespace": "argo"}},
        # Argo's users grant the rights of a step's pod per namespace; here all ServiceAccounts have them.
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "argo-executor"},
            "rules": [
                {"apiGroups": ["argoproj.io"], "resources": ["workflowtaskresults"], "verbs": ["create", "patch"]},
                {
                    "apiGroups": ["jobset.x-k8s.io"],
                    "resources": ["jobsets"],
                    "verbs": ["create", "get", "list", "watch"],
                },
            ],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "argo-executor"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "argo-executor"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:serviceaccounts"}],
        },
    ),
    replaces=("github.com/olekukonko/tablewriter => github.com/olekukonko/tablewriter v0.0.5",),
)
SCHEDULER_PLUGINS = Operator(
    name="scheduler-plugins",
    module="sigs.k8s.io/scheduler-plugins",
    version="0.31.8",
    # Only the kind PodGroup is installed: Slurm takes the place of its scheduler.
    programs=(),
    manifests=("config/crd/bases/scheduling.x-k8s.io_podgroups.yaml",),
)

OPERATORS = (
    JOBSET,
    LWS,
    TRAINING_OPERATOR,
    MPI_OPERATOR,
    KUBERAY,
    KUEUE,
    TRAINER,
    VOLCANO,
    PADDLE_OPERATOR,
    ARGO_WORKFLOWS,
    SCHEDULER_PLUGINS,
)


def select(names: tuple[str, ...]) -> list[Operator]:
    """Return the operators with these names and the operators that they need, in the order of installation.

    Raises:
        DevclusterError: a name is unknown, or two of them cannot be on one cluster.
    """
    known = {each.name: each for each in OPERATORS}
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise DevclusterError(f"no operator {', '.join(unknown)}; there are {', '.join(known)}")
    wanted = {*names, *(need for name in names for need in known[name].needs)}
    for name in sorted(wanted):
        clash = wanted & set(known[name].clashes)
        if clash:
            raise DevclusterError(
                f"{name} and {', '.join(clash)} own the same CRD: install one, remove it, then the other"
            )
    return [each for each in OPERATORS if each.name in wanted]
