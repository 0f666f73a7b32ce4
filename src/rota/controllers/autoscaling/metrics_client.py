"""Reads metrics from `metrics.k8s.io`, `custom.metrics.k8s.io` and `external.metrics.k8s.io`.

The first group is served by Rota's API server. The others are served by adapters of monitoring systems behind an API
server that aggregates them; without one, the error is upstream's (`podautoscaler/metrics`, 1.36). A reading is the
input of `replica_calculator`.
"""

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec

from rota.api import errors, meta, quantities, selectors, times
from rota.client import paths
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, Object, Selection
from rota.controllers.autoscaling import condition_messages
from rota.controllers.autoscaling.replica_calculator import Measured, Reading

POD_METRICS: Final = ("metrics.k8s.io", "v1beta1", "pods")
_CUSTOM: Final = "custom.metrics.k8s.io"
_EXTERNAL: Final = "external.metrics.k8s.io"
#: Supported versions of custom metrics, and the field that holds the time of a value in each.
_WINDOWS: Final = {"v1beta2": "windowSeconds", "v1beta1": "window"}
#: The time of a value that has none.
_WINDOW_S: Final = 60.0
_DURATION: Final = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?", re.ASCII)


class Unreadable(Exception):
    """A metric cannot be read; the message says why."""


class Meters:
    """Reads metrics."""

    def __init__(self, client: Client) -> None:
        self._client: Final = client

    async def read(self, metric: Mapping[str, Any], namespace: str, labels: str) -> Reading:
        """The values of a metric for the pods with these labels, or the reason why they cannot be read."""
        described = condition_messages.source(metric)
        try:
            match metric.get("type"):
                case "Resource" | "ContainerResource":
                    return await self._of_resource(described, namespace, labels)
                case "Pods":
                    return await self._of_pods(described["metric"], namespace, labels)
                case "Object":
                    return await self._of_object(described, namespace)
                case "External":
                    return await self._of_others(described["metric"], namespace)
        except Unreadable as problem:
            return condition_messages.unread(metric, namespace, str(problem))
        return ""

    async def _of_resource(self, described: Mapping[str, Any], namespace: str, labels: str) -> Reading:
        try:
            listed = await self._client.list(POD_METRICS, namespace=namespace, selection=Selection(labels=labels))
        except (errors.ApiError, TransportError) as error:
            raise Unreadable(
                f"unable to fetch metrics from resource metrics API: {_said(error, 'pods.metrics.k8s.io')}"
            ) from error
        if not listed.items:
            raise Unreadable("no metrics returned from resource metrics API")
        return _measured(listed.items, described)

    async def _of_pods(self, identified: Mapping[str, Any], namespace: str, labels: str) -> Reading:
        version, found = await self._custom(namespace, "pods/*", identified, labels=labels)
        if not found:
            raise Unreadable("no metrics returned from custom metrics API")
        return {
            one["describedObject"]["name"]: Measured(
                amount=quantities.milli(one["value"]),
                at=times.parse(one["timestamp"]),
                window_s=_WINDOW_S if one.get(_WINDOWS[version]) is None else float(one[_WINDOWS[version]]),
            )
            for one in found
        }

    async def _of_object(self, described: Mapping[str, Any], namespace: str) -> Reading:
        about = described["describedObject"]
        group = str(about.get("apiVersion") or "").rpartition("/")[0]
        if about["kind"] == "Namespace" and not group:
            # an autoscaler reads metrics of its own namespace only, whatever name is given
            where = "metrics"
        else:
            where = f"{await self._plural(about)}/{quote(about['name'])}"
        _, found = await self._custom(namespace, where, described["metric"])
        if len(found) != 1:
            raise Unreadable(
                "unable to fetch metrics from custom metrics API: the custom metrics API server returned "
                f"{len(found)} results when we asked for exactly one"
            )
        return quantities.milli(found[0]["value"])

    async def _of_others(self, identified: Mapping[str, Any], namespace: str) -> Reading:
        path = f"{paths.group_version(_EXTERNAL, 'v1beta1')}/namespaces/{quote(namespace)}/{quote(identified['name'])}"
        query = (("labelSelector", _labels(identified.get("selector"))),)
        try:
            found = (await self._get(path, *query)).get("items") or ()
        except (errors.ApiError, TransportError) as error:
            said = _said(error, f"{identified['name']}.{_EXTERNAL}")
            raise Unreadable(f"unable to fetch metrics from external metrics API: {said}") from error
        if not found:
            raise Unreadable("no metrics returned from external metrics API")
        return sum(quantities.milli(one["value"]) for one in found)

    async def _custom(
        self, namespace: str, where: str, identified: Mapping[str, Any], *, labels: str = ""
    ) -> tuple[str, list[Object]]:
        """Values of a custom metric, and the API version that served them."""
        try:
            version = await self._custom_version()
            root = paths.group_version(_CUSTOM, version)
            path = f"{root}/namespaces/{quote(namespace)}/{where}/{quote(identified['name'])}"
            query = [("metricLabelSelector", _labels(identified.get("selector")))]
            if labels:
                query.append(("labelSelector", labels))
            return version, list((await self._get(path, *query)).get("items") or ())
        except (errors.ApiError, TransportError, Unreadable) as error:
            said = _said(error, f"{where.partition('/')[0]}.{_CUSTOM}")
            raise Unreadable(f"unable to fetch metrics from custom metrics API: {said}") from error

    async def _custom_version(self) -> str:
        groups = (await self._get("/apis")).get("groups") or ()
        group = next((one for one in groups if one["name"] == _CUSTOM), None)
        if group is None:
            raise Unreadable(f"no custom metrics API ({_CUSTOM}) registered")
        preferred = (group.get("preferredVersion") or {}).get("version")
        offered = [preferred, *(one["version"] for one in group.get("versions") or ())]
        known = next((one for one in offered if one in _WINDOWS), None)
        if known is None:
            raise Unreadable("no known available metric versions found")
        return str(known)

    async def _plural(self, about: Mapping[str, Any]) -> str:
        """The plural and group of a kind, as paths of custom metrics contain them."""
        group, _, version = str(about.get("apiVersion") or "v1").rpartition("/")
        found = await resource_of(self._client, group, version, about["kind"])
        if found is None:
            raise Unreadable(
                "unable to fetch metrics from custom metrics API: "
                f"unable to map kind {_kind(group, about['kind'])} to resource: "
                f'no matches for kind "{about["kind"]}" in group "{group}"'
            )
        return f"{found}.{group}" if group else found

    async def _get(self, path: str, *query: tuple[str, str]) -> dict[str, Any]:
        body: dict[str, Any] = msgspec.json.decode(await self._client.request("GET", path, query=query))
        return body


async def resource_of(client: Client, group: str, version: str, kind: str) -> str | None:
    """The plural of a kind, from discovery."""
    try:
        raw = await client.request("GET", paths.group_version(group, version))
    except errors.NotFound:
        return None
    served = msgspec.json.decode(raw).get("resources") or ()
    return next((one["name"] for one in served if one["kind"] == kind and "/" not in one["name"]), None)


def _measured(used: list[Object], described: Mapping[str, Any]) -> dict[str, Measured]:
    """Usage of a resource by pod, or by one container of each; pods with incomplete readings are left out."""
    resource, container = str(described["name"]), described.get("container")
    found: dict[str, Measured] = {}
    for one in used:
        chosen = [part for part in one.get("containers") or () if container in {None, "", part["name"]}]
        amounts = [(part.get("usage") or {}).get(resource) for part in chosen]
        if chosen and all(amount is not None for amount in amounts):
            found[meta.name(one)] = Measured(
                amount=sum(map(quantities.milli, amounts)),
                at=times.parse(one["timestamp"]),
                window_s=_seconds(str(one.get("window", ""))),
            )
    return found


def _labels(selector: Mapping[str, Any] | None) -> str:
    return str(selectors.from_object(selector)) if selector else ""


def _kind(group: str, kind: str) -> str:
    return f"{kind}.{group}" if group else kind


def _said(error: Exception, what: str) -> str:
    """The server's error message; for an unknown path, the message of upstream's clients."""
    if isinstance(error, errors.NotFound) and not (error.details and error.details.name):
        return f"the server could not find the requested resource (get {what})"
    return str(error)


def _seconds(text: str) -> float:
    found = _DURATION.fullmatch(text)
    hours, minutes, seconds = found.groups() if found else (None, None, None)
    return int(hours or 0) * 3600 + int(minutes or 0) * 60 + float(seconds or 0)
