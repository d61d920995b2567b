"""HTTP in front of the batcher: what requests and answers look like, who may ask, and the paths. Knows no torch."""
