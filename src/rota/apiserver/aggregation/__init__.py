"""Aggregation: APIs of other servers, declared by APIServices, as part of this one."""
