"""Plugin env: a pod knows its number in its task."""

from typing import Final

from rota.api.meta import Object
from rota.controllers.batch.plugins.plugin import Plugin, Pod, Task, set_variable

_NAMES: Final = ("VC_TASK_INDEX", "VK_TASK_INDEX")


class Env(Plugin):
    """Sets the variables."""

    def shape(self, pod: Pod, job: Object, task: Task, index: int) -> None:
        """Set both names, the second for programs of old."""
        for name in _NAMES:
            set_variable(pod, name, str(index))
