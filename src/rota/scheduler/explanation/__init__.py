"""Why a pod is where it is, or why it is nowhere, worked out when somebody asks."""
