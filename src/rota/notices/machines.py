"""Which node is which machine, by what its cloud calls it: a small copy of the nodes' names.

`spec.providerID` says it, in a form of each cloud's own: `aws:///us-east-1a/i-0abc`, `gce://project/zone/name`,
`azure:///subscriptions/.../virtualMachineScaleSets/pool/virtualMachines/3` for the machine `pool_3`.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from rota.client.informers.informer import Informer
from rota.client.informers.reflector import Source
from rota.client.verbs import Client
from rota.kit.backoff import Chance
from rota.kit.clock import Clock
from rota.notices.announcing import NODES
from rota.notices.messages import Machine

_BY_MACHINE: Final = "machine"
_SETS: Final = "virtualmachinescalesets"


class _Metadata(msgspec.Struct, frozen=True, gc=False):
    name: str


class _Spec(msgspec.Struct, frozen=True, gc=False):
    provider_id: str = msgspec.field(name="providerID", default="")


class _Node(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a node."""

    metadata: _Metadata
    spec: _Spec = _Spec()


def names(provider_id: str) -> Iterable[str]:
    """By what a machine is known, in lower case: its whole id, and what its cloud calls it."""
    if not provider_id:
        return ()
    whole = provider_id.lower()
    _, _, path = whole.partition("://")
    parts = [one for one in path.split("/") if one]
    found = {whole, *parts[-1:]}
    # a machine of a set has its number for a name; messages have both
    if len(parts) >= 4 and parts[-4] == _SETS:
        found = {whole, f"{parts[-3]}_{parts[-1]}"}
    return found


class Machines:
    """Follows nodes, and finds them by their machines."""

    def __init__(self, client: Client, *, clock: Clock, chance: Chance) -> None:
        self._informer: Final = Informer[_Node](
            Source(client=client, target=NODES),
            decode=msgspec.json.Decoder(_Node).decode,
            clock=clock,
            chance=chance,
            indexers={_BY_MACHINE: lambda node: names(node.spec.provider_id)},
        )
        self.run: Final = self._informer.run

    @property
    def synced(self) -> bool:
        """Whether all nodes are known."""
        return self._informer.synced

    def find(self, machine: Machine) -> list[str]:
        """The nodes that may be meant: more than one where a name was given twice."""
        if machine.node:
            return [machine.node]
        wanted = (machine.provider_id or machine.instance).lower()
        return sorted(one.metadata.name for one in self._informer.cache.indexed(_BY_MACHINE, wanted))
