"""The default roles and bindings of every cluster, as tables."""
