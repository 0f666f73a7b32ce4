"""The pipeline controllers: which steps of a run to start, their attempts, schedules, and when a run is over.

`runs`, `steps` and `schedules` are the controllers; `engine`, `attempts`, `objects`, `progress` and `states` are pure.
The resources themselves are described in `rota.api.pipelines`.
"""
