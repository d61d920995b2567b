"""The download Job's program: puts one model from a hub onto a volume, whole and verified, or says why not.

`__main__` starts it inside the Job's pod. No other package imports it; it imports `errors` and `untrusted_json` alone.
"""
