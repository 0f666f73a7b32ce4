"""The page docs/howto/run-a-cluster-on-many-machines.md, followed word for word."""

import re
from pathlib import Path

import pytest
import yaml
from tests.docs import following

from rota.lifecycle import cluster_spec
from rota.testing.servers.processes import free_port

PAGE = "run-a-cluster-on-many-machines.md"
_PORTS = ("16443", "16250", "16251")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_page_works_as_written(tmp_path: Path) -> None:
    # The page's ports may be in use on the machine of a test.
    ports = {port: str(free_port()) for port in _PORTS}
    for promised, printed in following.follow(PAGE, tmp_path, patience_s=1100, instead=ports):
        assert promised.strip() in printed


def test_the_file_of_the_page_is_one() -> None:
    files = re.findall(r"```yaml example.yaml\n(.*?)```", (following.HOWTO / PAGE).read_text(), re.DOTALL)
    assert [len(cluster_spec.parse(yaml.safe_load(one)).members) for one in files] == [5]
