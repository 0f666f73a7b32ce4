"""The address of a pod: that of its machine, or one of its own where the machine is its own network. Pure.

Pods share the network of their machine, so that of two pods there only one can have a port. A worker that is reached
by loopback alone, as those of `rota up` are, can do better without any rights: every address of 127.0.0.0/8 is the
machine's. A pod with the annotation `rota.dev/address: own` is told one of these as its own (`status.podIP`); it has to
listen there and not everywhere. Other machines do not reach such an address, so elsewhere the annotation does nothing.
"""

import ipaddress
import zlib
from collections.abc import Mapping
from typing import Any, Final

from rota.api import meta

ANNOTATION: Final = "rota.dev/address"
OWN: Final = "own"
#: Beyond the addresses of services (127.64.0.0/10), so that no pod has that of a service.
POD_NETWORK: Final = ipaddress.IPv4Network("127.128.0.0/9")


def of(pod: Mapping[str, Any], machine: str) -> str:
    """The address of a pod on a machine with this one; it follows from the pod's uid, and needs no memory."""
    if meta.annotations(pod).get(ANNOTATION) != OWN or not is_loopback(machine):
        return machine
    return str(POD_NETWORK[zlib.crc32(meta.uid(pod).encode()) % POD_NETWORK.num_addresses])


def is_loopback(address: str) -> bool:
    """Whether an address is reached from its own machine only."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
