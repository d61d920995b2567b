"""`windlass bench run` with vLLM's own servers and client, on the demo model. `make test-long`."""

import pytest


@pytest.mark.long
def test_a_whole_benchmark(engine):
    """Ours with and without lookahead and the stock server, two rounds in turns; nothing runs on, nothing is redone."""
    found = engine.result("/repo/tests/engine/bench/run_bench.py", "/repo/models/demo")
    servers = ["lookahead=off", "lookahead=on", "stock"]
    assert found == {
        "rows": [[server, "2", True] for server in servers],
        "accepted": [False, True, False],
        "tokens": [96] * 6,
        "ready": 3,
        "started_again": 0,
        "left": [],
        "page": 9,
        "commands": 6,
    }
