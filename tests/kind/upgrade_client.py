"""Run inside the cluster with plain Python: streams of several services, and what became of each.

Asked by one JSON argument: places (service → host), port, how many at a time for each, tokens, seconds between two
streams, a file that ends it, seconds at most. Prints one JSON line for each stream: when it began and ended, its
service, its outcome and a digest of its text.
"""

import hashlib
import http.client
import json
import sys
import threading
import time
from pathlib import Path

QUESTION = "What does os.path.join do?"
asked = json.loads(sys.argv[1])
ends = time.monotonic() + asked["seconds"]
body = json.dumps({"model": "demo", "messages": [{"role": "user", "content": QUESTION}], "stream": True,
                   "max_tokens": asked["tokens"], "temperature": 0, "ignore_eos": True})  # fmt: skip
printing = threading.Lock()


def stream(host):
    """How one answer ended, and its text: `whole` with [DONE] at its end, else a word that says what came instead."""
    link = http.client.HTTPConnection(host, asked["port"], timeout=120)
    try:
        link.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
    except OSError as error:
        return f"not reached: {type(error).__name__}", ""
    try:
        answer = link.getresponse()
        if answer.status != http.client.OK:
            return f"status {answer.status}", answer.read(200).decode(errors="replace")
        rows = [row[6:] for row in answer.read().decode().splitlines() if row.startswith("data: ")]
    except (OSError, http.client.HTTPException) as error:
        return f"cut: {type(error).__name__}", ""
    finally:
        link.close()
    if rows[-1:] != ["[DONE]"] or any('"error"' in row for row in rows):
        return "cut: no end", ""
    parts = [choice["delta"].get("content") or "" for row in rows[:-1] for choice in json.loads(row)["choices"]]
    return "whole", "".join(parts)


def again(service, host):
    """One stream after another, until the end."""
    while time.monotonic() < ends and not Path(asked["stop"]).exists():
        began = time.time()
        outcome, text = stream(host)
        row = {"began": began, "ended": time.time(), "service": service, "outcome": outcome,
               "text": hashlib.sha256(text.encode()).hexdigest()[:16], "characters": len(text)}  # fmt: skip
        with printing:
            print(json.dumps(row), flush=True)
        time.sleep(asked["pause"])  # clock: the load that was asked for


threads = [
    threading.Thread(target=again, args=place) for place in asked["places"].items() for _ in range(asked["atATime"])
]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
