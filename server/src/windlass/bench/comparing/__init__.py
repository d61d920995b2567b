"""`windlass bench compare`: two series of runs, paired, with a confidence interval and a verdict."""
