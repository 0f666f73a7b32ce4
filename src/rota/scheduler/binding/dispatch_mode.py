"""How bound pods reach their workers: by the workers' own watches (pull), or also by a call at once (push).

A binding that the API server has confirmed is a fact that every watch will tell; a push only tells it sooner. So
whoever pushes owes nothing: what is not delivered is pulled, and a worker takes a pod once, whichever way it comes.
"""

from collections.abc import Mapping
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from rota.api import meta

#: In a pod's annotations: how this one is to reach its worker, whatever the cluster's custom is.
ANNOTATION: Final = "rota.dev/dispatch"
PULL: Final = "pull"
PUSH: Final = "push"
MODES: Final = (PULL, PUSH)

Document: TypeAlias = Mapping[str, Any]


class Dispatcher(Protocol):
    """Is told of every pod that was bound."""

    def bound(self, pod: Document, node_name: str, node: Document | msgspec.Raw | None) -> None:
        """A pod, as it was before it had a node, is bound to one; neither waits nor raises."""
        ...


def is_pushed(pod: Document, custom: str) -> bool:
    """Whether a pod is to be pushed; what it says itself goes before the cluster's custom."""
    said = meta.annotations(pod).get(ANNOTATION)
    return (said if said in MODES else custom) == PUSH
