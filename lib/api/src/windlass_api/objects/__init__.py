"""What is read of Kubernetes objects: who holds which GPUs, what is free, what a field says."""
