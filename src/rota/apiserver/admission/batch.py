"""Defaults and validation of Volcano's kinds, as upstream's webhooks have them (`rota.api.batch.admission`).

Commands have namespaces and queues have none, so a Command for a queue also needs the permission to update that queue.
"""

from typing import ClassVar, Final

from rota.api import errors, fields, meta
from rota.api.batch import admission
from rota.api.identifiers import GroupResource
from rota.api.patches import json_values
from rota.apiserver.interfaces import Attributes, Authorizer, Object, Question, Registry
from rota.apiserver.strategies import pod_defaults, pod_specs

_QUEUES: Final = GroupResource(*admission.QUEUES)
_PODS: Final = GroupResource(*admission.PODS)
_NAMESPACES: Final = GroupResource("", "namespaces")


class BatchRules:
    """Applies the rules; a cluster without these kinds has no objects for them."""

    pod_reads: ClassVar[frozenset[GroupResource]] = frozenset()

    def __init__(self, registry: Registry, authorizer: Authorizer) -> None:
        self._registry: Final = registry
        self._authorizer: Final = authorizer

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> None:
        """Set defaults in new objects; Invalid or Forbidden if a rule is broken."""
        resource = (at.resource.group, at.resource.plural)
        if at.subresource or resource not in admission.RESOURCES or (resource == admission.PODS and old is not None):
            return
        queues = await self._queues() if admission.needs_queues(resource, new, old) else {}
        if new is None:
            refusal = admission.deletion_refusal(resource, old or {}, queues)
            if refusal:
                raise errors.forbidden(at.resource.group_resource, at.name, refusal)
            return
        admission.set_defaults(resource, new, old, await self._namespace(at, resource))
        if resource == admission.COMMANDS:
            await self._check_target(at, new)
        found = admission.errors(resource, new, old, queues, _check_template)
        if resource == admission.POD_GROUPS and old is not None and admission.changes_queue(new, old):
            found += admission.queue_errors(new, await self._pods(at))
        if found:
            raise errors.invalid(at.resource.group_kind, meta.name(new) or at.name, found)

    async def _check_target(self, at: Attributes, command: Object) -> None:
        target = command.get("target") or {}
        if target.get("kind") != "Queue":
            return
        name = str(target.get("name") or "")
        asked = Question(user=at.user, verb="update", group=_QUEUES.group, resource=_QUEUES.resource, name=name)
        if not (await self._authorizer.authorize(asked)).allowed:
            why = f"a command for queue {name} needs the permission to update that queue"
            raise errors.forbidden(at.resource.group_resource, meta.name(command) or at.name, why)

    async def _queues(self) -> dict[str, Object]:
        resource = self._registry.scheme.preferred(_QUEUES)
        if resource is None:
            return {}
        return {meta.name(one.object): one.object for one in await self._registry.list(resource)}

    async def _pods(self, at: Attributes) -> list[Object]:
        return [one.object for one in await self._registry.list(self._registry.resource(_PODS), at.namespace)]

    async def _namespace(self, at: Attributes, resource: admission.Resource) -> Object | None:
        if resource != admission.POD_GROUPS:
            return None
        found = await self._registry.find(self._registry.resource(_NAMESPACES), "", at.namespace)
        return None if found is None else found.object


def _check_template(template: admission.Object, path: fields.Path) -> list[fields.FieldError]:
    filled = json_values.copy(dict(template))
    pod_defaults.default_spec(filled["spec"])
    return pod_specs.validate_template(filled, path)
