"""Scenarios take minutes: only `make scenarios` runs them."""

import os

collect_ignore_glob = [] if os.environ.get("ROTA_SCENARIOS") else ["test_virtual_rows.py", "test_live_rows.py"]
