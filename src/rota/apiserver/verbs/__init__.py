"""The verbs of the API over HTTP, one module each: from a routed request to a response."""
