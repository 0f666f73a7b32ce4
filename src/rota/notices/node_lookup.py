"""Finds nodes by the cloud's name of their machine, and nodes that outlived their deadline.

A small cache of nodes. `spec.providerID` has a form of each cloud's own: `aws:///us-east-1a/i-0abc`,
`gce://project/zone/name`, `azure:///subscriptions/.../virtualMachineScaleSets/pool/virtualMachines/3` for the machine
`pool_3`.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from rota.client.informers.informer import Informer
from rota.client.informers.reflector import Source
from rota.client.verbs import Client
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.notices.announcements import SAID_BY
from rota.notices.announcer import NODES
from rota.notices.clouds.cloud_provider import AGENT
from rota.notices.messages import Machine
from rota.spot import timestamps
from rota.spot.node_signals import TERMINATES_AT

_BY_MACHINE: Final = "machine"
_SETS: Final = "virtualmachinescalesets"
#: A machine that exists this long after its deadline has not ended,
_SURVIVED_S: Final = 600.0
#: if it has reported since: kubelets report every five minutes.
_ALIVE_S: Final = 120.0


class _Annotations(msgspec.Struct, frozen=True, gc=False):
    said_by: str = msgspec.field(name=SAID_BY, default="")
    ends_at: str = msgspec.field(name=TERMINATES_AT, default="")


class _Metadata(msgspec.Struct, frozen=True, gc=False):
    name: str
    annotations: _Annotations | None = None


class _Spec(msgspec.Struct, frozen=True, gc=False):
    provider_id: str = msgspec.field(name="providerID", default="")


class _Condition(msgspec.Struct, frozen=True, gc=False):
    type: str
    status: str
    heard_at: str | None = msgspec.field(name="lastHeartbeatTime", default=None)


class _Status(msgspec.Struct, frozen=True, gc=False):
    conditions: tuple[_Condition, ...] | None = None


class _Node(msgspec.Struct, frozen=True, gc=False):
    """The cached part of a node."""

    metadata: _Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()


def names(provider_id: str) -> Iterable[str]:
    """The names of a machine, in lower case: its whole id, and its name in the cloud."""
    if not provider_id:
        return ()
    whole = provider_id.lower()
    _, _, path = whole.partition("://")
    parts = [one for one in path.split("/") if one]
    found = {whole, *parts[-1:]}
    # a machine of a scale set is named by its number; messages contain set and number
    if len(parts) >= 4 and parts[-4] == _SETS:
        found = {whole, f"{parts[-3]}_{parts[-1]}"}
    return found


class Machines:
    """Watches nodes, and finds them by their machines."""

    def __init__(self, client: Client, *, clock: Clock, rng: Rng) -> None:
        self._informer: Final = Informer[_Node](
            Source(client=client, target=NODES),
            decode=msgspec.json.Decoder(_Node).decode,
            clock=clock,
            rng=rng,
            indexers={_BY_MACHINE: lambda node: names(node.spec.provider_id)},
        )
        self.run: Final = self._informer.run

    @property
    def synced(self) -> bool:
        """Whether all nodes have been listed."""
        return self._informer.synced

    def find(self, machine: Machine) -> list[str]:
        """The nodes that match: more than one where a name was used twice."""
        if machine.node:
            return [machine.node]
        wanted = (machine.provider_id or machine.instance).lower()
        return sorted(one.metadata.name for one in self._informer.cache.indexed(_BY_MACHINE, wanted))

    def survivors(self, *, now: float) -> list[tuple[str, str]]:
        """Nodes whose deadline is long past and that still run, each with the source of its notice."""
        found = []
        for node in self._informer.cache.values():
            told = node.metadata.annotations
            if told is None or not told.said_by or told.said_by == AGENT:
                continue
            ends_at = timestamps.find(told.ends_at)
            if ends_at is not None and now > ends_at + _SURVIVED_S and _alive_since(node, ends_at + _ALIVE_S):
                found.append((node.metadata.name, told.said_by))
        return found


def _alive_since(node: _Node, moment: float) -> bool:
    """Whether a node has reported Ready after a time."""
    for one in node.status.conditions or ():
        if one.type == "Ready" and one.status == "True":
            heard_at = timestamps.find(one.heard_at or "")
            return heard_at is not None and heard_at > moment
    return False
