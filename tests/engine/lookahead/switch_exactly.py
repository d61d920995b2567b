"""Runs inside the serving image: the ablation's worker switches rules while a simulated device serves requests.

Prints, as a line of JSON, which of its answers were wrong.
"""

import json
import sys
import time
from types import SimpleNamespace

import numpy as np
import torch

sys.path.insert(0, "/repo/benchmarks/lookahead")

from bench_worker import BenchWorker
from simulated import MOST, Device
from windlass.lookahead.doorbell import Drafter
from windlass.lookahead.verification import Verification
from windlass_lookahead.policy import RULES

ROWS, VOCABULARY = 2, 1000
PICKED = [([1, 2, 3], [1, 2, 3] * 4), ([5, 6, 7], [5, 6, 7] * 4)]


def a_worker(device):
    """The worker of an engine whose drafter has the simulated device's memory."""
    drafter = Drafter.__new__(Drafter)
    drafter.trip, drafter._places, drafter._number = device.trip, device.places, 0
    drafter._drafts = SimpleNamespace(tokens=torch.zeros((ROWS, MOST), dtype=torch.int64))
    drafter._drafting, drafter._finished, drafter._begun = SimpleNamespace(cache=device.cache), [], []
    manager = Verification.__new__(Verification)
    manager._trip, manager._most_logits = drafter.trip, ROWS * (MOST + 1)
    manager.req_states = SimpleNamespace(vocab_size=VOCABULARY)
    worker = BenchWorker.__new__(BenchWorker)
    lookahead = SimpleNamespace(_drafter=drafter)
    worker.model_runner = SimpleNamespace(lookahead=lookahead, adaptive_verification=manager)
    return worker, drafter, manager


def served(worker, device, rules, copy, name):
    """Whether the worker's own round trip had every step of one run with these rules off, and requests it lost."""
    drafter = worker.model_runner.lookahead._drafter
    worker.back("empty")
    worker.without(rules, copy)
    device.trip, before, number = drafter.trip, worker.figures(), device.number
    device.run(name, PICKED)
    drafter._number, drafter._finished = device.number, device.ended
    device.ended = []
    until_s = time.monotonic() + 600
    while (after := worker.figures())["steps"] - before[
        "steps"
    ] < device.number - number and time.monotonic() < until_s:
        pass  # its thread is behind the device
    return after["steps"] - before["steps"] == device.number - number, after["lost"]


def main():
    """Every rule twice, between runs with all rules."""
    device, wrong, trips = Device(ROWS, 1, 0.0, [], always=False), [], {}
    worker, drafter, manager = a_worker(device)
    worker.base("empty", [])
    for turn in (0, 1):
        for rules, copy in (([], 0), *(([rule.name], 0) for rule in RULES), ([], 1)):
            whole, lost = served(worker, device, rules, copy, f"{turn} {rules} {copy}")
            trip = trips.setdefault((*rules, copy), drafter.trip)
            starved = any(one.counts().released for one in trips.values())  # a watchdog answered for the host
            if not whole or (lost and not starved) or trip is not drafter.trip or manager._trip is not trip:
                wrong.append([turn, rules, copy, whole, lost])
            if (rules == ["judging"]) != (not np.any(manager._judging_ms)):
                wrong.append([turn, rules, "the time to judge drafts"])
    if len({id(trip) for trip in trips.values()}) != len(trips):
        wrong.append("two sets of rules share a round trip")
    print("RESULT", json.dumps({"wrong": wrong}))


main()
