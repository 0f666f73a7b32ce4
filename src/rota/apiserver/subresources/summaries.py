"""What a worker says of itself and its pods: as much of a kubelet's `/stats/summary` as is shown on. Pure.

What is not said is None; what a worker says beyond this is not looked at.
"""

import msgspec


class Cpu(msgspec.Struct, frozen=True):
    """Of a summary."""

    time: str = ""
    nanocores: int | None = msgspec.field(name="usageNanoCores", default=None)


class Memory(msgspec.Struct, frozen=True):
    """Of a summary."""

    working_set: int | None = msgspec.field(name="workingSetBytes", default=None)


class Disk(msgspec.Struct, frozen=True):
    """Of a summary."""

    used: int | None = msgspec.field(name="usedBytes", default=None)


class Network(msgspec.Struct, frozen=True):
    """Of a summary: bytes since it came up."""

    received: int | None = msgspec.field(name="rxBytes", default=None)
    sent: int | None = msgspec.field(name="txBytes", default=None)


class Used(msgspec.Struct, frozen=True):
    """What a node or a container uses; disk and network are told of nodes only."""

    name: str = ""
    cpu: Cpu = Cpu()
    memory: Memory = Memory()
    disk: Disk = msgspec.field(name="fs", default=Disk())
    network: Network = Network()


class PodReference(msgspec.Struct, frozen=True):
    """Which pod."""

    uid: str = ""


class PodUsed(msgspec.Struct, frozen=True):
    """What a pod uses."""

    pod: PodReference = msgspec.field(name="podRef")
    containers: list[Used] = []
    disk: Disk = msgspec.field(name="ephemeral-storage", default=Disk())
    #: Only of pods that have a network of their own.
    network: Network = Network()


class Summary(msgspec.Struct, frozen=True):
    """What a worker says of itself: as much of a kubelet's summary as is needed here."""

    node: Used
    pods: list[PodUsed]
    #: Over how many seconds rates were taken; kubelets do not say.
    window: float = 10.0
