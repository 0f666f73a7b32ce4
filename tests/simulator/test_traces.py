"""Traces as files: what is read, what is refused with its line and field, and that writing and reading agree."""

import gzip
from pathlib import Path

import pytest

from rota.kit.errors import UserError
from rota.scheduler.recording import trace_lines
from rota.scheduler.recording.trace_files import TraceReader
from rota.simulator import traces

HEAD = '{"entry": "header", "format": "rota-trace", "version": 2}'
NODE = '{"entry": "node", "node": {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4", "pods": "9"}}}}'
WEB = '{"entry": "template", "name": "web", "pod": {"spec": {"containers": [{"name": "c"}]}}}'
POD = '{"entry": "pod", "at": 5, "name": "web-1", "template": "web", "duration": 60}'
HOUR = Path(__file__).parents[2] / "examples" / "traces" / "hour.jsonl"


def written(at: Path, *lines: str) -> Path:
    path = at / "trace.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_trace_is_read_with_its_times_and_templates(tmp_path: Path) -> None:
    later = POD.replace("web-1", "web-2").replace('"at": 5', '"at": 9').replace(', "duration": 60', "")
    gone = '{"entry": "podGone", "at": 10, "uid": "default/web-2"}'
    trace = traces.read(written(tmp_path, HEAD, NODE, WEB, POD, later, gone))
    assert trace.at.tolist() == [5, 9]
    assert trace.duration.tolist() == [60, traces.FOREVER]
    assert trace.template.tolist() == [0, 0]
    assert [type(line) for line in trace.changes] == [trace_lines.PodGone]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ((NODE,), "line 1: no header of a trace"),
        ((HEAD.replace("2}", "7}"), NODE), "has version 7 of traces, and this Rota reads 2"),
        ((HEAD, NODE, NODE), 'line 3: node.metadata.name: there is another node "n1"'),
        ((HEAD, NODE.replace('"4"', '"-4"')), "line 2: node.status.allocatable.cpu: -4 is negative"),
        ((HEAD, '{"entry": "node"}'), 'line 2: Object missing required field "node"'),
        ((HEAD, '{"entry": "planet"}'), "line 2: entry: Invalid value 'planet'"),
        ((HEAD, "{"), "line 2: "),
        ((HEAD, NODE, POD), 'line 3: template: there is no template "web" above'),
        ((HEAD, NODE, WEB, WEB), 'line 4: name: there is another template "web"'),
        ((HEAD, NODE, WEB, POD, POD), 'line 5: name: there is another pod "web-1"'),
        ((HEAD, NODE, WEB, POD.replace("60", "-1")), "line 4: duration: -1.0 is negative"),
        ((HEAD, NODE, WEB, POD.replace('"at": 5', '"at": -5')), "line 4: at: -5.0 is no time"),
        ((HEAD, NODE, WEB, POD, '{"entry": "nodeGone", "at": 1, "name": "n1"}'), "line 5: at: 1.0 is before the line"),
        ((HEAD, '{"entry": "nodeGone", "name": "n1"}'), 'line 2: name: there is no node "n1" to remove'),
        ((HEAD, NODE, WEB, POD.replace('"at"', '"node": "n1", "at"')), "line 4: node: a pod that arrives later"),
        ((HEAD, NODE, HEAD), "line 3: a second header"),
    ],
)
def test_a_fault_names_its_line_and_field(tmp_path: Path, lines: tuple[str, ...], told: str) -> None:
    with pytest.raises(UserError) as caught:
        traces.read(written(tmp_path, *lines))
    assert told in str(caught.value)


def test_a_lenient_reader_skips_and_counts_faulty_lines(tmp_path: Path) -> None:
    trace = traces.read(written(tmp_path, HEAD, NODE, NODE, WEB, POD, POD), lenient=True)
    assert (len(trace.nodes), len(trace), trace.skipped.number) == (1, 1, 2)


@pytest.mark.parametrize("name", ["again.jsonl", "again.jsonl.gz"])
def test_a_trace_that_was_written_is_read_as_the_same_trace(tmp_path: Path, name: str) -> None:
    first = traces.read(HOUR)
    traces.write(first, tmp_path / name)
    again = traces.read(tmp_path / name)
    assert again.names == first.names
    assert again.at.tolist() == first.at.tolist()
    assert again.duration.tolist() == first.duration.tolist()
    assert [again.templates[each] for each in again.template] == [first.templates[each] for each in first.template]
    assert again.changes == first.changes
    assert again.nodes == first.nodes


def test_a_file_that_was_cut_off_gives_its_complete_lines(tmp_path: Path) -> None:
    whole = (HOUR.read_bytes(), gzip.compress(HOUR.read_bytes()))
    lines = [line for _, line in TraceReader(HOUR).lines()]
    for number, content in enumerate(whole):
        path = tmp_path / f"cut-{number}"
        path.write_bytes(content[: len(content) * 2 // 3])
        reader = TraceReader(path)
        found = [line for _, line in reader.lines()]
        assert reader.cut_off
        assert 0 < len(found) < len(lines)
        assert found == lines[: len(found)]
