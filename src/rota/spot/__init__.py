"""Rules about spot machines: node signals, notices, policies of workloads, evacuation plans, scores, risks, prices.

Everything here is pure. The controller that acts is `rota.spot_control`; the sources of notices are in `rota.notices`.
"""
