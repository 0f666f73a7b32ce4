"""Limits on requests whose user is not known yet: how many are authenticated at once, and how often that fails.

Authentication may read the store, verify signatures and call an OpenID provider, and flow control by user comes after
it. So requests are counted by flow: a client certificate, a token that was valid before, or else the client's address.
A flow with too many failures is refused before its credentials are looked at. Credentials that are cached as valid,
and requests without any, do not pass here. Invariant: `enter` and `leave` are called in pairs, and the memory for
failures is bounded.
"""

import ipaddress
from typing import Final

from rota.apiserver.flow_control.flow_controller import Overloaded
from rota.apiserver.flow_control.settings import Limits
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics
from rota.kit.rate_limit import TokenBucket

#: Flows whose failures are remembered; of more, the one that failed first is forgotten.
_MOST_FLOWS: Final = 4096
#: An IPv6 client usually has a whole network of this length.
_CLIENT_NETWORK: Final = 64
_LEVEL: Final = "unauthenticated"


class AuthenticationGate:
    """Admits requests to authentication."""

    def __init__(self, limits: Limits, clock: Clock, metrics: Metrics) -> None:
        self._limits: Final = limits
        #: How long an authentication may take.
        self.limit_s: Final = limits.authentication_s
        self._clock: Final = clock
        self._running: Final[dict[str, int]] = {}
        self._running_in_all = 0
        #: What each flow may still fail.
        self._failures: Final[dict[str, TokenBucket]] = {}
        self._refused: Final = metrics.counter("requests_refused_total", "Requests refused with 429.", ("level", "why"))
        seated = metrics.gauge("requests_seated", "Seats that requests hold now.", ("level",))
        seated.labels(_LEVEL).set_function(lambda: self._running_in_all)

    def enter(self, flow: str) -> None:
        """A request is about to be authenticated; `leave` must follow. Overloaded if its flow has to wait."""
        limits = self._limits
        failures = self._failures.get(flow)
        if failures is not None and not failures.has(self._clock.monotonic()):
            raise self._refusal("failures")
        mine = self._running.get(flow, 0)
        if mine >= limits.authentications_per_flow:
            raise self._refusal("authentications of a client")
        if self._running_in_all >= limits.authentications:
            raise self._refusal("authentications")
        self._running[flow] = mine + 1
        self._running_in_all += 1

    def leave(self, flow: str) -> None:
        """The authentication has ended, with any result."""
        self._running_in_all -= 1
        left = self._running[flow] - 1
        if left:
            self._running[flow] = left
        else:
            del self._running[flow]

    def failed(self, flow: str) -> None:
        """The credentials were refused."""
        now = self._clock.monotonic()
        bucket = self._failures.get(flow)
        if bucket is None:
            if len(self._failures) >= _MOST_FLOWS:
                del self._failures[next(iter(self._failures))]
            limits = self._limits
            bucket = TokenBucket(rate=limits.failures_per_second, burst=limits.failures_burst, now=now)
            self._failures[flow] = bucket
        bucket.take(now)

    def _refusal(self, why: str) -> Overloaded:
        self._refused.labels(_LEVEL, why).inc()
        return Overloaded()


def flow_of_address(address: str) -> str:
    """The flow of a client that is known by its address only: for IPv6, its network."""
    if ":" not in address:
        return address
    try:
        host = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if host.ipv4_mapped is not None:
        return str(host.ipv4_mapped)
    return str(ipaddress.IPv6Network((host, _CLIENT_NETWORK), strict=False))
