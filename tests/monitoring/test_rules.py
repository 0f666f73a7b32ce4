"""Alerts and recordings: the tables agree with the runbooks, the folder of generated files, and promtool."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.monitoring import alert_cases

from rota.kit.metrics import Metrics
from rota.monitoring import expressions, grafana, rule_files, scraping
from rota.monitoring.alerts import ALERTS, Alert, Component
from rota.monitoring.dashboards import DASHBOARDS
from rota.monitoring.recordings import RECORDINGS
from rota.spot_control.spot_metrics import SpotMetrics
from rota.store.shipping.metrics import ShippingMetrics

ROOT = Path(__file__).parents[2]
RUNBOOKS = ROOT / "docs" / "runbooks"
NAMES = [one.name for one in ALERTS]


def test_every_alert_and_recording_has_a_name_of_its_own() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert len({one.name for one in RECORDINGS}) == len(RECORDINGS)


def test_every_alert_that_is_held_back_exists_and_none_holds_itself_back() -> None:
    for one in ALERTS:
        assert {*one.silences, *one.silences_of_instance} <= set(NAMES) - {one.name}


def test_no_alert_is_held_back_by_one_that_it_holds_back_itself() -> None:
    """Two alerts that hold each other back would both be lost."""
    silences = {one.name: {*one.silences, *one.silences_of_instance} for one in ALERTS}
    both = [(a, b) for a in NAMES for b in silences[a] if a in silences[b]]
    assert both == []


def test_one_master_that_is_down_holds_back_no_alert_about_the_others() -> None:
    held_back = {
        (rule["source_matchers"][0], rule["target_matchers"][0], *rule.get("equal", ()))
        for rule in rule_files.inhibitions()
    }
    assert ('alertname="RotaMasterDown"', 'alertname=~"RotaApiErrors|RotaApiSlow"') in held_back
    assert ('alertname="RotaStoreUnavailable"', 'alertname=~"RotaMasterDown"', "instance") in held_back


def test_every_alert_has_a_runbook_page_and_every_page_an_alert() -> None:
    assert {page.stem for page in RUNBOOKS.glob("Rota*.md")} == set(NAMES)


@pytest.mark.parametrize("alert", ALERTS, ids=lambda one: one.name)
def test_a_runbook_says_what_it_means_what_to_look_at_and_what_to_do(alert: Alert) -> None:
    page = (RUNBOOKS / f"{alert.name}.md").read_text()
    assert page.startswith(f"# {alert.name}\n")
    assert re.findall(r"^## (.*)", page, re.MULTILINE) == ["Meaning", "Diagnosis", "Remedy"]


def test_the_names_of_metrics_are_found_in_expressions() -> None:
    expr = 'sum by (le, verb) (rate(a_bucket{code=~"5..", x="b(c)"}[5m])) / on () d:e > 1e3 and absent(f) or vector(0)'
    assert expressions.metrics(expr) == {"a_bucket", "d:e", "f"}


def test_expressions_about_spot_nodes_read_metrics_of_the_spot_controller() -> None:
    metrics = Metrics("spot")
    SpotMetrics(metrics)
    text = metrics.exposition()[1].decode()
    exprs = [one.expr for one in ALERTS if one.component is Component.SPOT]
    exprs += [
        one.expr for page in DASHBOARDS if page.uid == "rota-spot" for panel in page.panels for one in panel.series
    ]
    named = {name for expr in exprs for name in expressions.metrics(expr)}
    assert named
    assert [name for name in named if f"# TYPE {name} " not in text] == []


def test_expressions_about_backups_read_metrics_of_the_backup_process() -> None:
    metrics = Metrics("backup")
    ShippingMetrics(metrics).follow_lag(lambda: 0.0)
    text = metrics.exposition()[1].decode()
    exprs = [one.expr for one in ALERTS if one.component is Component.BACKUP]
    named = {name for expr in exprs for name in expressions.metrics(expr)} - {"up"}
    assert len(named) == 4
    assert [name for name in named if f"# TYPE {name} " not in text] == []


def test_the_addresses_of_backup_processes_are_scraped() -> None:
    made = scraping.configuration(["https://m:6443"], token_file="t", ca_file="c", backups=["b:9464"])
    assert made["scrape_configs"][-1] == {"job_name": "rota-backups", "static_configs": [{"targets": ["b:9464"]}]}


def test_a_rehearsal_changes_how_long_expressions_must_hold_and_nothing_else() -> None:
    usual, short = rule_files.rules(), rule_files.rules(longest_s=4)
    waits = [
        rule.pop("for", "0s") for document in (usual, short) for group in document["groups"] for rule in group["rules"]
    ]
    assert usual == short
    half = len(waits) // 2
    assert {int(wait[:-1]) for wait in waits[half:]} == {0, 4}
    assert max(int(wait[:-1]) for wait in waits[:half]) == 3600


def test_rules_of_a_component_bring_the_recordings_that_they_read() -> None:
    document = rule_files.rules(alerts=rule_files.BESIDE_KUBERNETES)
    found = {group["name"]: group["rules"] for group in document["groups"]}
    assert set(found) == {"rota-recordings", "rota-scheduler", "rota-spot"}
    recorded = {rule["record"] for rule in found["rota-recordings"]}
    read = {
        name
        for group in ("rota-scheduler", "rota-spot")
        for rule in found[group]
        for name in expressions.metrics(rule["expr"])
        if ":" in name
    }
    assert recorded == read
    assert "rota-masters" not in yaml.safe_dump(document)


def test_a_dashboard_is_a_document_of_grafana() -> None:
    for one in DASHBOARDS:
        document = json.loads(json.dumps(grafana.document(one)))
        assert {"uid", "title", "schemaVersion", "panels", "templating", "time"} <= set(document)
        ids = [panel["id"] for panel in document["panels"]]
        assert len(set(ids)) == len(ids)
        places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in document["panels"]]
        assert len(set(places)) == len(places)
        for panel in document["panels"]:
            assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            assert all(target["expr"] and target["refId"] for target in panel["targets"])


def test_workers_without_an_endpoint_are_no_targets() -> None:
    def node(name: str, port: int | None, address: str) -> dict[str, Any]:
        endpoints = {"kubeletEndpoint": {"Port": port}} if port else {}
        addresses = [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": address}]
        return {"metadata": {"name": name}, "status": {"daemonEndpoints": endpoints, "addresses": addresses}}

    nodes = [
        node("b", 10250, "fd00::1"),
        node("a", 10251, "10.0.0.1"),
        node("c", None, "10.0.0.2"),
        {"metadata": {"name": "d"}},
    ]
    assert scraping.targets(nodes) == [
        {"targets": ["10.0.0.1:10251"], "labels": {"node": "a", "instance": "a"}},
        {"targets": ["[fd00::1]:10250"], "labels": {"node": "b", "instance": "b"}},
    ]


def test_every_alert_has_a_case() -> None:
    assert set(alert_cases.FAULTS) == set(NAMES)


@pytest.mark.prometheus
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_promtool_accepts_the_rules(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump(rule_files.rules()))
    done = subprocess.run(["promtool", "check", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(ALERTS) + len(RECORDINGS)} rules found" in done.stdout


@pytest.mark.prometheus
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_each_alert_fires_for_its_fault_and_for_no_other(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rule_files.rules()))
    cases = []
    for fault in ["", *alert_cases.FAULTS]:
        firing = {"RotaWatchdog", fault} - {""}
        cases.append(
            {
                "name": fault or "quiet",
                "interval": alert_cases.INTERVAL,
                "input_series": [
                    {"series": name, "values": values} for name, values in alert_cases.series(fault).items()
                ],
                "promql_expr_test": [
                    {
                        "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                        "eval_time": alert_cases.EVALUATED_AT,
                        "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(firing)],
                    }
                ],
            }
        )
    document = {"rule_files": ["rules.yaml"], "evaluation_interval": alert_cases.INTERVAL, "tests": cases}
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(document))
    done = subprocess.run(
        ["promtool", "test", "rules", "tests.yaml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
