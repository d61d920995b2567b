"""Which of several replicas is active, and how the service opens and closes with it."""
