"""Plugin pytorch: the variables by which `torch.distributed` finds its master, and the ranks."""

from rota.api.meta import Object
from rota.controllers.batch.plugins.plugin import (
    Plugin,
    Pod,
    Task,
    host,
    rank,
    replicas,
    set_port,
    set_variable,
    task_named,
)


class Pytorch(Plugin):
    """Master and workers."""

    def shape(self, pod: Pod, job: Object, task: Task, index: int) -> None:
        """Set address, port, size and rank; workers may wait for the master."""
        names = self.arguments.text("master"), self.arguments.text("worker")
        own, master = rank(job, task, index, master=names[0], worker=names[1]), task_named(job, names[0])
        if own is None:
            return
        port = self.arguments.number("port")
        # Without a master task the first worker is the master.
        address = host(job, master or task, 0)
        set_port(pod, "pytorchjob-port", port)
        if self.arguments.flag("wait-master-enabled") and own > 0:
            self._wait(pod, address, port)
        set_variable(pod, "MASTER_ADDR", address)
        set_variable(pod, "MASTER_PORT", str(port))
        set_variable(pod, "WORLD_SIZE", str(replicas(master) + replicas(task_named(job, names[1]))))
        set_variable(pod, "RANK", str(own))

    def _wait(self, pod: Pod, address: str, port: int) -> None:
        tries = self.arguments.number("wait-master-timeout")
        script = f"for i in $(seq {tries}); do nc -z {address} {port} && exit 0; sleep 1; done; exit 1"
        waiting = {
            "name": "wait-for-master",
            "image": self.arguments.text("wait-master-image"),
            "command": ["sh", "-c", script],
        }
        pod["spec"].setdefault("initContainers", []).append(waiting)
