"""A configuration of Prometheus that finds and reads masters and workers. Pure.

Prometheus finds workers by the API (role `node`), so it follows machines that join and leave. Some builds cannot do
that, Debian's among them; for them `targets` makes the content of a file that Prometheus reads again when it changes.
Masters and workers are read with one token, whose user needs the rights of `RIGHTS`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from rota.api import meta
from rota.monitoring.alerts import BACKUPS, MASTERS, WORKERS

Document = dict[str, Any]

ACCOUNT: Final = "prometheus"
NAMESPACE: Final = "kube-system"

#: The account of Prometheus: it reads metrics of masters and workers, and discovery lists nodes.
RIGHTS: Final[Sequence[Document]] = (
    {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE}},
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "rota:prometheus"},
        "rules": [
            {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]},
            {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
        ],
    },
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "rota:prometheus"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "rota:prometheus"},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
    },
)


def configuration(
    servers: Sequence[str],
    *,
    token_file: str,
    ca_file: str,
    rule_files: Sequence[str] = ("rules.yaml",),
    alertmanagers: Sequence[str] = (),
    interval_s: int = 15,
    workers_file: str = "",
    backups: Sequence[str] = (),
) -> Document:
    """A configuration of Prometheus for the masters at these addresses; workers are in `workers_file`, if given.

    `backups` are the addresses of `rota backup --http`.
    """

    def access() -> Document:
        return {
            "authorization": {"type": "Bearer", "credentials_file": token_file},
            "tls_config": {"ca_file": ca_file},
        }

    by_api = {"kubernetes_sd_configs": [{"role": "node", "api_server": servers[0], **access()}]}
    # The node's name instead of its address: addresses change.
    named = [
        {"source_labels": ["__meta_kubernetes_node_name"], "target_label": "node"},
        {"source_labels": ["__meta_kubernetes_node_name"], "target_label": "instance"},
    ]
    workers = {"file_sd_configs": [{"files": [workers_file]}]} if workers_file else {**by_api, "relabel_configs": named}
    made: Document = {
        "global": {"scrape_interval": f"{interval_s}s", "evaluation_interval": f"{interval_s}s"},
        "rule_files": list(rule_files),
        "scrape_configs": [
            {
                "job_name": MASTERS,
                "scheme": "https",
                **access(),
                "static_configs": [{"targets": [urlsplit(one).netloc for one in servers]}],
            },
            {"job_name": WORKERS, "scheme": "https", **access(), **workers},
        ],
    }
    if backups:
        made["scrape_configs"].append({"job_name": BACKUPS, "static_configs": [{"targets": list(backups)}]})
    if alertmanagers:
        made["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": list(alertmanagers)}]}]}
    return made


def targets(nodes: Iterable[Mapping[str, Any]]) -> list[Document]:
    """The workers of these nodes for `file_sd_configs`; nodes without an endpoint are left out."""
    found = []
    for node in sorted(nodes, key=meta.name):
        status = node.get("status") or {}
        port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port")
        address = next((one["address"] for one in status.get("addresses") or () if one["type"] == "InternalIP"), "")
        if port and address:
            host = f"[{address}]" if ":" in address else address
            name = meta.name(node)
            found.append({"targets": [f"{host}:{port}"], "labels": {"node": name, "instance": name}})
    return found
