"""Kubernetes objects as typed records: each is parsed once, when a reconcile reads it. Fields have Kubernetes' names.

`cluster/read.py` parses; `status` and `reconcile` read the fields. A record holds only what the operator reads. Pure.
"""
