"""What is wrong with a policy as it is given: paths and types of errors, as an API server reports them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from rota.api import meta, names
from rota.federation.policies import defaults

Object: TypeAlias = Mapping[str, Any]

INVALID: Final = "FieldValueInvalid"
REQUIRED: Final = "FieldValueRequired"
NOT_SUPPORTED: Final = "FieldValueNotSupported"

_FIELDS: Final = frozenset({"provider", "region", "zone"})
_GRACEFUL: Final = frozenset({"Gracefully", "Graciously"})


class Problem(NamedTuple):
    """One error: where, of which type, and in words."""

    field: str
    type: str
    message: str


def validate(policy: Object) -> list[Problem]:
    """All problems of a policy of any of the four kinds."""
    spec: Object = policy.get("spec") or {}
    namespace = meta.namespace(policy)
    if policy.get("kind") in ("OverridePolicy", "ClusterOverridePolicy"):
        return [*_override(spec), *_selectors(spec, namespace)]
    return [*_propagation(spec), *_selectors(spec, namespace)]


def _propagation(spec: Object) -> Iterator[Problem]:
    yield from placement(spec.get("placement") or {}, "spec.placement")
    failover: Object = spec.get("failover") or {}
    application = failover.get("application")
    if application is not None:
        if not spec.get("propagateDeps"):
            yield Problem("spec.propagateDeps", INVALID, "application failover is set, propagateDeps must be true")
        yield from _application(application, "spec.failover.application")
    if failover.get("cluster") is not None:
        yield from _state(failover["cluster"], "spec.failover.cluster")
    if spec.get("preemption") == "Always":
        for place, selector in enumerate(spec.get("resourceSelectors") or ()):
            if not selector.get("name"):
                where = f"spec.resourceSelectors[{place}].name"
                yield Problem(where, INVALID, "a policy that preempts must name the resources it takes over")
    suspension: Object = spec.get("suspension") or {}
    if suspension.get("dispatching") and (suspension.get("dispatchingOnClusters") or {}).get("clusterNames"):
        where = "spec.suspension.suspension"  # upstream's path
        yield Problem(where, INVALID, "dispatching cannot be suspended both everywhere and on some clusters")


def _selectors(spec: Object, namespace: str) -> Iterator[Problem]:
    if not namespace:
        return
    for place, selector in enumerate(spec.get("resourceSelectors") or ()):
        if (selector.get("namespace") or "") != namespace:
            where = f"spec.resourceSelectors[{place}].namespace"
            yield Problem(where, INVALID, f"a policy selects resources of its own namespace only, {namespace}")


def placement(given: Object, path: str) -> Iterator[Problem]:
    """The problems of a placement."""
    terms = given.get("clusterAffinities")
    if given.get("clusterAffinity") is not None:
        if terms is not None:
            yield Problem(path, INVALID, "clusterAffinities cannot co-exist with clusterAffinity")
        yield from _affinity(given["clusterAffinity"], f"{path}.clusterAffinity")
    yield from _terms(terms or (), given.get("replicaScheduling"), f"{path}.clusterAffinities")
    yield from _constraints(given.get("spreadConstraints") or (), f"{path}.spreadConstraints")
    yield from _workload_affinity(given.get("workloadAffinity"), f"{path}.workloadAffinity")
    for place, toleration in enumerate(given.get("clusterTolerations") or ()):
        if toleration.get("operator") in ("Lt", "Gt"):
            yield Problem(f"{path}.clusterTolerations[{place}].operator", NOT_SUPPORTED, "use Exists or Equal")


def _affinity(affinity: Object | None, path: str) -> Iterator[Problem]:
    for expression in ((affinity or {}).get("fieldSelector") or {}).get("matchExpressions") or ():
        if expression.get("key") not in _FIELDS or expression.get("operator") not in ("In", "NotIn"):
            yield Problem(f"{path}.fieldSelector", INVALID, "use provider, region or zone with In or NotIn")
            return


def _terms(terms: Sequence[Object], strategy: Object | None, path: str) -> Iterator[Problem]:
    seen: set[str] = set()
    for place, term in enumerate(terms):
        at, name = f"{path}[{place}]", term.get("affinityName") or ""
        overflow = term.get("overflowAffinities")
        if overflow is not None and not _may_overflow(strategy):
            where = f"{at}.overflowAffinities"
            yield Problem(where, INVALID, "overflow needs a division by what clusters have free")
        for message in names.check_label_key(name):
            yield Problem(at, INVALID, message)
        if name in seen:
            yield Problem(path, INVALID, "each affinity term in a policy must have a unique name")
        seen.add(name)
        yield from _affinity(term, at)
        if overflow is not None:
            yield from _overflow(term, overflow, f"{at}.overflowAffinities")


def _overflow(term: Object, overflow: Sequence[Object], path: str) -> Iterator[Problem]:
    if not any(
        (
            term.get("labelSelector") is not None,
            term.get("fieldSelector") is not None,
            term.get("clusterNames"),
            term.get("exclude"),
        )
    ):
        yield Problem(path, INVALID, "overflow needs an affinity that it is the overflow of")
    seen = {term.get("affinityName") or ""}
    for place, one in enumerate(overflow):
        at, name = f"{path}[{place}].affinityName", one.get("affinityName") or ""
        for message in names.check_label_key(name):
            yield Problem(at, INVALID, message)
        if name in seen:
            yield Problem(at, INVALID, "names of overflow affinities must be unique")
        seen.add(name)
        yield from _affinity(one, f"{path}[{place}]")


def _may_overflow(strategy: Object | None) -> bool:
    if strategy is None or strategy.get("replicaSchedulingType") != "Divided":
        return False
    preference = strategy.get("replicaDivisionPreference")
    dynamic = (strategy.get("weightPreference") or {}).get("dynamicWeight")
    return preference == "Aggregated" or (preference == "Weighted" and bool(dynamic))


def _constraints(constraints: Sequence[Object], path: str) -> Iterator[Problem]:
    counted: dict[str, int] = {}
    for place, one in enumerate(constraints):
        at = f"{path}[{place}]"
        field = one.get("spreadByField") or ""
        least, most = int(one.get("minGroups") or 0), int(one.get("maxGroups") or 0)
        if field and one.get("spreadByLabel"):
            yield Problem(at, INVALID, "spreadByLabel should not co-exist with spreadByField")
        if least < 0:
            yield Problem(at, INVALID, "minGroups lower than 0 is not allowed")
        if most < 0:
            yield Problem(at, INVALID, "maxGroups lower than 0 is not allowed")
        if 0 < most < least:
            yield Problem(at, INVALID, "maxGroups lower than minGroups is not allowed")
        if field:
            counted[field] = counted.get(field, 0) + 1
            if counted[field] == 2:
                yield Problem(path, INVALID, f"multiple {field} spread constraints are not allowed")
    if counted and "cluster" not in counted:
        yield Problem(path, INVALID, "spreading by a field needs a constraint over clusters as well")


def _workload_affinity(affinity: Object | None, path: str) -> Iterator[Problem]:
    if affinity is None:
        return
    keys = []
    for member in ("affinity", "antiAffinity"):
        term = affinity.get(member)
        if term is None:
            continue
        keys.append(term.get("groupByLabelKey") or "")
        for message in names.check_label_key(keys[-1]):
            yield Problem(f"{path}.{member}.groupByLabelKey", INVALID, message)
    if len(keys) == 2 and keys[0] == keys[1]:
        yield Problem(path, INVALID, "affinity and antiAffinity must not use the same groupByLabelKey")


def _application(behaviour: Object, path: str) -> Iterator[Problem]:
    tolerated = (behaviour.get("decisionConditions") or {}).get("tolerationSeconds")
    if tolerated is not None and int(tolerated) < 0:
        yield Problem(f"{path}.decisionConditions.tolerationSeconds", INVALID, "must be greater than or equal to 0")
    grace, graceful = behaviour.get("gracePeriodSeconds"), behaviour.get("purgeMode") in _GRACEFUL
    at = f"{path}.gracePeriodSeconds"
    if grace is not None and not graceful:
        yield Problem(at, INVALID, "only takes effect when purgeMode is Gracefully")
    if grace is None and graceful:
        yield Problem(at, INVALID, f"must be set when purgeMode is Gracefully, such as {defaults.GRACE_PERIOD_S}")
    if grace is not None and int(grace) <= 0:
        yield Problem(at, INVALID, "must be greater than 0")
    yield from _state(behaviour, path)


def _state(behaviour: Object, path: str) -> Iterator[Problem]:
    for place, rule in enumerate((behaviour.get("statePreservation") or {}).get("rules") or ()):
        for message in names.check_label_key(rule.get("aliasLabelName") or ""):
            yield Problem(f"{path}.statePreservation.rules[{place}].aliasLabelName", INVALID, message)


def _override(spec: Object) -> Iterator[Problem]:
    rules = spec.get("overrideRules")
    if spec.get("targetCluster") is not None:
        yield from _affinity(spec["targetCluster"], "spec.targetCluster")
        if rules is not None:
            yield Problem("spec.targetCluster", INVALID, "overrideRules and targetCluster cannot co-exist")
    if rules is not None and any(
        value for name, value in (spec.get("overriders") or {}).items() if name != "fieldOverrider"
    ):
        yield Problem("spec.overriders", INVALID, "overrideRules and overriders cannot co-exist")
    for place, rule in enumerate(rules or ()):
        at = f"spec.overrideRules[{place}]"
        yield from _overriders(rule.get("overriders") or {}, f"{at}.overriders")
        yield from _affinity(rule.get("targetCluster"), f"{at}.targetCluster")


def _overriders(overriders: Object, path: str) -> Iterator[Problem]:
    for place, one in enumerate(overriders.get("annotationsOverrider") or ()):
        yield from _annotations(one.get("value") or {}, f"{path}.annotationsOverrider[{place}].value")
    for place, one in enumerate(overriders.get("labelsOverrider") or ()):
        yield from _labels(one.get("value") or {}, f"{path}.labelsOverrider[{place}].value")
    for place, one in enumerate(overriders.get("imageOverrider") or ()):
        predicate = one.get("predicate")
        if predicate is not None:
            yield from _pointer(predicate.get("path") or "", f"{path}.imageOverrider[{place}].predicate.path")
    for place, one in enumerate(overriders.get("fieldOverrider") or ()):
        yield from _field(one, f"{path}.fieldOverrider[{place}]")


def _annotations(annotations: Mapping[str, str], path: str) -> Iterator[Problem]:
    for key in annotations:
        for message in names.check_annotation_key(key):
            yield Problem(path, INVALID, message)
    if names.annotations_bytes(annotations) > names.MAX_ANNOTATIONS_BYTES:
        yield Problem(path, "FieldValueTooLong", f"must have at most {names.MAX_ANNOTATIONS_BYTES} bytes")


def _labels(labels: Mapping[str, str], path: str) -> Iterator[Problem]:
    for key, value in labels.items():
        for message in (*names.check_label_key(key), *names.check_label_value(value)):
            yield Problem(path, INVALID, message)


def _pointer(pointer: str, path: str) -> Iterator[Problem]:
    if pointer and not pointer.startswith("/"):
        yield Problem(path, INVALID, 'JSON pointer must be empty or start with a "/"')


def _field(overrider: Object, path: str) -> Iterator[Problem]:
    as_yaml, as_json = overrider.get("yaml") or (), overrider.get("json") or ()
    if as_yaml and as_json:
        yield Problem(path, INVALID, "a field overrider has either JSON or YAML, not both")
    if not as_yaml and not as_json:
        yield Problem(path, REQUIRED, "a field overrider must have either JSON or YAML")
    yield from _pointer(overrider.get("fieldPath") or "", f"{path}.fieldPath")
    yield from _operations(as_json, f"{path}.json")
    yield from _operations(as_yaml, f"{path}.yaml")


def _operations(operations: Iterable[Object], path: str) -> Iterator[Problem]:
    for place, one in enumerate(operations):
        yield from _pointer(one.get("subPath") or "", f"{path}[{place}].subPath")
        has_value = one.get("value") is not None
        if one.get("operator") in ("add", "replace") and not has_value:
            yield Problem(f"{path}[{place}].value", INVALID, "value is required for add or replace")
        if one.get("operator") == "remove" and has_value:
            yield Problem(f"{path}[{place}].value", INVALID, "value is not allowed for remove")
