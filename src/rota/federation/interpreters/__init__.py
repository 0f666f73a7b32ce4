"""What a federation has to know about kinds: replicas, status, health, dependencies, what to keep, what to leave out.

`native` holds the table of Kubernetes' own kinds. Functions take wire objects and give back new ones.
"""
