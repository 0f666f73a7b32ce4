"""HTTP of the API server: connections, requests, responses, content negotiation. No verbs, no kinds."""
