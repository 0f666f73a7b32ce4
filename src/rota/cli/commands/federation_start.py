"""`rota federation up`: runs the control plane of a federation until a signal stops it."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

#: The controllers of a federation's control plane. Workloads are for its members, and so are the accounts and
#: certificates of namespaces: policies would propagate them, and members have their own.
_CONTROLLERS: Final = "certificates,event-expiry,garbage,namespaces,role-aggregation"


def up(
    url: str,
    folder: Path,
    *,
    port: int | None,
    alone: bool,
    every_s: float,
    threshold_s: float,
    evict_tainted: bool,
    eviction_timeout_s: float,
    ready: Callable[[dict[str, str]], None],
) -> None:
    """Run a control plane until a signal stops it."""
    # Imported here: the other commands of this package are clients and must not load a server.
    from rota import assembly, control_plane  # noqa: PLC0415
    from rota.apiserver.admission.unenforced import Mode  # noqa: PLC0415
    from rota.federation.control.federation import Settings  # noqa: PLC0415

    settings = control_plane.Settings(
        data=folder,
        port=port,
        workers=0,
        scheduler=False,
        controllers=_CONTROLLERS,
        unenforced=Mode.WARN,  # members enforce what they can
        alone=alone,
    )
    federated = Settings(
        every_s=every_s,
        threshold_s=threshold_s,
        evict_tainted=evict_tainted,
        eviction_timeout_s=eviction_timeout_s,
    )
    assembly.run(assembly.run_federation(url, settings, ready=ready, federated=federated))
