"""The resources that the batch profile reads and writes."""

from typing import Final

Target = tuple[str, str, str]

POD_GROUPS: Final[Target] = ("scheduling.volcano.sh", "v1beta1", "podgroups")
QUEUES: Final[Target] = ("scheduling.volcano.sh", "v1beta1", "queues")
HYPER_NODES: Final[Target] = ("topology.volcano.sh", "v1alpha1", "hypernodes")
PRIORITY_CLASSES: Final[Target] = ("scheduling.k8s.io", "v1", "priorityclasses")
NUMA_TOPOLOGIES: Final[Target] = ("nodeinfo.volcano.sh", "v1alpha1", "numatopologies")
NODE_METRICS: Final[Target] = ("metrics.k8s.io", "v1beta1", "nodes")
QUOTAS: Final[Target] = ("", "v1", "resourcequotas")
#: By kind, with the section of `scheduler.batch.objects` that checks it.
WATCHED: Final[dict[str, tuple[Target, str]]] = {
    "PodGroup": (POD_GROUPS, "podGroups"),
    "Queue": (QUEUES, "queues"),
    "HyperNode": (HYPER_NODES, "hyperNodes"),
    "Numatopology": (NUMA_TOPOLOGIES, "numatopologies"),
    "PriorityClass": (PRIORITY_CLASSES, "priorityClasses"),
    "ResourceQuota": (QUOTAS, "resourceQuotas"),
}
