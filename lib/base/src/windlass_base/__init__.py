"""What every program stands on: its log lines, JSON that somebody else wrote, the way to the API server, connections.

`json_lines` and `untrusted_json` import the standard library only; `kube` and `front` need the extras of those names.
"""
