"""The Kubernetes API server: the requests to it, and which pod a token stands for."""
