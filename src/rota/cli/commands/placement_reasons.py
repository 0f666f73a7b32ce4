"""One line on why a task is on its node or pending, from the scheduler's explanation. Pure, except for `ask`."""

import contextlib
from collections.abc import Mapping
from typing import Any, Final

from rota.api import errors, meta
from rota.client import paths, wire
from rota.client.pods import PODS
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, Object
from rota.kit import system

#: Timeout of the request for a reason.
_PATIENCE_S: Final = 1.0
_MOST_NODES: Final = 10
_MOST_HINTS: Final = 3


async def ask(client: Client, pod: Object) -> Object:
    """The scheduler's explanation; empty if there is none."""
    path = paths.item(PODS, meta.name(pod), namespace=meta.namespace(pod), subresource="explain")
    once = client.with_settings(retry=False)
    query = [("limit", str(_MOST_NODES))]
    with contextlib.suppress(errors.ApiError, TransportError, TimeoutError):
        answer = system.SystemClock().wait_for(once.request("GET", path, query=query), _PATIENCE_S)
        return wire.decode_object(await answer)
    return {}


def reason(explanation: Mapping[str, Any], node: str) -> str:
    """Why it is on that node; empty if the explanation does not say."""
    nodes = explanation.get("nodes") or []
    here = next((one for one in nodes if one.get("name") == node), None)
    if here is None or not here.get("feasible"):
        return ""
    fitting = [one for one in nodes if one.get("feasible")]
    best = [one for one in fitting if one.get("best")]
    total = len(nodes) + explanation.get("omitted", 0)
    if total == 1:
        return "the only node there is"
    if len(fitting) == 1:
        return f"the only one of {total} nodes that takes it"
    scores = ", ".join(f"{one['plugin']} {one['weighted']}" for one in here.get("scores") or () if one.get("weighted"))
    why = f"score {here.get('total', 0)}{f': {scores}' if scores else ''}"
    if not here.get("best"):
        return f"it has room ({why})"
    if len(best) == 1:
        return f"the best of {total} nodes ({why})"
    return f"one of the {len(best)} best of {total} nodes ({why})"


def hints(explanation: Mapping[str, Any]) -> list[str]:
    """What would have to change for it to be scheduled, most promising first."""
    return [str(one["text"]) for one in (explanation.get("changes") or ())[:_MOST_HINTS]]
