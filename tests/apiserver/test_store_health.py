"""The server notices that its data folder is gone."""

import shutil
from pathlib import Path

from rota.testing.api import ApiServer


async def test_a_deleted_data_folder_fails_readiness_and_writes(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    async with ApiServer(store_url=f"sqlite:///{folder}/rota.db") as api:
        assert (await api.get("/readyz")).code == 200
        shutil.rmtree(folder)
        ready = await api.request("GET", "/readyz?verbose")
        assert (ready.code, b"[-]store failed" in ready.body) == (500, True)
        answer = await api.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "a"}})
        assert (answer.code, "deleted or replaced" in answer.json["message"]) == (500, True)
