"""The permissions that `rota batch-controller` needs at an API server."""

from rota.api.batch import kinds
from rota.client.rights import Right, table
from rota.controllers.batch.beside import LEASE, Settings
from rota.controllers.batch.webhooks import NAME

_READ = "get,list,watch"
_REGISTRATION = "admissionregistration.k8s.io"
_AUTHORIZATION = "authorization.k8s.io"


def _registration(hooks: str) -> tuple[Right, ...]:
    """Configurations of other webhooks are none of its business; a creation cannot be limited to a name."""
    return (*table("create", hooks, _REGISTRATION), *table("get,patch", hooks, _REGISTRATION, name=NAME))


def needed(settings: Settings) -> tuple[Right, ...]:
    """All permissions."""
    namespace = settings.lease_namespace
    served = settings.webhooks is not None or settings.registered is not None
    hooks = "mutatingwebhookconfigurations,validatingwebhookconfigurations"
    return (
        *table("create,get", "customresourcedefinitions", "apiextensions.k8s.io"),
        *table(f"{_READ},create,delete", "jobs", kinds.BATCH),
        *table(_READ, "cronjobs", kinds.BATCH),
        *table("update", "jobs/status,cronjobs/status", kinds.BATCH),
        *table(f"{_READ},delete", "commands", kinds.BUS),
        *table(_READ, "jobflows,jobtemplates", kinds.FLOW),
        *table("update", "jobflows/status,jobtemplates/status", kinds.FLOW),
        *table(f"{_READ},create,delete,patch", "podgroups", kinds.SCHEDULING),
        *table(f"{_READ},create,patch", "queues", kinds.SCHEDULING),
        *table("patch", "queues/status", kinds.SCHEDULING),
        *table(f"{_READ},create,delete,update", "hypernodes", kinds.TOPOLOGY),
        *table("update", "hypernodes/status", kinds.TOPOLOGY),
        *table(f"{_READ},create,delete,patch", "pods"),
        *table("create,get,list,update,watch", "configmaps"),
        *table("create,get", "persistentvolumeclaims,services"),
        *table("create", "secrets"),
        *table("create,get", "networkpolicies", "networking.k8s.io"),
        *table("get,list,watch", "nodes"),
        *table("get", "namespaces"),
        *table(_READ, "replicasets,statefulsets", "apps"),
        *table(_READ, "jobs", "batch"),
        *table(_READ, "priorityclasses", "scheduling.k8s.io"),
        *table("create,patch", "events", loses="events about batch objects"),
        *table("create", "leases", "coordination.k8s.io", namespace=namespace),
        *table("get,update", "leases", "coordination.k8s.io", namespace=namespace, name=LEASE),
        *(_registration(hooks) if settings.registered is not None else ()),
        *(table("create", "subjectaccessreviews", _AUTHORIZATION) if served else ()),
    )
