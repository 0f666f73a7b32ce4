"""Clusters for tests: builders for single objects, and Hypothesis strategies for whole situations.

Strategies draw from few names and values on purpose, so that selectors match, ports clash and nodes fill up.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from rota.columns.cluster import Cluster
from rota.columns.pod_interner import PodInterner, read_node

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"

Document = dict[str, Any]

#: For laws about whole situations, which take a while to draw and to judge.
LAW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def make_node(name: str, *, labels: Mapping[str, str] | None = None, **allocatable: str) -> Document:
    """Build a node, by default of 4 cores, 16 GiB and 10 pods."""
    offered = {"cpu": "4", "memory": "16Gi", "pods": "10", **allocatable}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOSTNAME: name, **(labels or {})}},
        "spec": {},
        "status": {"allocatable": offered},
    }


def make_pod(
    name: str,
    *,
    on: str | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    cpu: str = "100m",
    **spec: Any,
) -> Document:
    """Build a pod of one container; `spec` adds to or replaces fields of its spec."""
    container = {"name": "c", "image": "app:1", "resources": {"requests": {"cpu": cpu, "memory": "200Mi"}}}
    document: Document = {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": dict(labels or {})},
        "spec": {"containers": [container], **spec},
        "status": {},
    }
    if annotations is not None:
        document["metadata"]["annotations"] = dict(annotations)
    if on is not None:
        document["spec"]["nodeName"] = on
    return document


def build(nodes: Sequence[Document], pods: Sequence[Document], interner: PodInterner) -> Cluster:
    """Build a cluster with two labelled namespaces."""
    cluster = Cluster()
    for name, team in (("default", "a"), ("other", "b")):
        cluster.catalog.put("Namespace", {"metadata": {"name": name, "labels": {"team": team}}})
    for node in nodes:
        cluster.set_node(read_node(node))
    for pod in pods:
        cluster.add_pod(interner.pod(pod))
    return cluster


# --- strategies -----------------------------------------------------------------------------------------------------

_APPS = st.sampled_from(["web", "db"])
_KEYS = st.sampled_from([HOSTNAME, ZONE, "rack"])
_EFFECTS = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])


def _optional(keys: Mapping[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Document]:
    return st.fixed_dictionaries({}, optional=dict(keys))


pod_labels = _optional({"app": _APPS, "tier": st.sampled_from(["front", "back"])})

label_selectors = st.one_of(
    st.none(),
    st.just({}),
    st.builds(lambda app: {"matchLabels": {"app": app}}, _APPS),
    st.builds(
        lambda operator, values: {
            "matchExpressions": [
                {"key": "tier", "operator": operator, **({"values": values} if operator in {"In", "NotIn"} else {})}
            ]
        },
        st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
        st.lists(st.sampled_from(["front", "back"]), min_size=1, max_size=2, unique=True),
    ),
)

affinity_terms = st.builds(
    lambda key, selector, extra: {"topologyKey": key, "labelSelector": selector, **extra},
    _KEYS,
    label_selectors,
    st.sampled_from(
        [
            {},
            {"namespaces": ["other"]},
            {"namespaceSelector": {}},
            {"namespaceSelector": {"matchLabels": {"team": "b"}}},
            {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}},
        ]
    ),
)


def _weighted(terms: st.SearchStrategy[Document]) -> st.SearchStrategy[Document]:
    return st.builds(lambda weight, term: {"weight": weight, "podAffinityTerm": term}, st.integers(1, 100), terms)


_pod_affinity = _optional(
    {
        "requiredDuringSchedulingIgnoredDuringExecution": st.lists(affinity_terms, min_size=1, max_size=2),
        "preferredDuringSchedulingIgnoredDuringExecution": st.lists(_weighted(affinity_terms), min_size=1, max_size=2),
    }
)

node_requirements = st.one_of(
    st.builds(
        lambda operator, values: {"key": "disk", "operator": operator, "values": values},
        st.sampled_from(["In", "NotIn"]),
        st.lists(st.sampled_from(["ssd", "hdd"]), min_size=1, max_size=2, unique=True),
    ),
    st.builds(lambda operator: {"key": ZONE, "operator": operator}, st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(
        lambda operator, bound: {"key": "cores", "operator": operator, "values": [str(bound)]},
        st.sampled_from(["Gt", "Lt"]),
        st.integers(1, 9),
    ),
)
_node_terms = st.one_of(
    st.builds(lambda each: {"matchExpressions": each}, st.lists(node_requirements, max_size=2)),
    st.builds(
        lambda operator, name: {"matchFields": [{"key": "metadata.name", "operator": operator, "values": [name]}]},
        st.sampled_from(["In", "NotIn"]),
        st.sampled_from(["n0", "n1", "n2"]),
    ),
)
_node_affinity = _optional(
    {
        "requiredDuringSchedulingIgnoredDuringExecution": st.builds(
            lambda terms: {"nodeSelectorTerms": terms}, st.lists(_node_terms, min_size=1, max_size=2)
        ),
        "preferredDuringSchedulingIgnoredDuringExecution": st.lists(
            st.builds(lambda weight, term: {"weight": weight, "preference": term}, st.integers(1, 100), _node_terms),
            max_size=2,
        ),
    }
)

spread_constraints = st.builds(
    lambda key, skew, action, selector, extra: {
        "topologyKey": key,
        "maxSkew": skew,
        "whenUnsatisfiable": action,
        "labelSelector": selector,
        **extra,
    },
    _KEYS,
    st.integers(1, 2),
    st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
    label_selectors,
    st.sampled_from(
        [
            {},
            {"minDomains": 3},
            {"nodeTaintsPolicy": "Honor"},
            {"nodeAffinityPolicy": "Ignore"},
            {"matchLabelKeys": ["tier"]},
        ]
    ),
)

tolerations = st.lists(
    _optional(
        {
            "key": st.sampled_from(["dedicated", "node.kubernetes.io/unschedulable"]),
            "operator": st.sampled_from(["Exists", "Equal"]),
            "value": st.sampled_from(["a", "b"]),
            "effect": _EFFECTS,
        }
    ),
    max_size=2,
)

_ports = st.builds(
    lambda port, ip: {"containerPort": 80, "hostPort": port, **({"hostIP": ip} if ip else {})},
    st.sampled_from([80, 81]),
    st.sampled_from(["", "0.0.0.0", "10.0.0.1", "10.0.0.2"]),  # noqa: S104 - an address in a manifest
)
_containers = st.builds(
    lambda image, requests, ports: {
        "name": "c",
        "image": image,
        "resources": {"requests": requests},
        **({"ports": ports} if ports else {}),
    },
    st.sampled_from(["app:1", "app", "db:2"]),
    _optional(
        {
            "cpu": st.sampled_from(["0", "100m", "500m", "1", "3"]),
            "memory": st.sampled_from(["0", "200Mi", "1Gi", "6Gi"]),
            "ephemeral-storage": st.just("1Gi"),
            "example.com/gpu": st.sampled_from(["1", "2"]),
        }
    ),
    st.lists(_ports, max_size=1),
)

_pod_specs = st.builds(
    lambda containers, fields: {"containers": containers, **fields},
    st.lists(_containers, min_size=1, max_size=2),
    _optional(
        {
            "priority": st.sampled_from([0, 10, 100]),
            "tolerations": tolerations,
            "nodeSelector": st.just({"disk": "ssd"}),
            "affinity": _optional(
                {"nodeAffinity": _node_affinity, "podAffinity": _pod_affinity, "podAntiAffinity": _pod_affinity}
            ),
            "topologySpreadConstraints": st.lists(spread_constraints, min_size=1, max_size=2),
        }
    ),
)


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Document:
    """Draw a node."""
    labels = draw(
        _optional(
            {
                HOSTNAME: st.just(name),
                ZONE: st.sampled_from(["z1", "z2"]),
                "rack": st.sampled_from(["r1", "r2", "r3"]),
                "disk": st.sampled_from(["ssd", "hdd"]),
                "cores": st.sampled_from(["2", "8", "many"]),
            }
        )
    )
    taints = st.builds(
        lambda value, effect: {"key": "dedicated", "value": value, "effect": effect},
        st.sampled_from(["a", "b"]),
        _EFFECTS,
    )
    allocatable = draw(
        st.fixed_dictionaries(
            {"cpu": st.sampled_from(["2", "4"]), "memory": st.sampled_from(["4Gi", "8Gi"])},
            optional={
                "pods": st.sampled_from(["2", "10"]),
                "ephemeral-storage": st.just("2Gi"),
                "example.com/gpu": st.just("2"),
            },
        )
    )
    image_sizes = draw(st.dictionaries(st.sampled_from(["app:1", "app:latest", "db:2"]), st.integers(0, 2**32)))
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "taints": draw(st.lists(taints, max_size=2)),
            "unschedulable": draw(st.sampled_from([False, False, False, True])),
        },
        "status": {
            "allocatable": allocatable,
            "images": [{"names": [image], "sizeBytes": size} for image, size in image_sizes.items()],
        },
    }


@st.composite
def pods(draw: st.DrawFn, name: str, on: Sequence[str] = ()) -> Document:
    """Draw a pod, placed on one of the given nodes if there are any."""
    spec = dict(draw(_pod_specs))
    metadata: Document = {
        "name": name,
        "namespace": draw(st.sampled_from(["default", "default", "other"])),
        "uid": f"uid-{name}",
        "labels": draw(pod_labels),
    }
    if on:
        spec["nodeName"] = draw(st.sampled_from(list(on)))
        if draw(st.integers(0, 9)) == 0:
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    started = draw(st.sampled_from([{}, {"startTime": "2026-01-01T00:00:01Z"}, {"startTime": "2026-01-01T00:00:02Z"}]))
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": started}


@st.composite
def situations(draw: st.DrawFn, *, most_nodes: int = 5, most_pods: int = 8) -> tuple[list[Document], list[Document]]:
    """Draw nodes, and pods on them."""
    drawn_nodes = [draw(nodes(f"n{number}")) for number in range(draw(st.integers(1, most_nodes)))]
    names = [node["metadata"]["name"] for node in drawn_nodes]
    drawn_pods = [draw(pods(f"p{number}", on=names)) for number in range(draw(st.integers(0, most_pods)))]
    return drawn_nodes, drawn_pods
