"""Pure decisions: from a spec, model facts and the cluster's GPUs to a plan and the server's arguments."""
