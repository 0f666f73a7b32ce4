"""Names of Volcano's kinds, labels, annotations and phases, as clients and manifests write them.

A PodGroup has no `status` subresource, as upstream: its status is written with the object.
"""

from typing import Final, TypeAlias

Target: TypeAlias = tuple[str, str, str]

BATCH: Final = "batch.volcano.sh"
BUS: Final = "bus.volcano.sh"
FLOW: Final = "flow.volcano.sh"
SCHEDULING: Final = "scheduling.volcano.sh"
TOPOLOGY: Final = "topology.volcano.sh"
NODE_INFO: Final = "nodeinfo.volcano.sh"
SHARD: Final = "shard.volcano.sh"

JOBS: Final[Target] = (BATCH, "v1alpha1", "jobs")
CRON_JOBS: Final[Target] = (BATCH, "v1alpha1", "cronjobs")
COMMANDS: Final[Target] = (BUS, "v1alpha1", "commands")
JOB_TEMPLATES: Final[Target] = (FLOW, "v1alpha1", "jobtemplates")
JOB_FLOWS: Final[Target] = (FLOW, "v1alpha1", "jobflows")
POD_GROUPS: Final[Target] = (SCHEDULING, "v1beta1", "podgroups")
QUEUES: Final[Target] = (SCHEDULING, "v1beta1", "queues")
HYPER_NODES: Final[Target] = (TOPOLOGY, "v1alpha1", "hypernodes")
NUMA_TOPOLOGIES: Final[Target] = (NODE_INFO, "v1alpha1", "numatopologies")
NODE_SHARDS: Final[Target] = (SHARD, "v1alpha1", "nodeshards")

#: The scheduler of jobs that name none.
SCHEDULER: Final = "volcano"
DEFAULT_QUEUE: Final = "default"
ROOT_QUEUE: Final = "root"

#: On a pod: its group. The second is upstream's older spelling.
GROUP_NAME: Final = "scheduling.k8s.io/group-name"
OWN_GROUP_NAME: Final = "scheduling.volcano.sh/group-name"
#: On a pod or its owner: the queue of the group that is made for it, and how many of its pods start together.
QUEUE_NAME: Final = "scheduling.volcano.sh/queue-name"
MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"

JOB_NAME: Final = "volcano.sh/job-name"
JOB_NAMESPACE: Final = "volcano.sh/job-namespace"
JOB_QUEUE: Final = "volcano.sh/queue-name"
JOB_VERSION: Final = "volcano.sh/job-version"
JOB_RETRIES: Final = "volcano.sh/job-retry-count"
TASK_SPEC: Final = "volcano.sh/task-spec"
TASK_INDEX: Final = "volcano.sh/task-index"
TEMPLATE_UID: Final = "volcano.sh/template-uid"
PARTITION: Final = "volcano.sh/partition-id"
PREEMPTABLE: Final = "volcano.sh/preemptable"
#: On a Job of a flow: `<namespace>.<flow>` and `<namespace>.<template>`.
CREATED_BY_FLOW: Final = "volcano.sh/createdByJobFlow"
CREATED_BY_TEMPLATE: Final = "volcano.sh/createdByJobTemplate"
#: On a group: how long it is expected to run.
RUNNING_ESTIMATE: Final = "rota.dev/running-estimate"
#: On a queue that was closed together with its parent.
CLOSED_BY_PARENT: Final = "volcano.sh/closed-by-parent"
