"""StatefulSets: pods with stable ordinals, names and volume claims.

`controller` reads and writes; `identity` and `plan` are pure.
"""
