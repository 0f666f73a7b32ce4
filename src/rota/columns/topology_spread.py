"""Counts of pods by topology domain, for hard and soft spread constraints.

`HardSpread` has the count of each domain and checks whether one more pod keeps the skew; it can be adjusted pod by pod
in what-if transactions. `SoftSpread` scores the counts around each node. Both read the cluster's count columns and
never visit single pods.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from rota.api import selectors
from rota.api.selectors import Operator, Requirement, Selector
from rota.columns import domains, requirements, taints
from rota.columns.arrays import BoolArray, CodeArray, FloatArray, IntArray, Rows
from rota.columns.catalog import Catalog
from rota.columns.cluster import Cluster
from rota.columns.counts import Clause, CountColumn, PodQuery
from rota.columns.nodes import NodeInfo
from rota.columns.objects import TopologySpreadConstraint
from rota.columns.pods import PodInfo

HOSTNAME = "kubernetes.io/hostname"
HONOR = "Honor"

#: Codes of `HardSpread`.
MISSING, UNEVEN = 1, 2


@dataclass(frozen=True, slots=True)
class Constraint:
    """A spread constraint, compiled and with all defaults filled in."""

    key: str
    max_skew: int
    min_domains: int
    selector: Selector
    honors_affinity: bool
    honors_taints: bool


def compiled(
    constraints: Iterable[TopologySpreadConstraint], pod: PodInfo, action: str, *, selector: Selector | None = None
) -> tuple[Constraint, ...]:
    """Compile the constraints of one kind; `selector` replaces their own."""
    return tuple(
        Constraint(
            key=each.topologyKey,
            max_skew=each.maxSkew,
            min_domains=1 if each.minDomains is None else each.minDomains,
            selector=_narrowed(each, pod) if selector is None else selector,
            honors_affinity=each.nodeAffinityPolicy in {None, HONOR},
            honors_taints=each.nodeTaintsPolicy == HONOR,
        )
        for each in constraints
        if each.whenUnsatisfiable == action
    )


def _narrowed(constraint: TopologySpreadConstraint, pod: PodInfo) -> Selector:
    """The constraint's selector, restricted to pods that equal this one in `matchLabelKeys`."""
    selector = selectors.from_object(constraint.labelSelector)
    labels = pod.labels
    same = [
        Requirement(key, Operator.EQUALS, (labels[key],)) for key in constraint.matchLabelKeys or () if key in labels
    ]
    if not same or selector.selects_nothing:
        return selector
    return selectors.combine([*selector.requirements, *same])


def default_selector(pod: PodInfo, catalog: Catalog) -> Selector:
    """The combined selector of a pod's services and controlling owner; empty if there are none."""
    exact: dict[str, str] = {}
    for service in catalog.list("Service", namespace=pod.namespace):
        wanted = (service.get("spec") or {}).get("selector")
        if wanted is not None and all(pod.labels.get(key) == value for key, value in wanted.items()):
            exact.update(wanted)
    owner = pod.shape.owner
    spec = None
    if owner is not None:
        document = catalog.get(owner.kind, namespace=pod.namespace, name=owner.name)
        spec = None if document is None else (document.get("spec") or {}).get("selector")
    if spec is None:
        return selectors.from_labels(exact)
    if owner is not None and owner.kind == "ReplicationController":
        return selectors.from_labels({**exact, **spec})
    return selectors.combine([*selectors.from_labels(exact).requirements, *selectors.from_object(spec).requirements])


def _column(constraint: Constraint, namespace: str, cluster: Cluster) -> CountColumn | None:
    """The matching pods by row; a selector that selects everything counts nothing."""
    if constraint.selector.empty:
        return None
    clause = Clause(frozenset({namespace}), constraint.selector)
    return cluster.pod_counts.column(PodQuery((clause,), count_terminating=False))


def _counts(column: CountColumn | None, size: int) -> np.ndarray:
    return np.zeros(size, dtype=np.int32) if column is None else column.counts[:size]


class Inclusion:
    """Which nodes count for a constraint: all keys present, and the policies on affinity and taints met."""

    __slots__ = ("_keys", "_pod", "_requirements")

    def __init__(self, pod: PodInfo, keys: Sequence[str]) -> None:
        self._pod = pod
        self._keys = tuple(keys)
        self._requirements = requirements.of(pod.shape)

    def rows(self, constraint: Constraint, cluster: Cluster) -> BoolArray:
        """Evaluate all rows."""
        rows = cluster.rows
        included = cluster.alive[rows].copy()
        for key in self._keys:
            included &= cluster.labels.column(key).column[rows] >= 0
        if constraint.honors_affinity and not self._requirements.empty:
            included &= self._requirements.rows(cluster, rows)
        if constraint.honors_taints:
            tolerations = self._pod.shape.tolerations
            included &= cluster.taints.test(lambda held: not taints.repelled(tolerations, held or ()), rows)
        return included

    def one(self, constraint: Constraint, node: NodeInfo) -> bool:
        """Evaluate one node."""
        return (
            all(key in node.labels for key in self._keys)
            and (not constraint.honors_affinity or self._requirements.met_by(node))
            and not (constraint.honors_taints and taints.repelled(self._pod.shape.tolerations, node.taints))
        )


class _Domains:
    """Matching pods by domain for one hard constraint."""

    __slots__ = ("_seen", "column", "constraint", "counts", "ids", "included", "present", "room", "self_match")

    def __init__(self, constraint: Constraint, pod: PodInfo, cluster: Cluster, inclusion: Inclusion) -> None:
        size = cluster.size
        labels = cluster.labels.column(constraint.key)
        self.constraint = constraint
        self.column = _column(constraint, pod.namespace, cluster)
        self.ids = domains.ids(labels, size)
        self.included = inclusion.rows(constraint, cluster)
        self.present = domains.members(labels, self.included)
        #: By domain; kept current by `refresh` and `shift`.
        self.counts: IntArray = domains.sums(labels, _counts(self.column, size), self.included)
        self._seen = _counts(self.column, size).copy()
        self.self_match = int(constraint.selector.matches(pod.labels))
        self.measure()

    def measure(self) -> None:
        """Compute the highest count of a domain that still allows this pod."""
        held = self.counts[self.present]
        least = int(held.min()) if len(held) >= max(self.constraint.min_domains, 1) else 0
        self.room = self.constraint.max_skew - self.self_match + least

    def refresh(self, rows: Iterable[int]) -> bool:
        """Apply changes of some rows; returns whether a count changed."""
        changed = False
        if self.column is not None:
            for row in rows:
                now = int(self.column.counts[row])
                grown = now - int(self._seen[row])
                if grown:
                    self._seen[row] = now
                    if self.included[row]:
                        self.counts[self.ids[row]] += grown
                        changed = True
        if changed:
            self.measure()
        return changed

    def clone(self) -> "_Domains":
        """An independent copy for what-if transactions; never refreshed."""
        twin = object.__new__(_Domains)
        for name in _Domains.__slots__:
            setattr(twin, name, getattr(self, name))
        twin.counts = self.counts.copy()
        return twin


class HardSpread:
    """The state of all hard constraints of a pod."""

    __slots__ = ("_domains", "_inclusion")

    def __init__(self, constraints: Sequence[Constraint], pod: PodInfo, cluster: Cluster) -> None:
        self._inclusion = Inclusion(pod, [constraint.key for constraint in constraints])
        self._domains = [_Domains(constraint, pod, cluster, self._inclusion) for constraint in constraints]

    def verdict(self, node: NodeInfo) -> int:
        """The code of one node."""
        for each in self._domains:
            domain = int(each.ids[node.row])
            if domain < 0:
                return MISSING
            if each.counts[domain] > each.room:
                return UNEVEN
        return 0

    def verdicts(self, rows: Rows) -> CodeArray:
        """The codes of the selected rows; the first constraint that refuses decides."""
        codes: CodeArray | None = None
        for each in self._domains:
            verdict = np.where(each.counts > each.room, UNEVEN, 0)
            verdict[-1] = MISSING
            found = verdict[each.ids[rows]]
            codes = found if codes is None else np.where(codes == 0, found, codes)
        assert codes is not None
        return codes

    def refresh(self, rows: Iterable[int]) -> bool:
        """Apply changes of some rows; returns whether any code may have changed."""
        changed = False
        for each in self._domains:
            changed = each.refresh(rows) or changed
        return changed

    def shift(self, pod: PodInfo, other: PodInfo, node: NodeInfo, by: int) -> None:
        """Add or remove another pod. As upstream, terminating pods count here, unlike in the initial counts."""
        if other.namespace != pod.namespace:
            return
        for each in self._domains:
            if each.constraint.selector.matches(other.labels) and self._inclusion.one(each.constraint, node):
                each.counts[each.ids[node.row]] += by
                each.measure()

    def clone(self) -> "HardSpread":
        """An independent copy."""
        twin = object.__new__(HardSpread)
        twin._inclusion = self._inclusion
        twin._domains = [each.clone() for each in self._domains]
        return twin


class SoftSpread:
    """The counts of each node's domains, over all soft constraints of a pod."""

    __slots__ = ("_columns", "_domain_counts", "_versions")

    def __init__(
        self,
        constraints: Sequence[Constraint],
        pod: PodInfo,
        cluster: Cluster,
        feasible: BoolArray,
        *,
        all_keys: bool,
    ) -> None:
        size = cluster.size
        keys = [constraint.key for constraint in constraints]
        self._columns = [_column(constraint, pod.namespace, cluster) for constraint in constraints]
        self._versions = [column.version if column else 0 for column in self._columns]
        inclusion = Inclusion(pod, keys if all_keys else ())
        rated = feasible.copy()
        if all_keys:
            for key in keys:
                rated &= cluster.labels.column(key).column[:size] >= 0
        domain_counts: FloatArray = np.zeros(size)
        for constraint, column in zip(constraints, self._columns, strict=True):
            labels = cluster.labels.column(constraint.key)
            ids = domains.ids(labels, size)
            counts = _counts(column, size)
            if constraint.key == HOSTNAME:
                weight = math.log(int(rated.sum()) + 2)
                near = counts.astype(np.float64)
            else:
                weight = math.log(_sizes(labels.id_of(""), ids, rated) + 2)
                table = domains.sums(labels, counts, inclusion.rows(constraint, cluster))
                near = table[ids].astype(np.float64)
            domain_counts += np.where(ids >= 0, near * weight + float(constraint.max_skew - 1), 0.0)
        whole = np.trunc(domain_counts)
        self._domain_counts: IntArray = (whole + (domain_counts - whole >= 0.5)).astype(np.int64)
        self._domain_counts[~rated] = -1

    def domain_count(self, node: NodeInfo) -> int:
        """The score of one node; -1 if it lacks a key."""
        return int(self._domain_counts[node.row])

    def domain_counts(self, rows: Rows) -> IntArray:
        """The scores of the selected rows."""
        return self._domain_counts[rows]

    def unchanged(self) -> bool:
        """Whether all counts are unchanged."""
        return all(
            column is None or column.version == version
            for column, version in zip(self._columns, self._versions, strict=True)
        )


def _sizes(nameless: int | None, ids: np.ndarray, rated: BoolArray) -> int:
    """Count the domains among the scored rows; a missing label counts as the empty value."""
    found = set(np.unique(ids[rated]).tolist())
    if -1 in found and nameless is not None:
        found.discard(-1)
        found.add(nameless)
    return len(found)
