"""What the operator and its clients agree on: the resource's models and rules, its plan, the objects' names.

Functions of values: nothing here asks a cluster, reads a clock or starts a process.
"""
