"""What brings notices in: a webhook, events about nodes, clouds' metadata endpoints. All of it ends on the node."""
