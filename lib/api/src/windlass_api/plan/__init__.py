"""Pure decisions: from a spec, model facts and the cluster's GPUs to a plan and the server's arguments.

The operator's `planner` and `reconcile` call it, and the client for its preview. `record.py` keeps the plan in force
as text.
"""
