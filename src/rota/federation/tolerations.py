"""Which taints of a cluster a placement tolerates."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

Taint: TypeAlias = Mapping[str, Any]
Toleration: TypeAlias = Mapping[str, Any]

NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether a toleration matches a taint."""
    effect, key = toleration.get("effect") or "", toleration.get("key") or ""
    if effect and effect != taint.get("effect"):
        return False
    if key and key != taint.get("key"):
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Exists":
        return True
    return operator == "Equal" and (toleration.get("value") or "") == (taint.get("value") or "")


def first_untolerated(
    taints: Sequence[Taint], tolerations: Sequence[Toleration], counts: Callable[[Taint], bool]
) -> Taint | None:
    """The first taint that counts and that no toleration matches."""
    for taint in taints:
        if counts(taint) and not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


def keeps_out(taint: Taint) -> bool:
    """Whether a taint keeps new workloads out of a cluster."""
    return taint.get("effect") in (NO_SCHEDULE, NO_EXECUTE)


def text(taint: Taint) -> str:
    """A taint as people write it: `key=value:effect`, without what is empty."""
    key, value, effect = taint.get("key") or "", taint.get("value") or "", taint.get("effect") or ""
    if not effect:
        return f"{key}={value}:" if value else key
    return f"{key}={value}:{effect}" if value else f"{key}:{effect}"
