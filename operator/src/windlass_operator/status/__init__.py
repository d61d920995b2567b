"""Pure: from what was read of the cluster to conditions, failures and the status of an LLMService."""
