"""Jobs: pods that run to completion, each counted exactly once across crashes of the controller.

`controller` reads and writes; `plan`, `job_accounting`, `pod_failure_policy`, `indexes` and `templates` are pure.
"""
