"""Run inside the cluster with plain Python: what a client outside sees of a service, by its own address and a door's.

Told by one JSON word; prints one JSON line. Imports nothing of ours: it is sent to a pod as text.
"""

import http.client
import json
import socket
import ssl
import sys
import time


class Through(http.client.HTTPSConnection):
    """TLS to a door by the name that its certificate has, wherever the door is."""

    def __init__(self, place, name, authority):
        context = ssl.create_default_context(cadata=authority)
        super().__init__(name, 443, context=context, timeout=300)
        self._place, self._known_as, self._tls = place, name, context

    def connect(self):
        plain = socket.create_connection((self._place, 443), 300)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = self._tls.wrap_socket(plain, server_hostname=self._known_as)


def connection(way):
    if way.get("authority"):
        return Through(way["place"], way["host"], way["authority"])
    return http.client.HTTPConnection(way["place"], way["port"], timeout=300)


def headers(way):
    key = {"Authorization": f"Bearer {way['key']}"} if way.get("key") else {}
    return {"Host": way["host"], "Content-Type": "application/json", **key, **way.get("headers", {})}


def get(way, path):
    """Status, headers and the first bytes of an answer."""
    link = connection(way)
    link.request("GET", way["prefix"] + path, headers=headers(way))
    answer = link.getresponse()
    text = answer.read().decode(errors="replace")
    link.close()
    return {"status": answer.status, "headers": {k.lower(): v for k, v in answer.getheaders()}, "text": text[:2000]}


def stream(link, way, tokens):
    """When each piece of one streamed answer came, in seconds after it was asked for, and how it ended."""
    body = {"model": "demo", "messages": [{"role": "user", "content": "What does os.path.join do?"}], "stream": True,
            "max_tokens": tokens, "temperature": 0, "ignore_eos": True}  # fmt: skip
    started = time.perf_counter()
    link.request("POST", way["prefix"] + "/v1/chat/completions", json.dumps(body), headers(way))
    answer = link.getresponse()
    if answer.status != 200:
        return {"status": answer.status, "text": answer.read().decode()[:500]}
    times, whole = [], False
    while line := answer.readline():
        if line.startswith(b"data: [DONE]"):
            whole = True
        elif line.startswith(b"data: ") and json.loads(line[6:])["choices"][0]["delta"].get("content"):
            times.append(time.perf_counter() - started)
    return {"status": 200, "times": times, "whole": whole}


def firsts(ways, rounds):
    """The time to the first token by each way, taken in turns on kept connections; the first round warms up."""
    links = {name: connection(way) for name, way in ways.items()}
    rows = {name: [] for name in ways}
    for number in range(rounds + 1):
        order = list(ways) if number % 2 else list(ways)[::-1]
        for name in order:
            found = stream(links[name], ways[name], 4)
            if number:
                rows[name].append(found["times"][0])
    return rows


asked = json.loads(sys.argv[1])
if asked["what"] == "firsts":
    found = firsts(asked["ways"], asked["rounds"])
elif asked["what"] == "stream":
    found = stream(connection(asked["way"]), asked["way"], asked["tokens"])
else:
    found = get(asked["way"], asked["path"])
print(json.dumps(found))
