"""DaemonSets: `controller` manages pods; `placement` (eligible nodes) and `plan` (next step, status) are pure."""
