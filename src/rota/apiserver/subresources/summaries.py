"""A worker's statistics of itself and its pods: the used part of a kubelet's `/stats/summary`. Pure.

A missing value is None; other fields are ignored.
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
    """Of a summary: bytes since the interface came up."""

    received: int | None = msgspec.field(name="rxBytes", default=None)
    sent: int | None = msgspec.field(name="txBytes", default=None)


class Used(msgspec.Struct, frozen=True):
    """The usage of a node or a container; disk and network are reported for nodes only."""

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
    #: Only of pods with their own network.
    network: Network = Network()


class Summary(msgspec.Struct, frozen=True):
    """A worker's summary: the part of a kubelet's summary that is needed here."""

    node: Used
    pods: list[PodUsed]
    #: The interval of the rates in seconds; kubelets do not report it.
    window: float = 10.0
