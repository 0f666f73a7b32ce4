"""Writing the status of a binding, of which several loops keep a part each.

Conditions are one list, so a write of one is a write of all: a write is made for the version that was read, and made
again from the newest if another was faster.
"""

from collections.abc import Mapping
from typing import Any, Final

from rota.api import errors, meta
from rota.client.verbs import Client, Object
from rota.federation import kinds

_ATTEMPTS: Final = 10


async def write(
    client: Client,
    target: kinds.Target,
    binding: Object,
    condition: Mapping[str, Any],
    members: Mapping[str, Any],
    *,
    now: str,
) -> None:
    """Set one condition and some members of a binding's status; a binding that is gone needs none."""
    name, namespace = meta.name(binding), meta.namespace(binding)
    for _ in range(_ATTEMPTS):
        present: Object = binding.get("status") or {}
        conditions = meta.with_condition(meta.conditions(binding), condition, now=now)
        wanted = {**members, "conditions": conditions}
        if all((present.get(member) or None) == (value or None) for member, value in wanted.items()):
            return
        version = meta.metadata(binding).get("resourceVersion")
        patch = {"metadata": {"resourceVersion": version}, "status": wanted}
        try:
            await client.patch(target, name, patch, namespace=namespace, subresource="status")
        except errors.NotFound:
            return
        except errors.Conflict:
            try:
                binding = await client.get(target, name, namespace=namespace)
            except errors.NotFound:
                return
        else:
            return
    raise errors.Conflict(f"the status of {name} changes too fast to be written")
