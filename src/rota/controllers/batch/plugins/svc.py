"""Plugin svc: the pods of a Job have names, and each has the lists of all of them.

A headless Service makes `<pod>.<job>` resolve; the lists are files below `/etc/volcano` and variables. A NetworkPolicy
admits connections between pods of the Job only, where the cluster enforces such policies.
"""

from collections.abc import Iterator
from typing import Any, Final

from rota.api import meta
from rota.api.batch import kinds
from rota.api.meta import Object
from rota.controllers.batch.plugins.plugin import Plugin, Pod, Task, Wanted, hosts, mount, owned, set_variable

_SERVICES: Final = ("", "v1", "services")
_CONFIG_MAPS: Final = ("", "v1", "configmaps")
_POLICIES: Final = ("networking.k8s.io", "v1", "networkpolicies")
_FOLDER: Final = "/etc/volcano"
#: A Service needs a port; nothing listens on this one.
_PORT: Final = {"name": "placeholder-volcano", "port": 1, "protocol": "TCP", "targetPort": 1}


class Svc(Plugin):
    """Names and lists of pods."""

    def shape(self, pod: Pod, job: Object, task: Task, index: int) -> None:
        """Name the pod, mount the lists, set the variables."""
        spec = pod["spec"]
        spec["hostname"] = spec.get("hostname") or pod["metadata"]["name"]
        spec["subdomain"] = spec.get("subdomain") or meta.name(job)
        mount(pod, config_name(job), {"configMap": {"name": config_name(job)}}, _FOLDER)
        if self.arguments.flag("inject-hosts-env"):
            for key in _lists(job):
                if key.startswith("VC_"):
                    set_variable(pod, key, source={"configMapKeyRef": {"name": config_name(job), "key": key}})

    def wanted(self, job: Object) -> Iterator[Wanted]:
        """Service, lists, and policy."""
        labels = {kinds.JOB_NAME: meta.name(job), kinds.JOB_NAMESPACE: meta.namespace(job)}
        published = self.arguments.flag("publish-not-ready-addresses")
        service = {
            "clusterIP": "None",
            "selector": labels,
            "publishNotReadyAddresses": published,
            "ports": [dict(_PORT)],
        }
        yield Wanted(
            target=_SERVICES,
            name=meta.name(job),
            make=lambda: owned(job, "v1", "Service", meta.name(job), spec=service),
        )
        yield Wanted(
            target=_CONFIG_MAPS,
            name=config_name(job),
            make=lambda: owned(job, "v1", "ConfigMap", config_name(job), data=_lists(job)),
            follows=True,
        )
        if not self.arguments.flag("disable-network-policy"):
            policy: dict[str, Any] = {
                "podSelector": {"matchLabels": labels},
                "ingress": [{"from": [{"podSelector": {"matchLabels": labels}}]}],
                "policyTypes": ["Ingress"],
            }
            yield Wanted(
                target=_POLICIES,
                name=meta.name(job),
                make=lambda: owned(job, "networking.k8s.io/v1", "NetworkPolicy", meta.name(job), spec=policy),
            )


def config_name(job: Object) -> str:
    """The ConfigMap with the lists."""
    return f"{meta.name(job)}-svc"


def _lists(job: Object) -> dict[str, str]:
    found: dict[str, str] = {}
    for task in job["spec"].get("tasks") or ():
        names, stem = hosts(job, task), task["name"].upper().replace("-", "_")
        found[f"{task['name']}.host"] = "\n".join(names)
        found[f"VC_{stem}_HOSTS"] = ",".join(names)
        found[f"VC_{stem}_NUM"] = str(len(names))
    return found
