"""Names of kinds and resources: group, version, kind, resource, and their textual forms.

They are plain tuples, so they are cheap keys. Scope, verbs and schema of a kind are in `scheme`.
The core group is the empty string everywhere, as on the wire.
"""

import functools
from typing import NamedTuple


class GroupResource(NamedTuple):
    """A resource without a version, as errors name it: `deployments.apps`, `pods`."""

    group: str
    resource: str

    def __str__(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource


class GroupKind(NamedTuple):
    """A kind without a version, as validation errors name it: `Deployment.apps`, `Pod`."""

    group: str
    kind: str

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind


class GroupVersion(NamedTuple):
    """What `apiVersion` holds: `apps/v1`, `v1`."""

    group: str
    version: str

    def __str__(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


class GroupVersionKind(NamedTuple):
    """What `apiVersion` and `kind` of an object say together."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        """The value of the `apiVersion` field."""
        return str(GroupVersion(self.group, self.version))

    @property
    def group_kind(self) -> GroupKind:
        """The kind without its version."""
        return GroupKind(self.group, self.kind)

    def __str__(self) -> str:
        return f"{self.group}/{self.version}, Kind={self.kind}"


class GroupVersionResource(NamedTuple):
    """What the path of a request names: `/apis/apps/v1/.../deployments`."""

    group: str
    version: str
    resource: str

    @property
    def group_resource(self) -> GroupResource:
        """The resource without its version."""
        return GroupResource(self.group, self.resource)

    def __str__(self) -> str:
        return f"{self.group}/{self.version}, Resource={self.resource}"


@functools.lru_cache(maxsize=1024)  # every object says one of a few
def parse_api_version(api_version: str) -> GroupVersion | None:
    """The group and version of an `apiVersion` field; None if it has more than one slash."""
    parts = api_version.split("/")
    if len(parts) == 1:
        return GroupVersion("", parts[0])
    return GroupVersion(parts[0], parts[1]) if len(parts) == 2 else None
