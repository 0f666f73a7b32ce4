"""What a queue has, as quantities of its status."""

from collections.abc import Mapping
from typing import Any

from rota.scheduler.batch.amounts import CPU, EPSILON, MEMORY, PODS, Amounts


def quantities(allocated: Amounts | None) -> dict[str, str]:
    """Give amounts as quantities; resources that are not used are left out, apart from cpu and memory."""
    if allocated is None:
        return {}
    found = {CPU: _thousandths(allocated.cpu), MEMORY: str(round(allocated.memory))}
    for name, amount in sorted(allocated.others.items()):
        if amount >= EPSILON:
            found[name] = str(round(amount)) if name == PODS else _thousandths(amount)
    return found


def replaced(queue: Mapping[str, Any], allocated: Mapping[str, str]) -> dict[str, str | None]:
    """Give a merge patch that also removes what the queue no longer uses."""
    old = (queue.get("status") or {}).get("allocated") or {}
    return {**dict.fromkeys(old), **allocated}


def _thousandths(amount: float) -> str:
    number = round(amount)
    return str(number // 1000) if number % 1000 == 0 else f"{number}m"
