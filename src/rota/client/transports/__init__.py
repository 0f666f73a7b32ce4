"""How a call reaches an API server: over HTTP, or straight into an application in this process."""
