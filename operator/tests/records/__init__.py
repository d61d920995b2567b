"""Objects of the API server as records."""
