"""`rota forecast workload`: reads the VerticalPodAutoscaler of a workload and shows its recommendations."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rota.api import amounts, meta, resources
from rota.api import errors as api_errors
from rota.cli import endpoints, output
from rota.cli.commands import session
from rota.client.verbs import Client, Object
from rota.kit import errors

_AUTOSCALERS: Final = ("autoscaling.k8s.io", "v1", "verticalpodautoscalers")
_COLUMNS: Final = ("CONTAINER", "RESOURCE", "LOWER", "TARGET", "UPPER")
_BOUNDS: Final = ("lowerBound", "target", "upperBound")


def show(name: str, *, namespace: str, as_json: bool, **server: Any) -> None:
    """Print the recommendations for a workload."""
    endpoint = endpoints.nearest(**server)
    place = namespace or endpoint.namespace

    async def work(client: Client) -> list[Object]:
        try:
            return list((await client.list(_AUTOSCALERS, namespace=place)).items)
        except api_errors.NotFound:
            return []  # the kind is not defined, so there are none

    found = named(session.at(endpoint, work), name)
    if found is None:
        remedy = "create one with updateMode Off, and run rota forecaster beside the cluster"
        raise errors.UserError(f"no VerticalPodAutoscaler in namespace {place} names {name}", remedy)
    if as_json:
        output.document(found)
        return
    lines = list(rows(found))
    if not lines:
        remedy = "run rota forecaster beside the cluster; it needs running pods and metrics.k8s.io"
        raise errors.UserError(f"{meta.name(found)} has no recommendation yet", remedy)
    output.table(_COLUMNS, lines, right=_COLUMNS[2:])


def named(autoscalers: list[Object], name: str) -> Object | None:
    """The autoscaler whose target has this name."""
    for each in autoscalers:
        if ((each.get("spec") or {}).get("targetRef") or {}).get("name") == name:
            return each
    return None


def rows(autoscaler: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """A row for each container and resource."""
    recommendation = (autoscaler.get("status") or {}).get("recommendation") or {}
    for each in recommendation.get("containerRecommendations") or ():
        for resource in each.get("target") or ():
            shown = (each.get(bound, {}).get(resource, "0") for bound in _BOUNDS)
            texts = (amounts.human(resource, resources.amount(resource, text)) for text in shown)
            yield (each["containerName"], resource, *texts)
