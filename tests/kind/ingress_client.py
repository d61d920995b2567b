"""Run inside the cluster with plain Python: a client of a service, by its own address or by a controller's.

Takes one JSON word; prints one JSON line. Imports nothing of ours: the test sends it to a pod as text.
"""

import http.client
import json
import socket
import ssl
import sys
import time


class Through(http.client.HTTPSConnection):
    """TLS to a controller by the name in its certificate, whatever address it has."""

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


def stream(link, way, tokens, choices=1):
    """When each piece of one streamed answer came, in seconds after the request, and how the stream ended.

    The demo's model ends its answer early. With `ignore_eos` and its end marks as text, each token is a piece. The
    engine gives several choices of sampled text alone.
    """
    body = {"model": "demo", "messages": [{"role": "user", "content": "What does os.path.join do?"}], "stream": True,
            "max_tokens": tokens, "temperature": float(choices > 1), "ignore_eos": True, "skip_special_tokens": False,
            "n": choices}  # fmt: skip
    started = time.perf_counter()
    link.request("POST", way["prefix"] + "/v1/chat/completions", json.dumps(body), headers(way))
    answer = link.getresponse()
    if answer.status != 200:
        return {"status": answer.status, "text": answer.read().decode()[:500]}
    times, whole, ended = [], False, 0
    try:
        while line := answer.readline():
            if line.startswith(b"data: [DONE]"):
                whole = ended == choices
            elif line.startswith(b"data: "):
                (choice,) = json.loads(line[6:])["choices"]
                if choice["delta"].get("content"):
                    times.append(time.perf_counter() - started)
                ended += choice["finish_reason"] == "length"
    except (OSError, http.client.HTTPException) as error:
        return {"status": 200, "times": times, "whole": False, "error": repr(error)}
    return {"status": 200, "times": times, "whole": whole}


def firsts(ways, rounds):
    """The time to the first token by each way, in turns; the first round warms up, and a stream that is cut counts.

    Each request has a new connection, made before its time begins: a server closes one that is idle for five seconds.
    """
    rows, cut = {name: [] for name in ways}, dict.fromkeys(ways, 0)
    for number in range(rounds + 1):
        order = list(ways) if number % 2 else list(ways)[::-1]
        for name in order:
            link = connection(ways[name])
            link.connect()
            found = stream(link, ways[name], 4)
            link.close()
            cut[name] += not found.get("whole")
            if number:
                rows[name].append(found["times"][0] if found.get("times") else None)
    return {"firsts": rows, "cut": cut}


asked = json.loads(sys.argv[1])
if asked["what"] == "firsts":
    found = firsts(asked["ways"], asked["rounds"])
elif asked["what"] == "stream":
    found = stream(connection(asked["way"]), asked["way"], asked["tokens"], asked.get("choices", 1))
else:
    found = get(asked["way"], asked["path"])
print(json.dumps(found))
