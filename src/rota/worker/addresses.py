"""The address of a pod: that of its machine, or one of its own on loopback. Pure.

Pods share the network of their machine, so two pods there cannot have the same port. A worker that is reached by
loopback only, as those of `rota up`, can do better without privileges: every address of 127.0.0.0/8 is the machine's. A
pod with the annotation `rota.dev/address: own` gets one of these as its `status.podIP`; it must listen there and not on
all addresses. Other machines cannot reach such an address, so elsewhere the annotation has no effect.
"""

import ipaddress
import zlib
from collections.abc import Mapping
from typing import Any, Final

from rota.api import meta

ANNOTATION: Final = "rota.dev/address"
OWN: Final = "own"
#: Outside the addresses of services (127.64.0.0/10), so that no pod has that of a service.
POD_NETWORK: Final = ipaddress.IPv4Network("127.128.0.0/9")


def of(pod: Mapping[str, Any], machine: str) -> str:
    """The address of a pod on a machine with this one; computed from the pod's uid, so nothing is stored."""
    if meta.annotations(pod).get(ANNOTATION) != OWN or not is_loopback(machine):
        return machine
    return str(POD_NETWORK[zlib.crc32(meta.uid(pod).encode()) % POD_NETWORK.num_addresses])


def is_loopback(address: str) -> bool:
    """Whether an address is reachable from its own machine only."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
