"""Dashboards in Grafana's format. Pure."""

from typing import Any, Final

from rota.monitoring.dashboards import Dashboard, Panel

#: The version of Grafana's format; Grafana migrates older ones when it loads them.
SCHEMA_VERSION: Final = 38
_WIDTH: Final = 12
_HEIGHT: Final = 8
_COLUMNS: Final = 2
#: The data source is a variable, so that a dashboard works with a Prometheus of any name.
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


def document(dashboard: Dashboard) -> dict[str, Any]:
    """The JSON document of a dashboard."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "tags": ["rota"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {
            "list": [{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}]
        },
        "panels": [_panel(number, one) for number, one in enumerate(dashboard.panels)],
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": {
            "x": number % _COLUMNS * _WIDTH,
            "y": number // _COLUMNS * _HEIGHT,
            "w": _WIDTH,
            "h": _HEIGHT,
        },
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True}},
        "targets": [
            {"refId": chr(ord("A") + index), "datasource": _SOURCE, "expr": one.expr, "legendFormat": one.legend}
            for index, one in enumerate(panel.series)
        ],
    }
