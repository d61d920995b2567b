"""One reconcile of one LLMService: a snapshot, its stages, and the status that follows.

`reconciler.py` runs the stages in order: download, inspection, plan, workload, status. Of the packages only `runtime`
may call it. The package knows no kopf, no queue and no Lease.
"""
