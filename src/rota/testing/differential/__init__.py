"""The same requests to two API servers, and what their answers have in common."""
