"""Sources of spot notices: a webhook, events about nodes, metadata endpoints of clouds. Each writes to the node.

Nothing is evicted here: `rota.spot_control` acts on the nodes.
"""
