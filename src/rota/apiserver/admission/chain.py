"""All admission of the server, in the order in which it runs."""

from rota.apiserver.admission.node_capacity import NodeCapacity
from rota.apiserver.contract import Admission, Registry
from rota.apiserver.occupancy.ledger import Ledger


def mutating(registry: Registry, ledger: Ledger | None) -> tuple[Admission, ...]:
    """The rules that run before validation; without a ledger, nodes are not guarded against overselling."""
    capacity = (NodeCapacity(registry, ledger),) if ledger is not None else ()
    return (*capacity,)
