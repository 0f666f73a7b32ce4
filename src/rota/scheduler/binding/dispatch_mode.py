"""How bound pods reach their workers: by the workers' own watches (pull), or by an additional call at once (push).

Every watch delivers a confirmed binding; a push only delivers it sooner. A push may therefore fail without a retry: the
worker finds the pod by its watch. A worker accepts a pod once, whichever way it arrives first.
"""

from collections.abc import Mapping
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from rota.api import meta

#: Annotation of a pod that overrides the cluster's dispatch mode.
ANNOTATION: Final = "rota.dev/dispatch"
PULL: Final = "pull"
PUSH: Final = "push"
MODES: Final = (PULL, PUSH)

Document: TypeAlias = Mapping[str, Any]


class Dispatcher(Protocol):
    """Is called for every pod that was bound."""

    def bound(self, pod: Document, node_name: str, node: Document | msgspec.Raw | None) -> None:
        """Handle a pod that was just bound, given as it was before it had a node; neither waits nor raises."""
        ...


def is_pushed(pod: Document, default: str) -> bool:
    """Whether a pod is to be pushed; its annotation overrides the cluster's default."""
    said = meta.annotations(pod).get(ANNOTATION)
    return (said if said in MODES else default) == PUSH
