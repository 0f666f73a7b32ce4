"""Validation of a pod's placement: selectors, affinities, topology spread, tolerations. Pure.

Mirrors the corresponding part of `pkg/apis/core/validation/validation.go` of Kubernetes 1.33.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from rota.api import fields, names
from rota.apiserver.strategies import checks

Found: TypeAlias = list[fields.FieldError]
Term: TypeAlias = Mapping[str, Any]

TAINT_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_WEIGHT: Final = "must be in the range 1-100"
_UNKNOWN_OPERATOR: Final = "not a valid selector operator"


def validate(spec: Mapping[str, Any], path: fields.Path) -> Found:
    """All errors of a pod's placement fields."""
    found: Found = []
    for key, value in (spec.get("nodeSelector") or {}).items():
        found += checks.label_key(key, path.child("nodeSelector"))
        found += checks.messages(names.check_label_value(value), value, path.child("nodeSelector"))
    found += _validate_affinity(spec.get("affinity") or {}, path.child("affinity"))
    found += validate_tolerations(spec.get("tolerations") or (), path.child("tolerations"))
    found += _validate_spreading(spec.get("topologySpreadConstraints") or (), path.child("topologySpreadConstraints"))
    found += _validate_gates(spec.get("schedulingGates") or (), path.child("schedulingGates"))
    return found


def validate_tolerations(tolerations: Sequence[Term], path: fields.Path) -> Found:
    """Tolerations."""
    found: Found = []
    for position, one in enumerate(tolerations):
        at = path.index(position)
        key, operator, value = one.get("key", ""), one.get("operator", ""), one.get("value", "")
        if key:
            found += checks.label_key(key, at.child("key"))
        elif operator != "Exists":
            why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            found.append(fields.invalid(at.child("operator"), operator, why))
        effect = one.get("effect", "")
        if one.get("tolerationSeconds") is not None and effect != "NoExecute":
            why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            found.append(fields.invalid(at.child("effect"), effect, why))
        if operator in {"Equal", ""}:
            wrong = names.check_label_value(value)
            found += [fields.invalid(at.child("operator"), value, ";".join(wrong))] if wrong else []
        elif operator == "Exists":
            if value:
                why = "value must be empty when `operator` is 'Exists'"
                found.append(fields.invalid(at.child("operator"), value, why))
        else:
            found.append(fields.not_supported(at.child("operator"), operator, ["Equal", "Exists"]))
        if effect and effect not in TAINT_EFFECTS:
            found.append(fields.not_supported(at.child("effect"), effect, TAINT_EFFECTS))
    return found


def validate_node_selector(selector: Mapping[str, Any], path: fields.Path) -> Found:
    """A node selector, as in affinities and volumes."""
    terms, at = selector.get("nodeSelectorTerms") or [], path.child("nodeSelectorTerms")
    if not terms:
        return [fields.required(at, "must have at least one node selector term")]
    found: Found = []
    for position, term in enumerate(terms):
        found += _validate_node_term(term, at.index(position))
    return found


def _validate_affinity(affinity: Mapping[str, Any], path: fields.Path) -> Found:
    found: Found = []
    node, at = affinity.get("nodeAffinity") or {}, path.child("nodeAffinity")
    if node.get(_REQUIRED) is not None:
        found += validate_node_selector(node[_REQUIRED], at.child(_REQUIRED))
    for position, one in enumerate(node.get(_PREFERRED) or ()):
        here = at.child(_PREFERRED).index(position)
        found += _validate_weight(one, here)
        found += _validate_node_term(one.get("preference") or {}, here.child("preference"))
    for kind in ("podAffinity", "podAntiAffinity"):
        terms, at = affinity.get(kind) or {}, path.child(kind)
        for position, one in enumerate(terms.get(_REQUIRED) or ()):
            found += _validate_pod_term(one, at.child(_REQUIRED).index(position))
        for position, one in enumerate(terms.get(_PREFERRED) or ()):
            here = at.child(_PREFERRED).index(position)
            found += _validate_weight(one, here)
            found += _validate_pod_term(one.get("podAffinityTerm") or {}, here.child("podAffinityTerm"))
    return found


def _validate_weight(one: Term, path: fields.Path) -> Found:
    weight = one.get("weight", 0)
    return [] if 1 <= weight <= 100 else [fields.invalid(path.child("weight"), weight, _WEIGHT)]


def _validate_node_term(term: Term, path: fields.Path) -> Found:
    found: Found = []
    for position, one in enumerate(term.get("matchExpressions") or ()):
        found += _validate_node_expression(one, path.child("matchExpressions").index(position))
    for position, one in enumerate(term.get("matchFields") or ()):
        at = path.child("matchFields").index(position)
        if one.get("operator") not in {"In", "NotIn"}:
            found.append(fields.invalid(at.child("operator"), one.get("operator", ""), _UNKNOWN_OPERATOR))
        elif len(one.get("values") or ()) != 1:
            why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            found.append(fields.required(at.child("values"), why))
        if one.get("key") != "metadata.name":
            found.append(fields.invalid(at.child("key"), one.get("key", ""), "not a valid field selector key"))
    return found


def _validate_node_expression(one: Term, path: fields.Path) -> Found:
    operator, values = one.get("operator", ""), one.get("values") or []
    found: Found = []
    if operator in {"In", "NotIn"}:
        if not values:
            why = "must be specified when `operator` is 'In' or 'NotIn'"
            found.append(fields.required(path.child("values"), why))
    elif operator in {"Exists", "DoesNotExist"}:
        if values:
            why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            found.append(fields.forbidden(path.child("values"), why))
    elif operator in {"Gt", "Lt"}:
        if len(values) != 1:
            why = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            found.append(fields.required(path.child("values"), why))
    else:
        found.append(fields.invalid(path.child("operator"), operator, _UNKNOWN_OPERATOR))
    return found + checks.label_key(one.get("key", ""), path.child("key"))


def _validate_pod_term(term: Term, path: fields.Path) -> Found:
    found = checks.label_selector(term.get("labelSelector"), path.child("labelSelector"))
    found += checks.label_selector(term.get("namespaceSelector"), path.child("namespaceSelector"))
    for name in term.get("namespaces") or ():
        found += checks.dns_label(name, path.child("namespace"))
    key = term.get("topologyKey", "")
    if not key:
        found.append(fields.required(path.child("topologyKey"), "can not be empty"))
    return found + checks.label_key(key, path.child("topologyKey"))


def _validate_spreading(constraints: Sequence[Term], path: fields.Path) -> Found:
    found: Found = []
    kinds = [(one.get("topologyKey", ""), one.get("whenUnsatisfiable", "")) for one in constraints]
    for position, one in enumerate(constraints):
        at, (key, action) = path.index(position), kinds[position]
        found += checks.positive(one.get("maxSkew"), at.child("maxSkew"))
        if not key:
            found.append(fields.required(at.child("topologyKey"), "can not be empty"))
        if action not in {"DoNotSchedule", "ScheduleAnyway"}:
            known = ["DoNotSchedule", "ScheduleAnyway"]
            found.append(fields.not_supported(at.child("whenUnsatisfiable"), action, known))
        if (key, action) in kinds[position + 1 :]:
            found.append(fields.duplicate(at.child("{topologyKey, whenUnsatisfiable}"), f"{{{key}, {action}}}"))
        domains = one.get("minDomains")
        if domains is not None:
            found += checks.positive(domains, at.child("minDomains"))
            if action != "DoNotSchedule":
                why = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                found.append(fields.invalid(at.child("minDomains"), domains, why))
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if one.get(name) is not None and one[name] not in {"Honor", "Ignore"}:
                found.append(fields.not_supported(at.child(name), one[name], ["Honor", "Ignore"]))
        found += checks.label_selector(one.get("labelSelector"), at.child("labelSelector"))
    return found


def _validate_gates(gates: Sequence[Term], path: fields.Path) -> Found:
    found: Found = []
    seen: set[str] = set()
    for position, gate in enumerate(gates):
        name = gate.get("name", "")
        found += checks.label_key(name, path.index(position))
        if name in seen:
            found.append(fields.duplicate(path.index(position), name))
        seen.add(name)
    return found
