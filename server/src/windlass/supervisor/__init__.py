"""Lives as long as the pod: checks the license, runs the engine as a child, tells how it goes on the facts port."""
