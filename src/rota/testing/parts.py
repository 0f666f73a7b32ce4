"""Programs that some tests need and a machine may lack: one line per part.

A part's name is also the pytest marker of the tests that need it. What happens to those tests when the part
is missing (left out and reported at the end of the run, or failed under ROTA_TEST_REQUIRE) is decided in
`rota.testing.plugin`.
"""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from rota.testing.servers import binaries


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """An external program that tests start or call."""

    name: str
    title: str
    #: Whether this machine has it.
    present: Callable[[], bool]
    #: Completes the sentence "to get it: ...".
    remedy: str

    @property
    def absence(self) -> str:
        """One sentence: what is missing and how to get it."""
        return f"{self.title} is missing; to get it: {self.remedy}"


def _has_module(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


_STOCK: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
_MONITORING: Final = ("prometheus", "promtool", "prometheus-alertmanager")

PARTS: Final = (
    Part(
        name="postgres",
        title="PostgreSQL (the server's programs and psycopg)",
        present=lambda: binaries.postgres_folder() is not None and _has_module("psycopg"),
        remedy="`make install system` as root on Debian or Ubuntu, or `apt install postgresql`",
    ),
    Part(
        name="etcd",
        title="etcd (the program and grpcio)",
        present=lambda: binaries.etcd() is not None and _has_module("grpc"),
        remedy="`make install system` as root on Debian or Ubuntu, or `apt install etcd-server`",
    ),
    Part(
        name="kubectl",
        title="kubectl",
        present=lambda: bool(binaries.kubectls()),
        remedy="put kubectl 1.27 or newer on the PATH",
    ),
    Part(
        name="stock",
        title="stock Kubernetes (kube-apiserver, kube-scheduler, kube-controller-manager, kubectl, etcd)",
        present=lambda: all(binaries.kubernetes(program) is not None for program in _STOCK),
        remedy="`scripts/build-kubernetes`, which needs Go and about ten minutes, or set KUBEBUILDER_ASSETS",
    ),
    Part(
        name="helm",
        title="Helm 3",
        present=lambda: binaries.helm() is not None,
        remedy="`scripts/build-helm`, which needs Go and about three minutes, or put Helm 3 on the PATH",
    ),
    Part(
        name="prometheus",
        title="Prometheus (prometheus, promtool and prometheus-alertmanager)",
        present=lambda: all(binaries.on_path(one) is not None for one in _MONITORING),
        remedy="`make install system` as root on Debian or Ubuntu, or `apt install prometheus prometheus-alertmanager`",
    ),
    Part(
        name="browser",
        title="a browser (Chromium and playwright)",
        present=lambda: binaries.chromium() is not None and _has_module("playwright"),
        remedy="`make install system` as root on Debian or Ubuntu, or `apt install chromium`",
    ),
    Part(
        name="sshd",
        title="the ssh server",
        present=lambda: binaries.sshd() is not None,
        remedy="`make install system` as root on Debian or Ubuntu, or `apt install openssh-server`",
    ),
)


class UnknownPartError(ValueError):
    """ROTA_TEST_REQUIRE names a part that does not exist."""


def required(setting: str) -> frozenset[str]:
    """The parts that ROTA_TEST_REQUIRE names: `all`, or a list with commas, or nothing."""
    known = {part.name for part in PARTS}
    names = {name.strip() for name in setting.split(",")} - {""}
    if names == {"all"}:
        return frozenset(known)
    if unknown := names - known:
        wrong, right = ", ".join(sorted(unknown)), ", ".join(sorted(known))
        raise UnknownPartError(f"ROTA_TEST_REQUIRE names {wrong}; it takes `all`, or some of {right}")
    return frozenset(names)
