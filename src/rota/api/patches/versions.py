"""The versions in which one kind is served.

managedFields names fields in the version in which they were written, so bookkeeping has to look at an object in all of
these versions. Entries in a version that is no longer served are forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rota.api.patches.json_values import JsonObject
from rota.api.patches.schemas import DEDUCED, TypeSchema


def only_rename(obj: JsonObject, api_version: str) -> JsonObject:
    """The conversion of kinds whose versions differ in name only."""
    return {**obj, "apiVersion": api_version}


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """The versions in which one kind is served: their schemas, and how an object moves between them."""

    schemas: Mapping[str, TypeSchema]
    convert: Callable[[JsonObject, str], JsonObject] = only_rename

    def at(self, obj: JsonObject, api_version: str) -> JsonObject | None:
        """The object in another version; None if that version is not served (any more)."""
        if obj.get("apiVersion") == api_version:
            return obj
        return self.convert(obj, api_version) if api_version in self.schemas else None

    def schema(self, api_version: str) -> TypeSchema:
        """The schema of one version; deduced from the values where there is none."""
        return self.schemas.get(api_version, DEDUCED)
