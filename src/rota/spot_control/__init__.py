"""The spot controller: moves pods off spot machines before their deadline, and back later. Works with any Kubernetes.

`controller` runs the rounds; `api_writer` and `placeholder_pods` write. Pure rules are in `rota.spot`, the sources of
notices in `rota.notices`.
"""
