"""DefaultBinder: bind the pod through the API server."""

from typing import ClassVar

from rota.columns.pods import PodInfo
from rota.scheduler.framework.registry import Handle, NoArgs
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import Status


class DefaultBinder:
    """Binds through the framework's binder."""

    name: ClassVar[str] = "DefaultBinder"
    Args = NoArgs

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        self._handle = handle

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Bind; a rejection by the API server is returned as a status."""
        return await self._handle.binder.bind(pod, node_name)
