"""The custom kinds that a server knows, for lookups by its other packages.

`put` and `forget` are called for each change of a definition in the store; lookups never wait. A definition is served
from the acceptance of its names until it is gone, also while it is being deleted: its objects can still be read and
deleted then.
"""

from collections.abc import Collection, Sequence
from typing import Final

from rota.api.identifiers import GroupResource, GroupVersionResource
from rota.api.kinds import ResourceType
from rota.api.scheme import Scheme, SchemeError
from rota.apiserver.crd import registration
from rota.apiserver.crd.definitions import Definition, is_established
from rota.apiserver.crd.registration import CustomVersion, WebhookSettings


class CustomKindCatalog:
    """Definitions, and the kinds that they add to a scheme."""

    def __init__(self, scheme: Scheme, connecting: Collection[tuple[GroupResource, str]] = ()) -> None:
        """`connecting` are subresources that definitions cannot declare: requests for them go to another server."""
        self._scheme: Final = scheme
        self._connecting: Final = connecting
        self._definitions: dict[str, Definition] = {}
        self._versions: dict[GroupVersionResource, CustomVersion] = {}
        self._webhooks: dict[GroupResource, WebhookSettings] = {}

    @property
    def definitions(self) -> tuple[Definition, ...]:
        """All definitions, served or not; `names.claims` compares new ones with them."""
        return tuple(self._definitions.values())

    def put(self, definition: Definition) -> None:
        """Add or update a definition, and serve its kind if it is established."""
        known = self._definitions.get(definition["metadata"]["name"])
        self._definitions[definition["metadata"]["name"]] = definition
        resource = registration.resource_of(definition)
        if not is_established(definition):
            self._drop(resource)
        elif known is None or not is_established(known) or known["spec"] != definition["spec"]:
            parts = [part for of, part in self._connecting if of == resource]
            found = registration.versions(definition)
            self._serve(resource, [registration.connecting(one, parts) for one in found] if parts else found)
            webhook = registration.webhook_settings(definition)
            if webhook is not None and found and found[0].resource.gvr in self._versions:
                self._webhooks[resource] = webhook
            else:
                self._webhooks.pop(resource, None)

    def forget(self, name: str) -> None:
        """Remove a definition and its kind."""
        definition = self._definitions.pop(name, None)
        if definition is not None:
            self._drop(registration.resource_of(definition))

    def version(self, resource: ResourceType) -> CustomVersion:
        """The version of a kind without a Struct; the `SchemaLookup` of the server's `Kinds`.

        Also for kinds that have no definition, or no longer one: the caller has found them in the scheme.
        """
        return self._versions.get(resource.gvr) or registration.without_definition(resource)

    def webhook(self, resource: ResourceType) -> WebhookSettings | None:
        """The conversion webhook of a kind; None if its versions differ in name only."""
        return self._webhooks.get(resource.group_resource) if resource.custom else None

    def _serve(self, resource: GroupResource, versions: Sequence[CustomVersion]) -> None:
        try:
            self._scheme.replace(resource, [one.resource for one in versions])
        except SchemeError:
            # a built-in kind of a newer release has the same name; it wins
            self._drop(resource)
            return
        kept = {gvr: one for gvr, one in self._versions.items() if gvr.group_resource != resource}
        self._versions = kept | {one.resource.gvr: one for one in versions}

    def _drop(self, resource: GroupResource) -> None:
        self._scheme.remove(resource)
        self._webhooks.pop(resource, None)
        self._versions = {gvr: one for gvr, one in self._versions.items() if gvr.group_resource != resource}
