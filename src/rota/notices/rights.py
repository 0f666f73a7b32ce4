"""What sources of notices do at an API server, as rights."""

from rota.client.rights import Right, table
from rota.notices.node_events import NAMESPACE

#: To hear what events say about nodes.
EVENTS = table("list,watch", "events", namespace=NAMESPACE, loses="notices that only events tell")


def needed_by_agent(node: str) -> tuple[Right, ...]:
    """All that an agent uses: its own node and nothing else."""
    return table("get,patch", "nodes", name=node)


def needed_by_webhook() -> tuple[Right, ...]:
    """All that a webhook uses."""
    return table("get,list,watch,patch", "nodes")
