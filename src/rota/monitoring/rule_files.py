"""Rule files of Prometheus and inhibitions of Alertmanager from the tables. Pure: plain documents in, none written."""

from collections.abc import Sequence
from typing import Any, Final

from rota.monitoring import expressions
from rota.monitoring.alerts import ALERTS, MASTERS, Alert, Component
from rota.monitoring.recordings import RECORDINGS

RUNBOOKS: Final = "docs/runbooks"
#: The alerts about components that also run beside a stock Kubernetes, as the chart installs them.
BESIDE_KUBERNETES: Final = tuple(
    one for one in ALERTS if one.component in {Component.SCHEDULER, Component.SPOT} and MASTERS not in one.expr
)

Document = dict[str, Any]


def rules(*, runbooks: str = RUNBOOKS, longest_s: int | None = None, alerts: Sequence[Alert] = ALERTS) -> Document:
    """A rule file of these alerts, with the recordings that they read; with all alerts, all recordings.

    No expression must hold longer than `longest_s`, for rehearsals; expressions stay the same.
    """
    read = frozenset(name for one in alerts for name in expressions.metrics(one.expr))
    recorded = [
        {"record": one.name, "expr": one.expr} for one in RECORDINGS if one.name in read or len(alerts) == len(ALERTS)
    ]
    groups: list[Document] = [{"name": "rota-recordings", "rules": recorded}]
    for component in Component:
        found = [_rule(one, runbooks, longest_s) for one in alerts if one.component is component]
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
        {"source_matchers": [f'alertname="{one.name}"'], "target_matchers": [f'alertname=~"{"|".join(names)}"']} | equal
        for one in ALERTS
        for names, equal in ((one.silences, {}), (one.silences_of_instance, {"equal": ["instance"]}))
        if names
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
