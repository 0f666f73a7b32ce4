"""Inter-pod affinity: sums of affinity terms, a pod's own and those of existing pods, by topology domain.

Counts come from the cluster's count columns and existing-pod terms; single pods are not visited. `AffinityCounts`
evaluates required terms and can be adjusted pod by pod in what-if transactions. `Preferences` sums all weighted terms.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from rota.columns import domains
from rota.columns.arrays import BoolArray, CodeArray, IdArray, IntArray, Rows, count
from rota.columns.catalog import Catalog
from rota.columns.cluster import Cluster
from rota.columns.counts import Clause, CountColumn, PodQuery
from rota.columns.existing_terms import ExistingTerm, TermKind
from rota.columns.nodes import NodeInfo
from rota.columns.pods import AffinityTerm, LabelGroup, PodInfo

#: Codes of `AffinityCounts`.
NO_AFFINITY, ANTI_AFFINITY, REFUSED_BY_OTHERS = 1, 2, 3

_NO_LABELS: Mapping[str, str] = {}


def clause_of(term: AffinityTerm, catalog: Catalog) -> Clause:
    """Resolve the namespace selector of a term by the present labels of namespaces."""
    selector = term.namespace_selector
    if selector is None:
        return Clause(term.namespaces, term.selector)
    # Upstream resolves the selector to names and also matches it against no labels at all; a selector that matches
    # those (the empty one, or one that only forbids labels) therefore selects every namespace.
    if selector.matches(_NO_LABELS):
        return Clause(None, term.selector)
    named = {
        document["metadata"]["name"]
        for document in catalog.list("Namespace")
        if selector.matches(document["metadata"].get("labels") or _NO_LABELS)
    }
    return Clause(term.namespaces | named, term.selector)


def matching_terms(kind: TermKind, group: LabelGroup, cluster: Cluster) -> Sequence[ExistingTerm]:
    """The terms of existing pods that select the pods of a group."""
    terms = cluster.terms.of(kind)
    if not terms:
        return ()
    namespace_labels = cluster.catalog.namespace_labels(group.namespace)
    return [held for held in terms if held.term.matches(group, namespace_labels)]


class _Tables:
    """Numbers by topology key and domain."""

    __slots__ = ("_cluster", "_ids", "tables")

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.tables: dict[str, IntArray] = {}
        self._ids: dict[str, IdArray] = {}

    def add(self, key: str, amounts: np.ndarray) -> None:
        """Add amounts by row, shape (N,), to the domains of a key."""
        column = self._cluster.labels.column(key)
        table = domains.sums(column, amounts)
        known = self.tables.get(key)
        self.tables[key] = table if known is None else known + table
        self._ids[key] = domains.ids(column, self._cluster.size)

    def shift(self, key: str, row: int, by: int) -> int:
        """Add a number to the domain of a row; returns how much was added: 0 if the row has no such label."""
        if key not in self.tables:
            column = self._cluster.labels.column(key)
            self.tables[key] = np.zeros(len(column.values) + 1, dtype=np.int64)
            self._ids[key] = domains.ids(column, self._cluster.size)
        domain = int(self._ids[key][row])
        if domain < 0:
            return 0
        self.tables[key][domain] += by
        return by

    def any_at(self, row: int) -> bool:
        """Whether some domain of the row has more than 0."""
        return any(self.tables[key][ids[row]] > 0 for key, ids in self._ids.items())

    def any_by_row(self, rows: Rows) -> BoolArray | None:
        """The rows with a domain that has more than 0; None for no row."""
        found: BoolArray | None = None
        for key, ids in self._ids.items():
            here = (self.tables[key] > 0)[ids[rows]]
            found = here if found is None else found | here
        return found

    def at(self, key: str, row: int) -> int | None:
        """The number of the domain of a row, or None if the row has no such label."""
        domain = int(self._ids[key][row])
        return None if domain < 0 else int(self.tables[key][domain])

    def by_row(self, key: str, rows: Rows) -> tuple[BoolArray, IntArray]:
        """Which rows have the label, and the numbers of their domains."""
        ids = self._ids[key][rows]
        return ids >= 0, self.tables[key][ids]

    def clone(self) -> "_Tables":
        """An independent copy."""
        twin = _Tables(self._cluster)
        twin.tables = {key: table.copy() for key, table in self.tables.items()}
        twin._ids = dict(self._ids)
        return twin


class AffinityCounts:
    """Counts for required terms: pods of our affinity, pods of our anti-affinity, and pods whose anti-affinity selects
    ours."""

    __slots__ = (
        "_affinity",
        "_affinity_clauses",
        "_affinity_keys",
        "_affinity_total",
        "_anti",
        "_anti_terms",
        "_catalog_generation",
        "_cluster",
        "_columns",
        "_group",
        "_others",
        "_suits_itself",
        "_terms_version",
        "_versions",
    )

    def __init__(self, pod: PodInfo, cluster: Cluster) -> None:
        shape, size = pod.shape, cluster.size
        self._cluster = cluster
        self._group = shape.group
        self._columns: list[CountColumn] = []
        self._affinity_clauses = tuple(clause_of(term, cluster.catalog) for term in shape.required_affinity)
        self._affinity_keys = tuple(term.topology_key for term in shape.required_affinity)
        self._anti_terms = tuple(
            (term.topology_key, clause_of(term, cluster.catalog)) for term in shape.required_anti_affinity
        )
        self._suits_itself = all(clause.matches(shape.group) for clause in self._affinity_clauses)
        self._affinity, self._anti, self._others = _Tables(cluster), _Tables(cluster), _Tables(cluster)
        if self._affinity_clauses:
            counts = self._counts(PodQuery(self._affinity_clauses))
            for key in self._affinity_keys:
                self._affinity.add(key, counts)
        self._affinity_total = sum(int(table.sum()) for table in self._affinity.tables.values())
        for key, clause in self._anti_terms:
            self._anti.add(key, self._counts(PodQuery((clause,))))
        for held in matching_terms(TermKind.REQUIRED_ANTI_AFFINITY, shape.group, cluster):
            self._others.add(held.term.topology_key, held.counts(cluster.capacity)[:size])
        self._versions = [column.version for column in self._columns]
        self._terms_version = cluster.terms.version
        self._catalog_generation = cluster.catalog.generation

    @property
    def idle(self) -> bool:
        """Whether no term, of this pod or of others, applies."""
        return (
            not self._affinity_clauses
            and not self._anti_terms
            and not any(table.any() for table in self._others.tables.values())
        )

    def current(self) -> bool:
        """Whether nothing that this was computed from has changed."""
        cluster = self._cluster
        if self._terms_version != cluster.terms.version or self._catalog_generation != cluster.catalog.generation:
            return False
        return not self._columns or [column.version for column in self._columns] == self._versions

    def verdict(self, node: NodeInfo) -> int:
        """The code of one node."""
        row, found = node.row, True
        for key in self._affinity_keys:
            number = self._affinity.at(key, row)
            if number is None:
                return NO_AFFINITY
            found = found and number > 0
        if not found and not self._first_of_its_kind:
            return NO_AFFINITY
        if self._anti.any_at(row):
            return ANTI_AFFINITY
        return REFUSED_BY_OTHERS if self._others.any_at(row) else 0

    def verdicts(self, rows: Rows) -> CodeArray:
        """The codes of the selected rows; affinity comes first, then anti-affinity, then that of others."""
        codes: CodeArray = np.zeros(count(rows), dtype=np.int64)
        for tables, code in ((self._others, REFUSED_BY_OTHERS), (self._anti, ANTI_AFFINITY)):
            refused = tables.any_by_row(rows)
            if refused is not None:
                codes[refused] = code
        for key in self._affinity_keys:
            present, numbers = self._affinity.by_row(key, rows)
            codes[~present if self._first_of_its_kind else ~(present & (numbers > 0))] = NO_AFFINITY
        return codes

    def shift(self, other: PodInfo, node: NodeInfo, by: int) -> None:
        """Add or remove another pod."""
        row, group = node.row, other.shape.group
        namespace_labels = self._cluster.catalog.namespace_labels(self._group.namespace)
        for term in other.shape.required_anti_affinity:
            if term.matches(self._group, namespace_labels):
                self._others.shift(term.topology_key, row, by)
        if self._affinity_clauses and all(clause.matches(group) for clause in self._affinity_clauses):
            for key in self._affinity_keys:
                self._affinity_total += self._affinity.shift(key, row, by)
        for key, clause in self._anti_terms:
            if clause.matches(group):
                self._anti.shift(key, row, by)

    def clone(self) -> "AffinityCounts":
        """An independent copy for what-if transactions."""
        twin = object.__new__(AffinityCounts)
        for name in AffinityCounts.__slots__:
            setattr(twin, name, getattr(self, name))
        twin._affinity, twin._anti, twin._others = self._affinity.clone(), self._anti.clone(), self._others.clone()
        return twin

    @property
    def _first_of_its_kind(self) -> bool:
        """Whether only this pod itself matches its affinity: then it may be the first of its group."""
        return self._affinity_total == 0 and self._suits_itself

    def _counts(self, query: PodQuery) -> np.ndarray:
        column = self._cluster.pod_counts.column(query)
        self._columns.append(column)
        return column.counts[: self._cluster.size]


class NoTerms:
    """Replaces counts and sums if neither the pod nor any existing pod has terms of these kinds."""

    __slots__ = ("_terms", "_version")

    def __init__(self, cluster: Cluster) -> None:
        self._terms = cluster.terms
        self._version = cluster.terms.version

    def current(self) -> bool:
        """Whether no existing pod with terms was added or removed."""
        return self._terms.version == self._version


class Preferences:
    """The sum of all weighted terms of and about a pod, by row."""

    __slots__ = ("_catalog_generation", "_cluster", "_columns", "_present", "_terms_version", "_versions", "raw")

    def __init__(self, pod: PodInfo, cluster: Cluster, *, hard_weight: int) -> None:
        shape = pod.shape
        self._cluster = cluster
        self._columns: list[CountColumn] = []
        self._present = False
        weighted = [(each, 1) for each in shape.preferred_affinity]
        weighted += [(each, -1) for each in shape.preferred_anti_affinity]
        amounts: dict[str, IntArray] = {}
        for each, sign in weighted:
            column = cluster.pod_counts.column(PodQuery((clause_of(each.term, cluster.catalog),)))
            self._columns.append(column)
            if column.total:
                self._count(amounts, each.term.topology_key, column.counts, sign * each.weight)
        for kind, sign in SCORING_KINDS.items():
            if kind is TermKind.REQUIRED_AFFINITY and not hard_weight:
                continue
            for held in matching_terms(kind, shape.group, cluster):
                weight = hard_weight if kind is TermKind.REQUIRED_AFFINITY else held.weight
                self._count(amounts, held.term.topology_key, held.counts(cluster.capacity), sign * weight)
        #: Shape (N,).
        self.raw: IntArray = np.zeros(cluster.size, dtype=np.int64)
        for key, numbers in amounts.items():
            column_of_key = cluster.labels.column(key)
            self.raw += domains.sums(column_of_key, numbers)[domains.ids(column_of_key, cluster.size)]
        self._versions = [column.version for column in self._columns]
        self._terms_version = cluster.terms.version
        self._catalog_generation = cluster.catalog.generation

    @property
    def idle(self) -> bool:
        """Whether no term has matched a pod."""
        return not self._present

    def current(self) -> bool:
        """Whether nothing that this was computed from has changed."""
        cluster = self._cluster
        if self._terms_version != cluster.terms.version or self._catalog_generation != cluster.catalog.generation:
            return False
        return not self._columns or [column.version for column in self._columns] == self._versions

    def _count(self, amounts: dict[str, IntArray], key: str, counts: np.ndarray, weight: int) -> None:
        size = self._cluster.size
        here = counts[:size]
        known = amounts.get(key)
        more = here * np.int64(weight)
        amounts[key] = more if known is None else known + more
        if not self._present:
            self._present = bool(here[self._cluster.labels.column(key).column[:size] >= 0].any())


#: The sign of terms of existing pods that select ours.
SCORING_KINDS = {
    TermKind.REQUIRED_AFFINITY: 1,
    TermKind.PREFERRED_AFFINITY: 1,
    TermKind.PREFERRED_ANTI_AFFINITY: -1,
}
