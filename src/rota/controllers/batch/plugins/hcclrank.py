"""Plugin hcclrank: the rank of a pod for Ascend's collective communication, as an annotation."""

from typing import Final

from rota.api.meta import Object
from rota.controllers.batch.plugins.plugin import Plugin, Pod, Task, rank

_ANNOTATION: Final = "hccl/rankIndex"


class HcclRank(Plugin):
    """Masters first, then workers."""

    def shape(self, pod: Pod, job: Object, task: Task, index: int) -> None:
        """Annotate the pod, unless its template has a rank, or a variable RANK that says it."""
        annotations = pod["metadata"]["annotations"]
        if _ANNOTATION in annotations:
            return
        for container in pod["spec"].get("containers") or ():
            for variable in container.get("env") or ():
                if variable.get("name") == "RANK" and variable.get("value"):
                    annotations[_ANNOTATION] = variable["value"]
                    return
        own = rank(job, task, index, master=self.arguments.text("master"), worker=self.arguments.text("worker"))
        if own is not None:
            annotations[_ANNOTATION] = str(own)
