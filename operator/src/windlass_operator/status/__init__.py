"""Pure: from what was read of the cluster to conditions, failures and the status of an LLMService.

`reconcile` calls `observe.py`. Every layer above reads Kubernetes objects with `children.py`.
"""
