"""Planning in processes of its own, so that a hostile spec or model costs only its own namespace a plan.

`process.py` is the program that plans; `pool.py` starts, asks and ends it. `reconcile` asks a question, and `runtime`
owns the pool; nothing else calls it.
"""
