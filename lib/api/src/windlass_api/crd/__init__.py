"""The LLMService resource: pydantic models and the CRD made from them.

The lowest layer: everybody may import it, and it imports no other package.
"""
