"""GET of one object."""

from rota.api import errors
from rota.apiserver import responses, stored_form
from rota.apiserver.registry import freshness, revisions
from rota.apiserver.verbs import rendering
from rota.apiserver.verbs.calls import Call


async def get(call: Call) -> responses.Response:
    """The object as it stands; a resourceVersion says how old the answer may be, and ours is always the newest."""
    wanted = revisions.parse(call.request.query.get("resourceVersion", ""))
    if wanted:
        await freshness.reach(call.registry.store, wanted, call.registry.clock)
    entry = await call.registry.store.get(stored_form.key(call.resource, call.at.namespace, call.at.name))
    if entry is None:
        raise errors.not_found(call.resource.group_resource, call.at.name)
    return rendering.stored(call, entry.value, entry.revision)
