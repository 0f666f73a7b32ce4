"""The permissions that the sources of notices need."""

from typing import Final

from rota.client.rights import Right, table
from rota.notices.node_events import NAMESPACE

#: To find machines, and to taint their nodes.
MARKING: Final = table("get,list,watch,patch", "nodes")
#: To watch events about nodes.
EVENTS: Final = table("list,watch", "events", namespace=NAMESPACE, loses="notices that only events tell")


def needed_by_agent(node: str) -> tuple[Right, ...]:
    """The permissions of an agent: only its own node."""
    return table("get,patch", "nodes", name=node)
