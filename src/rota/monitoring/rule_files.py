"""Rule files of Prometheus and inhibitions of Alertmanager from the tables. Pure: plain documents in, none written."""

from collections.abc import Collection
from typing import Any, Final

from rota.monitoring.alerts import ALERTS, Alert, Component
from rota.monitoring.recordings import RECORDINGS

RUNBOOKS: Final = "docs/runbooks"
#: The components that also run beside a stock Kubernetes, as the chart installs them.
BESIDE_KUBERNETES: Final = frozenset({Component.SCHEDULER, Component.SPOT})

Document = dict[str, Any]


def rules(
    *, runbooks: str = RUNBOOKS, longest_s: int | None = None, components: Collection[Component] = tuple(Component)
) -> Document:
    """A rule file. No expression must hold longer than `longest_s`, for rehearsals; expressions stay the same."""
    chosen = [one for one in ALERTS if one.component in components]
    used = " ".join(one.expr for one in chosen)
    recorded = [
        {"record": one.name, "expr": one.expr}
        for one in RECORDINGS
        if one.name in used or len(components) == len(Component)
    ]
    groups: list[Document] = [{"name": "rota-recordings", "rules": recorded}]
    for component in Component:
        found = [_rule(one, runbooks, longest_s) for one in chosen if one.component is component]
        if found:
            groups.append({"name": f"rota-{component}", "rules": found})
    return {"groups": groups}


def prometheus_rule(name: str, document: Document) -> Document:
    """The same as an object of the Prometheus operator."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": name},
        "spec": document,
    }


def inhibitions() -> list[Document]:
    """The `inhibit_rules` of Alertmanager: which alerts are held back while another one fires."""
    return [
        {
            "source_matchers": [f'alertname="{one.name}"'],
            "target_matchers": [f'alertname=~"{"|".join(one.silences)}"'],
        }
        for one in ALERTS
        if one.silences
    ]


def _rule(alert: Alert, runbooks: str, longest_s: int | None) -> Document:
    rule: Document = {"alert": alert.name, "expr": alert.expr}
    if for_s := alert.for_s if longest_s is None else min(alert.for_s, longest_s):
        rule["for"] = f"{for_s}s"
    return rule | {
        "labels": {"severity": str(alert.severity), "component": str(alert.component)},
        "annotations": {
            "summary": alert.summary,
            "runbook_url": f"{runbooks.rstrip('/')}/{alert.name}.md",
        },
    }
