"""Why a bound task does not start, or its node is NotReady, in one line. Pure."""

from rota.api import meta, times
from rota.api.meta import Object
from rota.apiserver.printing import durations

_STARTING = frozenset({"ContainerCreating", "PodInitializing"})


def node_problem(node: Object | None, name: str, *, now: float) -> str:
    """Why a node is not ready; empty if it is."""
    if node is None:
        return f"node {name} is gone from the cluster"
    ready = meta.condition(node, "Ready")
    if ready is not None and ready.get("status") == "True":
        return ""
    if ready is None:
        return f"node {name} has not said yet that it is ready"
    since = ready.get("lastTransitionTime")
    lasting = f" for {durations.human(max(0, round(now - times.parse(since))))}" if since else ""
    said = str(ready.get("message") or ready.get("reason") or "").rstrip(".")
    return f"node {name} has been NotReady{lasting}{f' ({said})' if said else ''}; is its worker running?"


def start_problem(pod: Object) -> str:
    """Why a pod on a ready node has not started; empty if its node has reported no problem."""
    status = pod.get("status") or {}
    for one in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        waiting = (one.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") and waiting["reason"] not in _STARTING:
            said = str(waiting.get("message") or "").rstrip(".")
            return f"{waiting['reason']}{f': {said}' if said else ''}"
    return ""
