"""A real Kubernetes cluster on a bare Debian machine, without pulling any image.

`make cluster`, `make demo` and the tests call this package; it imports the standard library only, because it runs
before anything else is installed. Each module owns one step, from Go binaries up to a kind cluster with named GPUs.
"""
