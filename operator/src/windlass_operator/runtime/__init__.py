"""The running operator: kopf's handlers, the work queue, leader election, probes, metrics and the log.

kopf is imported here and nowhere else. `__main__` starts `run.operate`; no other package may import this one.
"""
