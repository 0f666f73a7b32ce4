"""Metrics of several processes as one exposition."""

from prometheus_client.parser import text_string_to_metric_families

from rota.kit.metric_merge import merged
from rota.kit.metrics import Metrics


def test_each_sample_names_its_process_and_each_metric_is_there_once() -> None:
    bodies = {}
    for number in range(2):
        metrics = Metrics("scheduler", prefix="scheduler_")
        metrics.counter("tries_total", "Tries.", ("result",)).labels("ok").inc(number + 1)
        metrics.gauge("queue", "Waiting.").set(7 + number)
        bodies[str(number)] = metrics.exposition()[1]
    found = {one.name: one for one in text_string_to_metric_families(merged("shard", bodies).decode())}
    tries = {
        (one.labels["shard"], one.labels["result"]): one.value
        for one in found["scheduler_tries"].samples
        if one.name.endswith("total")
    }
    assert tries == {("0", "ok"): 1.0, ("1", "ok"): 2.0}
    assert {one.labels["shard"]: one.value for one in found["scheduler_queue"].samples} == {"0": 7.0, "1": 8.0}


def test_the_end_of_an_openmetrics_text_stays_at_the_end() -> None:
    body = b"# TYPE a gauge\na 1.0\n# EOF\n"
    assert merged("shard", {"x": body, "y": body}) == (b'# TYPE a gauge\na{shard="x"} 1.0\na{shard="y"} 1.0\n# EOF\n')
