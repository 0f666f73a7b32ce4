"""The strategies of PodDisruptionBudget and PriorityClass."""

from typing import Final

from rota.api import fields
from rota.apiserver.interfaces import Attributes, Object
from rota.apiserver.strategies import checks
from rota.apiserver.strategies.generic import GenericStrategy
from rota.apiserver.strategies.workloads import SPEC, validate_share

#: The highest priority of users; above are the system's.
HIGHEST_USER_PRIORITY: Final = 1_000_000_000
#: The system's classes.
SYSTEM_PRIORITIES: Final = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
_SYSTEM_PREFIX: Final = "system-"
_POLICIES: Final = ("PreemptLowerPriority", "Never")


class DisruptionBudgetStrategy(GenericStrategy):
    """PodDisruptionBudgets."""

    counts_generations = True

    def validate_create(self, obj: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Numbers and selector."""
        return super().validate_create(obj, at) + _validate_budget(obj.get("spec") or {})

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Numbers and selector; counts of the status are not negative."""
        found = super().validate_update(new, old, at)
        if at.subresource != "status":
            return found + _validate_budget(new.get("spec") or {})
        path = fields.Path("status")
        for name in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"):
            found += checks.not_negative((new.get("status") or {}).get(name), path.child(name))
        return found


class PriorityClassStrategy(GenericStrategy):
    """PriorityClasses."""

    def default(self, obj: Object, /) -> None:
        """The default preemption policy."""
        if not obj.get("preemptionPolicy"):
            obj["preemptionPolicy"] = "PreemptLowerPriority"
        obj.setdefault("value", 0)

    def prepare_create(self, obj: Object, at: Attributes, /) -> None:
        """A class has a generation and no status."""
        super().prepare_create(obj, at)
        obj["metadata"]["generation"] = 1

    def validate_create(self, obj: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Names that begin with `system-`, and values above the users', are the system's."""
        found = super().validate_create(obj, at)
        name, value = obj["metadata"].get("name", ""), obj["value"]
        if name.startswith(_SYSTEM_PREFIX):
            if SYSTEM_PRIORITIES.get(name) != value:
                why = (
                    "priority class names with 'system-' prefix are reserved for system use only. "
                    f"error: {name} is not a known system priority class"
                )
                found.append(fields.forbidden(fields.Path("metadata").child("name"), why))
        elif value > HIGHEST_USER_PRIORITY:
            why = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
            found.append(fields.forbidden(fields.Path("value"), why))
        return found + checks.one_of(obj.get("preemptionPolicy"), _POLICIES, fields.Path("preemptionPolicy"))

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[fields.FieldError]:
        """The value and the preemption policy are immutable."""
        found = super().validate_update(new, old, at)
        if new["value"] != old.get("value", 0):
            found.append(fields.forbidden(fields.Path("value"), "may not be changed in an update."))
        policy = fields.Path("preemptionPolicy")
        return found + checks.immutable(new.get("preemptionPolicy"), old.get("preemptionPolicy"), policy)


def _validate_budget(spec: Object) -> list[fields.FieldError]:
    found: list[fields.FieldError] = []
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        found.append(fields.invalid(SPEC, spec, "minAvailable and maxUnavailable cannot be both set"))
    for name in ("minAvailable", "maxUnavailable"):
        value = spec.get(name)
        if value is None:
            continue
        wrong = validate_share(value, SPEC.child(name))
        if not wrong and isinstance(value, str) and int(value[:-1]) > 100:
            wrong = [fields.invalid(SPEC.child(name), value, "must not be greater than 100%")]
        found += wrong
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in {"AlwaysAllow", "IfHealthyBudget"}:
        path = SPEC.child("unhealthyPodEvictionPolicy")
        found.append(fields.not_supported(path, policy, ["AlwaysAllow", "IfHealthyBudget"]))
    return found + checks.label_selector(spec.get("selector"), SPEC.child("selector"))
