"""EndpointSlices and Endpoints of Services that select pods.

`controller` reads and writes; `backends`, `slices` and `subsets` decide and are pure.
"""
