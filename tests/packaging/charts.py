"""The chart as Helm renders it: documents, and words about values that it refuses."""

import functools
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from rota.testing.servers import binaries

PACKAGING = Path(__file__).parents[2] / "packaging"
CHART = PACKAGING / "helm" / "rota"
NAMESPACE = "rota-system"
RELEASE = "rota"

Document = dict[str, Any]

#: Values that turn on all there is.
EVERYTHING: Mapping[str, Any] = {
    "extender": {
        "enabled": True,
        "bind": True,
        "tls": {"requireClientCertificate": True},
        "service": {"clusterIP": "10.96.0.77"},
        "extraArgs": ["--insecure"],
    },
    "spotController": {
        "dryRun": True,
        "settings": {"profiles": [{"schedulerName": "rota"}]},
        "webhook": {"enabled": True, "secret": "webhook"},
    },
    "spotAgent": {"enabled": True},
    "batchController": {"enabled": True, "schedulerNames": ["volcano", "other"]},
    "scheduler": {"settings": {"parallelism": 8}, "batch": {"enabled": True}},
    "marks": [
        {"means": "spot", "place": "label", "key": "example.com/market", "values": ["spot"]},
        {"means": "notice", "place": "taint", "key": "example.com/reclaim", "provider": "example", "lead": 60},
    ],
    "image": {"repository": "images.example/rota", "digest": "sha256:" + "0" * 64, "pullSecrets": [{"name": "pull"}]},
    "podLabels": {"team": "platform"},
    "podAnnotations": {"example.com/note": "yes"},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "networkPolicy": {
        "enabled": True,
        "metricsFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
        "schedulersFrom": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
        "noticesFrom": [{"ipBlock": {"cidr": "192.0.2.0/24"}}],
        "apiServersFrom": [{"ipBlock": {"cidr": "198.51.100.0/24"}}],
    },
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
}


class HelmError(Exception):
    """What Helm said when it would not."""


def helm(*arguments: str, **environment: str) -> str:
    """What a Helm command prints."""
    program = binaries.helm()
    assert program is not None
    with tempfile.TemporaryDirectory() as home:
        settings = {**os.environ, "HELM_CACHE_HOME": home, "HELM_CONFIG_HOME": home, "HELM_DATA_HOME": home}
        done = subprocess.run(
            [program, *arguments], env={**settings, **environment}, capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise HelmError(done.stdout + done.stderr)
    return done.stdout


def render(values: Mapping[str, Any] | None = None, *, release: str = RELEASE) -> list[Document]:
    """All objects of an installation with these values over the chart's own."""
    return [document for document in yaml.safe_load_all(_rendered(json.dumps(values or {}), release)) if document]


@functools.cache
def _rendered(values: str, release: str) -> str:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(values)
        file.flush()
        return helm("template", release, str(CHART), "--namespace", NAMESPACE, "--values", file.name)


def chosen(documents: Sequence[Document], kind: str, name: str = "") -> Document:
    """The one object of this kind, or this kind and name."""
    (found,) = (one for one in documents if one["kind"] == kind and name in ("", one["metadata"]["name"]))
    return found
