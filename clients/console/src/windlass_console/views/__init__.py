"""What pages show, made from Kubernetes objects and metrics. Pure."""
