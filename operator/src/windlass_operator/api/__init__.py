"""The LLMService resource: pydantic models and the CRD made from them."""
