"""What the proofs of the spot controller share: a stock control plane, machines that go, and who looks on.

The controller calls the API as a service account that has the rights of docs/howto/use-spot-machines.md and no others.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml
from tests.stock.audits import Audit
from tests.stock.clusters import EVENTS, NODES, PODS, Cluster

from rota.api import errors, meta, times
from rota.client import client_factory, kubeconfig
from rota.client.informers.cache import Key
from rota.client.informers.informer import Informer
from rota.client.informers.reflector import Source
from rota.client.verbs import Client, Object
from rota.kit import system, tasks
from rota.scheduler.plugin_registry import builtin, configuration_source, third_party
from rota.spot import return_policy
from rota.spot.node_signals import TERMINATES_AT, TERMINATING
from rota.spot_control.controller import SpotController
from rota.testing import manifests
from rota.testing.servers.kubernetes import ControllerManager, Scheduler, StockApiServer, write_kubeconfig

CAPACITY: Final = "node.kubernetes.io/capacity"
DEPLOYMENTS: Final = ("apps", "v1", "deployments")
BUDGETS: Final = ("policy", "v1", "poddisruptionbudgets")
PRIORITIES: Final = ("scheduling.k8s.io", "v1", "priorityclasses")
ACCOUNTS: Final = ("", "v1", "serviceaccounts")
ROLES: Final = ("rbac.authorization.k8s.io", "v1", "clusterroles")
ROLE_BINDINGS: Final = ("rbac.authorization.k8s.io", "v1", "clusterrolebindings")
#: Who the controller is.
ACCOUNT: Final = "rota-spot-controller"
USER: Final = f"system:serviceaccount:kube-system:{ACCOUNT}"
_CONTROLLERS: Final = ",".join(
    f"{name}-controller" for name in ("deployment", "replicaset", "disruption", "garbage-collector", "namespace")
)
_LOOK: Final = ["get", "list", "watch"]
RULES: Final[Sequence[Mapping[str, Any]]] = (
    {"apiGroups": [""], "resources": ["nodes"], "verbs": [*_LOOK, "patch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": [*_LOOK, "create", "delete"]},
    {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
    {
        "apiGroups": ["", "apps", "policy", "scheduling.k8s.io", "storage.k8s.io"],
        "resources": [
            *("namespaces", "services", "replicationcontrollers", "persistentvolumes", "persistentvolumeclaims"),
            *("replicasets", "statefulsets", "poddisruptionbudgets", "priorityclasses"),
            *("storageclasses", "csinodes", "csidrivers", "csistoragecapacities", "volumeattachments"),
        ],
        "verbs": _LOOK,
    },
    {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch", "update"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update", "patch"]},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plane:
    """A stock control plane at work."""

    server: StockApiServer
    manager: ControllerManager
    audit: Audit

    def kubeconfig(self, token: str, path: Path, *, port: int = 0) -> Path:
        """A kubeconfig for somebody with a token, perhaps by another way than the straight one."""
        url = f"https://127.0.0.1:{port}" if port else self.server.url
        return write_kubeconfig(path, server=url, token=token, certificate=self.server.certificate)


@contextlib.contextmanager
def plane(folder: Path, *, scheduler: bool = True) -> Iterator[Plane]:
    """Stock programs: an API server that takes evictions down, controllers, and by default a scheduler."""
    audit = Audit(folder)
    with contextlib.ExitStack() as parts:
        flags = {"disable_admission_plugins": "ServiceAccount,TaintNodesByCondition", **audit.flags}
        server = parts.enter_context(StockApiServer(**flags))
        manager = parts.enter_context(ControllerManager(server.kubeconfig(), controllers=_CONTROLLERS))
        if scheduler:
            parts.enter_context(Scheduler(server.kubeconfig("system:kube-scheduler"), lease_s=90))
        yield Plane(server=server, manager=manager, audit=audit)


async def admit(client: Client) -> Object:
    """Make the controller's account and give it its rights; the account."""
    with contextlib.suppress(errors.AlreadyExists):
        await client.create(ACCOUNTS, {"metadata": {"name": ACCOUNT}}, namespace="kube-system")
    with contextlib.suppress(errors.AlreadyExists):
        await client.create(ROLES, {"metadata": {"name": ACCOUNT}, "rules": list(RULES)})
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": "kube-system"}
    role = {"apiGroup": ROLES[0], "kind": "ClusterRole", "name": ACCOUNT}
    with contextlib.suppress(errors.AlreadyExists):
        await client.create(ROLE_BINDINGS, {"metadata": {"name": ACCOUNT}, "subjects": [subject], "roleRef": role})
    return await client.get(ACCOUNTS, ACCOUNT, namespace="kube-system")


async def token(client: Client) -> str:
    """A token of the controller's account."""
    await admit(client)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    answer = await client.create(ACCOUNTS, request, name=ACCOUNT, namespace="kube-system", subresource="token")
    return str(answer["status"]["token"])


@contextlib.asynccontextmanager
async def controlling(
    config: Path, *, back: return_policy.Settings = return_policy.USUAL
) -> AsyncIterator[SpotController]:
    """A spot controller at work, in this process."""
    clock, rng = system.SystemClock(), system.rng()
    endpoint = kubeconfig.load(config, clock=clock)
    async with (
        client_factory.to_server(endpoint, clock=clock, rng=rng) as client,
        tasks.Supervisor("spot", clock=clock, rng=rng) as parts,
    ):
        profiles = configuration_source.frameworks(third_party.default(builtin.registry()))
        controller = SpotController(client, profiles, clock=clock, rng=rng, back=back)
        parts.start("controller", controller.run)
        yield controller


class Onlooker:
    """Sees every change of the pods of a namespace: where each is, and how few of an app ever served at once."""

    def __init__(self, client: Client, namespace: str) -> None:
        clock, rng = system.SystemClock(), system.rng()
        self._clock: Final = clock
        source = Source(client=client, target=PODS, namespace=namespace)
        self._pods: Final = Informer[Object](source, decode=msgspec.json.decode, clock=clock, rng=rng)
        self._parts: Final = tasks.Supervisor("onlooker", clock=clock, rng=rng)
        self._serving: Final[Counter[str]] = Counter()
        #: Of each app since `reset`.
        self.fewest: Final[dict[str, int]] = {}
        #: The node of every pod that ever had one, by uid.
        self.nodes: Final[dict[str, str]] = {}

    @contextlib.asynccontextmanager
    async def looking(self) -> AsyncIterator["Onlooker"]:
        """While it looks."""
        self._pods.add_handler(self._changed)
        async with self._parts as parts:
            parts.start("pods", self._pods.run)
            await self._pods.wait_synced()
            yield self

    def reset(self) -> None:
        """Begin to count anew."""
        self.fewest.clear()
        self.fewest.update(self._serving)

    def on(self, *names: str) -> list[Object]:
        """Pods on these nodes, going or not."""
        return [pod for pod in self._pods.cache.values() if pod["spec"].get("nodeName") in names]

    def serving(self, app: str) -> int:
        """How many serve now."""
        return self._serving[app]

    def _changed(self, _: Key, old: Object | None, new: Object | None) -> None:
        for pod, step in ((old, -1), (new, 1)):
            if pod is not None and _serves(pod):
                self._serving[_app(pod)] += step
        if new is not None and (node := new["spec"].get("nodeName")):
            self.nodes[new["metadata"]["uid"]] = node
        for app, count in self._serving.items():
            self.fewest[app] = min(self.fewest.get(app, count), count)


def machine(name: str, capacity: str = "spot", *, cores: int = 4) -> manifests.Document:
    """A node."""
    made = manifests.node(name, **{CAPACITY: capacity})
    made["status"]["allocatable"] = {**made["status"]["allocatable"], "cpu": str(cores)}
    return made


#: The brief's affinity and priority, as they stand there.
_SHOP: Final = """
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
spec:
  replicas: {replicas}
  selector:
    matchLabels: {{app: {name}}}
  template:
    metadata:
      labels: {{app: {name}}}
    spec:
      terminationGracePeriodSeconds: {grace}
      affinity:
        nodeAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
          - weight: 1
            preference:
              matchExpressions:
              - key: node.kubernetes.io/capacity
                operator: In
                values:
                - spot
      containers:
      - name: main
        image: app:1
        resources: {{requests: {{cpu: "{cores}"}}}}
"""
HIGH: Final = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata:
  name: high-priority
value: 1000
globalDefault: false
description: "This priority class is for critical workloads."
"""


def deployment(name: str, replicas: int, *, grace_s: int = 5, cores: int = 1, **spec: Any) -> Object:
    """A workload that prefers spot machines."""
    made: Object = yaml.safe_load(_SHOP.format(name=name, replicas=replicas, grace=grace_s, cores=cores))
    made["spec"]["template"]["spec"].update(spec)
    return made


async def high_priority(client: Client) -> None:
    """The priority class of the brief."""
    with contextlib.suppress(errors.AlreadyExists):
        await client.create(PRIORITIES, yaml.safe_load(HIGH))


async def deployed(it: Cluster, onlooker: Onlooker, *made: Object, patience_s: float = 60.0) -> None:
    """Create workloads, and wait until all their pods serve."""
    await it.create(DEPLOYMENTS, *made)

    async def serve() -> bool:
        return all(onlooker.serving(meta.name(one)) == one["spec"]["replicas"] for one in made)

    await it.until(serve, "all pods serve", patience_s=patience_s)


async def budgeted(it: Cluster, name: str, least: int, **match: str) -> None:
    """A budget that the disruption controller has counted."""
    await it.create(BUDGETS, manifests.budget(name, min_available=least, **match))

    async def counted() -> bool:
        found = await it.get(BUDGETS, name)
        return bool((found.get("status") or {}).get("observedGeneration") == found["metadata"]["generation"])

    await it.until(counted, f"the budget {name} is counted")


async def notice(client: Client, *names: str, lead_s: float = 120.0) -> float:
    """Write notices, as a cloud's handler would; when the machines go."""
    now = system.SystemClock().now()
    taint = {"key": TERMINATING, "effect": "NoSchedule", "timeAdded": times.format_time(now)}
    until = {TERMINATES_AT: times.format_time(now + lead_s)}
    patch = {"metadata": {"annotations": until}, "spec": {"taints": [taint]}}
    await asyncio.gather(*(client.patch(NODES, name, patch) for name in names))
    return now + lead_s


async def empty(it: Cluster, onlooker: Onlooker, *names: str, patience_s: float = 60.0) -> None:
    """Wait until no pod is on these nodes."""

    async def gone() -> bool:
        return not onlooker.on(*names)

    await it.until(gone, f"{len(names)} nodes are empty", patience_s=patience_s)


async def reasons(it: Cluster, about: str = "") -> Counter[str]:
    """How often each reason of the controller's was given, about pods and nodes whose names begin so."""
    found = Counter[str]()
    for namespace in (it.namespace, "default"):
        for one in (await it.client.list(EVENTS, namespace=namespace)).items:
            if one["reason"].startswith("Spot") and one["involvedObject"]["name"].startswith(about):
                found[one["reason"]] += one.get("count") or 1
    return found


def _app(pod: Object) -> str:
    return str((pod["metadata"].get("labels") or {}).get("app") or "")


def _serves(pod: Object) -> bool:
    return not meta.is_deleting(pod) and meta.is_condition_true(pod, "Ready")
