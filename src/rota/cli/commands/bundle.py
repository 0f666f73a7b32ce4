"""`rota support-bundle`: reads a cluster's objects, removes what may be secret (`redaction`), and writes an archive."""

import io
import json
import os
import tarfile
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click

from rota.api import errors as api_errors
from rota.cli import endpoints, output
from rota.cli.commands import diagnosis, health_checks, session
from rota.cli.commands.redaction import redacted
from rota.client import wire
from rota.client.verbs import Client
from rota.kit import errors, system

#: Kinds that a bundle holds; those that a server does not have are left out. Never Secrets and ConfigMaps.
_CLUSTER: Final = (
    ("", "v1", "nodes"),
    ("", "v1", "namespaces"),
    ("scheduling.k8s.io", "v1", "priorityclasses"),
    ("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations"),
    ("apiregistration.k8s.io", "v1", "apiservices"),
    ("scheduling.volcano.sh", "v1beta1", "queues"),
    ("cluster.karmada.io", "v1alpha1", "clusters"),
    ("rota.dev", "v1alpha1", "schedulerinstances"),
)
_NAMESPACED: Final = (
    ("", "v1", "pods"),
    ("", "v1", "events"),
    ("", "v1", "services"),
    ("", "v1", "resourcequotas"),
    ("", "v1", "persistentvolumeclaims"),
    ("coordination.k8s.io", "v1", "leases"),
    ("apps", "v1", "deployments"),
    ("apps", "v1", "replicasets"),
    ("apps", "v1", "statefulsets"),
    ("apps", "v1", "daemonsets"),
    ("batch", "v1", "jobs"),
    ("batch", "v1", "cronjobs"),
    ("policy", "v1", "poddisruptionbudgets"),
    ("rota.dev", "v1alpha1", "pipelineruns"),
    ("batch.volcano.sh", "v1alpha1", "jobs"),
    ("scheduling.volcano.sh", "v1beta1", "podgroups"),
)

Target = tuple[str, str, str]


def write(file: Path, *, namespace: str, as_json: bool, **server: Any) -> None:
    """Write the bundle of a cluster."""
    endpoint = endpoints.nearest(**server)

    async def work(client: Client) -> dict[str, bytes]:
        reading = await diagnosis.read(client, endpoint)
        findings = [asdict(one) for one in health_checks.check(reading)]
        return {
            "doctor.json": _json({"masters": dict(reading.masters), "findings": findings}),
            **await _collected(client, namespace),
        }

    content = session.at(endpoint, work)
    _archive(file, content)
    size = file.stat().st_size
    if as_json:
        output.document({"file": str(file), "size_bytes": size, "content": sorted(content)})
    else:
        click.echo(f"{file}: {len(content)} files, {size:,} bytes. Secrets are left out; names and messages are not.")


async def _collected(client: Client, namespace: str) -> dict[str, bytes]:
    found = {"version.json": _json(wire.decode_object(await client.request("GET", "/version")))}
    unread: dict[str, str] = {}
    for target in (*_CLUSTER, *_NAMESPACED):
        path = "/".join(filter(None, ("objects", target[0], f"{target[2]}.json")))
        try:
            listed = await client.list(target, namespace=namespace if target in _NAMESPACED else "")
            found[path] = _json([redacted(one) for one in listed.items])
        except api_errors.NotFound:
            continue
        except api_errors.ApiError as problem:
            unread[path] = str(problem)
    try:
        found["metrics.txt"] = await client.request("GET", "/metrics", accept="*/*")
    except api_errors.ApiError as problem:
        unread["metrics.txt"] = str(problem)
    if unread:
        found["unread.json"] = _json(unread)
    return found


def _archive(file: Path, content: dict[str, bytes]) -> None:
    """Write an archive that only its owner can read; an existing file is replaced when the new one is complete."""
    unready = file.with_name(f".{file.name}.part")
    try:
        descriptor = os.open(unready, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as raw, tarfile.open(fileobj=raw, mode="w:gz") as archive:
            for name, body in sorted(content.items()):
                entry = tarfile.TarInfo(f"rota-support/{name}")
                entry.size, entry.mtime, entry.mode = len(body), int(system.SystemClock().now()), 0o600
                archive.addfile(entry, io.BytesIO(body))
        unready.replace(file)
    except OSError as problem:
        raise errors.UserError(f"cannot write {file}: {problem.strerror}", "name another file") from problem
    finally:
        unready.unlink(missing_ok=True)


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=1, sort_keys=True).encode()
