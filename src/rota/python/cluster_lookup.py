"""Chooses the cluster: the given kubeconfig, $KUBECONFIG, or the cluster of `rota up` on this machine.

~/.kube/config is never used, so that local work does not end up in a cluster that the user did not name.
"""

import contextlib
import ipaddress
import os
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from rota.client import kubeconfig
from rota.client.endpoints import Endpoint
from rota.kit import default_paths, errors
from rota.kit.clock import Clock

_TOKEN: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")


def endpoint(file: str | os.PathLike[str] | None, *, context: str, server: str, clock: Clock) -> Endpoint:
    """The cluster; `UserError` if there is none."""
    if server:
        first, *others = server.split(",")
        return Endpoint(server=first, fallbacks=tuple(others))
    if file is not None:
        return kubeconfig.load(Path(file).expanduser(), clock=clock, context=context)
    if "KUBECONFIG" in os.environ:
        return kubeconfig.load(kubeconfig.default_path(os.environ), clock=clock, context=context)
    own = default_paths.data_folder() / "kubeconfig"
    if own.exists():
        return kubeconfig.load(own, clock=clock, context=context)
    if "KUBERNETES_SERVICE_HOST" in os.environ and _TOKEN.exists():
        return kubeconfig.in_cluster(os.environ, clock=clock)
    raise errors.UserError(
        f"there is no cluster of this user: no {own}", "run 'rota up', set KUBECONFIG, or name a kubeconfig"
    )


def is_here(found: Endpoint) -> bool:
    """Whether a cluster's server runs on this machine; its workers usually do, too."""
    host = urlsplit(found.server).hostname or ""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"
