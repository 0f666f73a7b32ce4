"""Label and field selectors on stored bytes, decoding no more than necessary.

Without selectors nothing is decoded, for label selectors only the labels, and the whole object only for field selectors
on fields other than its name and namespace, which are in the key.
"""

from collections.abc import Mapping
from typing import Final

from rota.api import errors, fieldselectors, keys, selectors
from rota.api.identifiers import GroupVersionKind
from rota.api.kinds import ResourceType
from rota.apiserver import stored_form

_MOST_EXTRACTED: Final = 1024
_extracted: Final[dict[GroupVersionKind, dict[bytes, Mapping[str, str]]]] = {}
_IN_KEY: Final = frozenset({"metadata.name", "metadata.namespace"})


class Selection:
    """The selected objects of a resource."""

    __slots__ = ("_by_key", "_extract", "_fields", "_known", "_labels", "_resource", "texts")

    def __init__(
        self,
        resource: ResourceType,
        *,
        labels: str = "",
        fields: str = "",
        extra_fields: Mapping[str, fieldselectors.Reader] | None = None,
    ) -> None:
        """BadRequest if a selector is invalid."""
        self._resource: Final = resource
        #: The label and field selectors as they were written.
        self.texts: Final = labels, fields
        try:
            self._labels: Final = selectors.parse(labels) if labels else selectors.EVERYTHING
        except selectors.SelectorError as error:
            raise errors.bad_request(str(error)) from None
        try:
            self._fields: Final = (
                fieldselectors.compile_selector(fields, resource.group_kind, extra_fields)
                if fields
                else fieldselectors.EVERYTHING
            )
        except fieldselectors.FieldSelectorError as error:
            raise errors.bad_request(str(error)) from None
        self._by_key: Final = all(term.field in _IN_KEY for term in self._fields.terms)
        self._extract: Final = fieldselectors.extractor(resource.group_kind, extra_fields)
        # the selectable fields of custom kinds change with their definitions
        self._known: Final = None if resource.custom else _extracted.setdefault(resource.gvk, {})

    @property
    def everything(self) -> bool:
        """Whether all objects are selected."""
        return self._labels.empty and self._fields.empty

    @property
    def name(self) -> str | None:
        """The one name that is selected, if there is only one."""
        return self._fields.required_value("metadata.name")

    @property
    def namespace(self) -> str | None:
        """The one namespace that is selected, if there is only one."""
        return self._fields.required_value("metadata.namespace")

    def matches(self, key: str, value: bytes) -> bool:
        """Whether a stored object is selected."""
        if not self._labels.empty and not self._labels.matches(stored_form.labels(value)):
            return False
        if self._fields.empty:
            return True
        if self._by_key:
            parts = keys.split(key)
            return self._fields.matches({"metadata.name": parts.name, "metadata.namespace": parts.namespace})
        return self._fields.matches(self._selectable(value))

    def _selectable(self, value: bytes) -> Mapping[str, str]:
        """The selectable fields of an object: every worker's watch needs those of the same pods."""
        if self._known is None:
            return self._extract(stored_form.decode(value, 0, self._resource))
        found = self._known.get(value)
        if found is None:
            if len(self._known) >= _MOST_EXTRACTED:
                self._known.clear()
            found = self._known[value] = self._extract(stored_form.decode(value, 0, self._resource))
        return found
