"""Run inside the cluster with plain Python: streams asked for again and again, and what became of each.

Told by one JSON word: address, port, how many at a time, tokens, seconds at most, a file that ends it. Prints one JSON
line at the end.
"""

import http.client
import json
import sys
import threading
import time
from collections import Counter
from pathlib import Path

asked = json.loads(sys.argv[1])
ends = time.monotonic() + asked["seconds"]
body = json.dumps({"model": "demo", "messages": [{"role": "user", "content": "What does os.path.join do?"}],
                   "stream": True, "max_tokens": asked["tokens"], "temperature": 0, "ignore_eos": True})  # fmt: skip
counts, first = Counter(), []


def one():
    """`whole`, or how an answer ended before its end."""
    link = http.client.HTTPConnection(asked["place"], asked["port"], timeout=300)
    try:
        link.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
    except OSError as error:
        return f"not reached: {type(error).__name__}"
    try:
        answer = link.getresponse()
        if answer.status != 200:
            return f"status {answer.status}"
        text = answer.read()
    except (OSError, http.client.HTTPException) as error:
        return f"cut: {type(error).__name__}"
    finally:
        link.close()
    return "whole" if b"data: [DONE]" in text and b'"error"' not in text else "cut: no end"


def again():
    while time.monotonic() < ends and not Path(asked["stop"]).exists():
        found = one()
        counts[found] += 1
        if found != "whole" and len(first) < 5:
            first.append(f"{asked['seconds'] - (ends - time.monotonic()):.0f} s: {found}")


threads = [threading.Thread(target=again) for _ in range(asked["atATime"])]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(json.dumps({"counts": counts, "first": first}))
