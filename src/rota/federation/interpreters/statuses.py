"""Which part of a member's status is collected."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from rota.api import selectors
from rota.federation.interpreters import trees

Object: TypeAlias = Mapping[str, Any]

TEMPLATE_GENERATION: Final = "resourcetemplate.karmada.io/generation"

DEPLOYMENT: Final = (
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
    "observedGeneration",
)
REPLICA_SET: Final = ("replicas", "readyReplicas", "availableReplicas", "observedGeneration")
DAEMON_SET: Final = (
    "currentNumberScheduled",
    "desiredNumberScheduled",
    "numberAvailable",
    "numberMisscheduled",
    "numberReady",
    "updatedNumberScheduled",
    "numberUnavailable",
    "observedGeneration",
)
#: Without observedGeneration, as upstream has it.
STATEFUL_SET: Final = ("availableReplicas", "currentReplicas", "readyReplicas", "replicas", "updatedReplicas")
JOB: Final = ("active", "succeeded", "failed", "conditions", "startTime", "completionTime")
DISRUPTION_BUDGET: Final = ("disruptionsAllowed", "expectedPods", "desiredHealthy", "currentHealthy", "disruptedPods")
AUTOSCALER: Final = ("currentReplicas", "desiredReplicas")


class NotReadable(ValueError):
    """The status cannot be collected."""


def whole(obj: Object) -> dict[str, Any] | None:
    """The status as it is."""
    status = obj.get("status")
    return None if status is None else dict(status)


def members(names: Sequence[str]) -> Callable[[Object], dict[str, Any] | None]:
    """Collect these members only."""

    def collect(obj: Object) -> dict[str, Any] | None:
        status = obj.get("status")
        return None if status is None else {name: status[name] for name in names if status.get(name)}

    return collect


def with_generations(names: Sequence[str]) -> Callable[[Object], dict[str, Any] | None]:
    """Collect these members, with the object's generation and that of the template it was made from."""
    of_status = members(names)

    def collect(obj: Object) -> dict[str, Any] | None:
        found = of_status(obj)
        if found is None:
            return None
        template = trees.get(obj, "metadata", "annotations", TEMPLATE_GENERATION)
        number = selectors.parse_int64(template)
        if number is None:
            raise NotReadable(f"annotation {TEMPLATE_GENERATION} is {template!r}; it must be a whole number")
        generations = {
            "generation": int(trees.get(obj, "metadata", "generation") or 0),
            "resourceTemplateGeneration": number,
        }
        return found | {name: value for name, value in generations.items() if value}

    return collect


def of_service(obj: Object) -> dict[str, Any] | None:
    """The addresses of a load balancer; nothing of other services."""
    if trees.get(obj, "spec", "type") != "LoadBalancer" or obj.get("status") is None:
        return None
    return {"loadBalancer": trees.get(obj, "status", "loadBalancer") or {}}
