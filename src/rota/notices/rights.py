"""What sources of notices do at an API server, as rights."""

from typing import Final

from rota.client.rights import Right, table
from rota.notices.node_events import NAMESPACE

#: To find machines, and to mark their nodes.
MARKING: Final = table("get,list,watch,patch", "nodes")
#: To hear what events say about nodes.
EVENTS: Final = table("list,watch", "events", namespace=NAMESPACE, loses="notices that only events tell")


def needed_by_agent(node: str) -> tuple[Right, ...]:
    """All that an agent uses: its own node and nothing else."""
    return table("get,patch", "nodes", name=node)
