"""Plugin tensorflow: `TF_CONFIG`, the cluster as TensorFlow's distribution strategies read it."""

import json

from rota.api.meta import Object
from rota.controllers.batch.plugins.plugin import Plugin, Pod, Task, hosts, set_port, set_variable, task_named


class Tensorflow(Plugin):
    """Parameter servers, workers, a chief, evaluators."""

    def shape(self, pod: Pod, job: Object, task: Task, index: int) -> None:
        """Set the variable with all addresses and the pod's own place."""
        roles = {self.arguments.text(role): role for role in ("ps", "worker", "chief", "evaluator")}
        port = self.arguments.number("port")
        cluster = {
            role: [f"{one}:{port}" for one in hosts(job, task_named(job, name))]
            for name, role in roles.items()
            if task_named(job, name) is not None and role != "evaluator"
        }
        if task["name"] not in roles:
            return
        own = {"type": roles[task["name"]], "index": index}
        set_variable(pod, "TF_CONFIG", json.dumps({"cluster": cluster, "task": own}))
        set_port(pod, "tensorflow-port", port)
