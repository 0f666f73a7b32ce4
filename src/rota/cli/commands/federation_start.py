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
    listen: str,
    alone: bool,
    evict_tainted: bool,
    namespaces_everywhere: bool,
    feature_gates: str,
    ready: Callable[[dict[str, str]], None],
    **durations: float,
) -> None:
    """Run a control plane until a signal stops it."""
    # Imported here: the other commands of this package are clients and must not load a server.
    from rota import assembly, control_plane  # noqa: PLC0415
    from rota.federation import gates  # noqa: PLC0415
    from rota.federation.control.federation import Settings  # noqa: PLC0415

    settings = control_plane.Settings(
        data=folder,
        port=port,
        host=listen,
        workers=0,
        scheduler=False,
        controllers=_CONTROLLERS,
        alone=alone,
    )
    federated = Settings(
        evict_tainted=evict_tainted,
        namespaces_everywhere=namespaces_everywhere,
        gates=gates.parse(feature_gates),
        **durations,
    )
    assembly.run(assembly.run_federation(url, settings, ready=ready, federated=federated))
