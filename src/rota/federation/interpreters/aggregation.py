"""The status of a template, put together from what member clusters report.

Each function takes the template and the items of a binding's aggregated status, and gives back the template's status.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from rota.api import times
from rota.federation.interpreters import statuses, trees

Object: TypeAlias = Mapping[str, Any]
Items: TypeAlias = Sequence[Object]
Status: TypeAlias = dict[str, Any] | None
Aggregate: TypeAlias = Callable[[Object, Items, str], Status]


def _reported(items: Items) -> list[Object]:
    return [item["status"] for item in items if item.get("status") is not None]


def _current(obj: Object) -> dict[str, Any]:
    return dict(obj.get("status") or {})


def sums(names: Sequence[str], *, by_template: bool = True) -> Aggregate:
    """Add up counters; the generation is observed once all members have observed what was made of it.

    With `by_template` a member must have seen the template's generation; otherwise, as upstream compares for
    StatefulSets, its own.
    """
    counters = [name for name in names if name != "observedGeneration"]

    def aggregate(obj: Object, items: Items, now: str) -> Status:
        status = _current(obj)
        generation = int(trees.get(obj, "metadata", "generation") or 0)
        reported = _reported(items)
        seen = 0
        for member in reported:
            own = int(member.get("generation") or 0)
            wanted = generation if by_template else own
            seen += int(member.get("observedGeneration") or 0) >= own and (
                int(member.get("resourceTemplateGeneration") or 0) >= wanted
            )
        status.update({name: sum(int(member.get(name) or 0) for member in reported) for name in counters})
        if seen == len(items):
            status["observedGeneration"] = generation
        return {name: value for name, value in status.items() if value or name not in names}

    return aggregate


def plain_sums(names: Sequence[str]) -> Aggregate:
    """Add up counters and nothing else."""

    def aggregate(obj: Object, items: Items, now: str) -> Status:
        totals = {name: sum(int(member.get(name) or 0) for member in _reported(items)) for name in names}
        return {name: total for name, total in totals.items() if total}

    return aggregate


def of_service(obj: Object, items: Items, now: str) -> Status:
    """The addresses of all load balancers, each once."""
    if trees.get(obj, "spec", "type") != "LoadBalancer":
        return obj.get("status")
    return _load_balancer(_addresses(items, with_mode=True))


def of_ingress(obj: Object, items: Items, now: str) -> Status:
    """The addresses of all ingresses, each once."""
    return _load_balancer(_addresses(items, with_mode=False))


def _load_balancer(addresses: list[dict[str, Any]]) -> dict[str, Any]:
    return {"loadBalancer": {"ingress": addresses} if addresses else {}}


def _addresses(items: Items, *, with_mode: bool) -> list[dict[str, Any]]:
    found: dict[tuple[str, str, str | None], dict[tuple[int, str, str | None], Object]] = {}
    for member in _reported(items):
        for one in trees.get(member, "loadBalancer", "ingress") or ():
            key = (one.get("hostname") or "", one.get("ip") or "", one.get("ipMode") if with_mode else None)
            ports = found.setdefault(key, {})
            for port in one.get("ports") or ():
                ports[int(port.get("port") or 0), port.get("protocol") or "", port.get("error")] = port
    return [
        _address(key, found[key])
        for key in sorted(found, key=lambda key: (key[0] == "", key[0], key[1], *_last(key[2])))
    ]


def _address(key: tuple[str, str, str | None], ports: Mapping[tuple[int, str, str | None], Object]) -> dict[str, Any]:
    hostname, ip, mode = key
    address: dict[str, Any] = {"hostname": hostname, "ip": ip, "ipMode": mode}
    if ports:
        address["ports"] = [
            dict(ports[port]) for port in sorted(ports, key=lambda one: (one[0], one[1], *_first(one[2])))
        ]
    return {name: value for name, value in address.items() if value}


def _first(text: str | None) -> tuple[bool, str]:
    """A place in an order where what is absent comes first."""
    return text is not None, text or ""


def _last(text: str | None) -> tuple[bool, str]:
    """A place in an order where what is absent comes last."""
    return text is None, text or ""


def of_job(obj: Object, items: Items, now: str) -> Status:
    """Counters added up; complete when all members are, failed when one is. A finished Job keeps its status."""
    if _finished(obj.get("status") or {}) is not None:
        return obj.get("status")
    reported = [(item.get("clusterName", ""), item["status"]) for item in items if item.get("status") is not None]
    status: dict[str, Any] = {
        name: sum(int(member.get(name) or 0) for _, member in reported) for name in ("active", "succeeded", "failed")
    }
    ends = [_finished(member) for _, member in reported]
    failed = [cluster for (cluster, _), end in zip(reported, ends, strict=True) if end == "Failed"]
    conditions = []
    if failed:
        clusters = ",".join(failed)
        conditions.append(_true("Failed", "JobFailed", f"Job executed failed in member clusters {clusters}", now))
    if ends and ends.count("Complete") == len(items):
        conditions.append(_true("Complete", "Completed", "Job completed", now))
        if sum(_has(member, "SuccessCriteriaMet") for _, member in reported) == len(items):
            message = "All member clusters have met success criteria"
            conditions.append(_true("SuccessCriteriaMet", "CompletionsReached", message, now))
    if conditions:
        status["conditions"] = conditions
    began = trees.get(obj, "status", "startTime")
    starts = [member["startTime"] for _, member in reported if member.get("startTime")]
    if began is None and starts and len(starts) == len(items):
        began = min(starts, key=times.parse)
    ended = [member["completionTime"] for _, member in reported if member.get("completionTime")]
    status["startTime"] = began
    status["completionTime"] = max(ended, key=times.parse) if ended and len(ended) == len(items) else None
    return {name: value for name, value in status.items() if value}


def _true(kind: str, reason: str, message: str, now: str) -> dict[str, str]:
    return {
        "type": kind,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastProbeTime": now,
        "lastTransitionTime": now,
    }


def _has(status: Object, kind: str) -> bool:
    return any(one.get("type") == kind and one.get("status") == "True" for one in status.get("conditions") or ())


def _finished(status: Object) -> str | None:
    """How a Job has ended: the first of its conditions that says so."""
    for one in status.get("conditions") or ():
        if one.get("type") in ("Complete", "Failed") and one.get("status") == "True":
            return str(one["type"])
    return None


def of_cron_job(obj: Object, items: Items, now: str) -> Status:
    """All active Jobs, and the latest times."""
    reported = _reported(items)
    status = _current(obj)
    active = [one for member in reported for one in member.get("active") or ()]
    status["active"] = active or None
    for name in ("lastScheduleTime", "lastSuccessfulTime"):
        known = [member[name] for member in reported if member.get(name)]
        status[name] = max(known, key=times.parse) if known else None
    return {name: value for name, value in status.items() if value is not None}


#: What every container status has to have; which container it is gets lost, as upstream has it.
_CONTAINER: Final = {"name": "", "image": "", "imageID": "", "restartCount": 0}


def of_pod(obj: Object, items: Items, now: str) -> Status:
    """The worst phase, and the state of every container; without any items the status stays."""
    if not items:
        return obj.get("status")
    status: dict[str, Any] = {"phase": _worst(items, ("Failed", "Pending", "Running", "Succeeded"))}
    for name in ("containerStatuses", "initContainerStatuses"):
        found = [
            {**_CONTAINER, "ready": bool(one.get("ready")), "state": one.get("state") or {}}
            for member in _reported(items)
            for one in member.get(name) or ()
        ]
        if found:
            status[name] = found
    return {name: value for name, value in status.items() if value}


def of_volume(obj: Object, items: Items, now: str) -> Status:
    """The worst phase."""
    phase = _worst(items, ("Failed", "Pending", "Available", "Bound", "Released"))
    return {"phase": phase} if phase else {}


def _worst(items: Items, order: Sequence[str]) -> str:
    """The first phase of an order that a member has; what has no status yet is pending."""
    phases = {"Pending" if item.get("status") is None else item["status"].get("phase") for item in items}
    return next((phase for phase in order if phase in phases), "")


def of_claim(obj: Object, items: Items, now: str) -> Status:
    """Lost if one is lost, otherwise the last phase that is not Bound."""
    phase = "Bound"
    for member in _reported(items):
        if member.get("phase") == "Lost":
            phase = "Lost"
            break
        if member.get("phase") != "Bound":
            phase = member.get("phase") or ""
    return {"phase": phase} if phase else {}


def of_disruption_budget(obj: Object, items: Items, now: str) -> Status:
    """Counters added up, and disrupted pods with their clusters."""
    counters = [name for name in statuses.DISRUPTION_BUDGET if name != "disruptedPods"]
    status = plain_sums(counters)(obj, items, now) or {}
    disrupted = {
        f"{item.get('clusterName', '')}/{name}": when
        for item in items
        for name, when in ((item.get("status") or {}).get("disruptedPods") or {}).items()
    }
    return {**status, "disruptedPods": disrupted} if disrupted else status
