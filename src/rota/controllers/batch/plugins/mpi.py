"""Plugin mpi: the master knows the hosts of its workers, which listen for ssh."""

from rota.api.meta import Object
from rota.controllers.batch.plugins.plugin import Plugin, Pod, Task, hosts, set_port, set_variable, task_named


class Mpi(Plugin):
    """Master and workers."""

    def shape(self, pod: Pod, job: Object, task: Task, index: int) -> None:
        """Set the list of hosts on the master, and the port of ssh on all."""
        if task["name"] == self.arguments.text("master"):
            workers = hosts(job, task_named(job, self.arguments.text("worker")))
            set_variable(pod, "MPI_HOST", ",".join(workers))
        if task["name"] in (self.arguments.text("master"), self.arguments.text("worker")):
            set_port(pod, "mpijob-port", self.arguments.number("port"))
