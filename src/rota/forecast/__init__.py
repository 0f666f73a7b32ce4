"""Forecasts of resource usage: pure, vectorised over many series, and updated sample by sample.

A series is the usage of one resource by one pod, workload or node. Every class here holds the state of many series as
arrays of shape (series,) or (series, n). Times are arguments, in seconds. A missing sample is NaN.

- `histograms`, `recommendations`: decaying histograms and the requests that VPA, Koordinator and Autopilot derive.
- `windows`, `peaks`: recent samples, and the peak of a machine that follows from them.
- `seasons`, `holt_winters`, `drift`: daily patterns, trends, and changes of level.
- `records`: how often a forecast was too low, by how much, and what it saved.
- `fleet`: all of that for the series of a cluster, with fallbacks to requests.
- `protocol`: the published evaluation of peak predictors on recorded usage.
"""
