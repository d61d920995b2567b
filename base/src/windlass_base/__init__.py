"""What every program stands on: its log lines, JSON that somebody else wrote, and the way to the API server.

`json_lines` and `untrusted_json` import the standard library only; `kube` needs the extra of that name.
"""
