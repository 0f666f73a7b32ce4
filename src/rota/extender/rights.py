"""What the extender does at an API server, as rights."""

from rota.client.rights import Right, table


def needed(*, binds: bool) -> tuple[Right, ...]:
    """All rights that an extender uses."""
    return (*table("list,watch", "nodes,pods"), *(table("create", "pods/binding") if binds else ()))
