"""Pure: the Kubernetes objects of one LLMService as plain dicts, in the field order of their golden files.

`reconcile` calls it. `cluster`, `client` and `kubectl` take names and labels from `metadata.py`.
"""
