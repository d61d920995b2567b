"""A real Prometheus scrapes two real engines: every query about serving pods has data, and the pictures of the docs.

One engine drafts with the lookahead cache, the other one has quantized weights. `WINDLASS_PICTURES=FOLDER` draws the
dashboards there, after `WINDLASS_PICTURE_S` seconds of load.
"""

import json
import math
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import httpx
import pytest
import yaml
from windlass_testbed import prometheus
from windlass_testbed.paths import REPOSITORY, paths

pytestmark = pytest.mark.long
BOARDS = REPOSITORY / "charts/windlass/files/dashboards"
SERVING = ("services", "lookahead", "quantization")
RUN = "windlass run --max-model-len 512 --served-model-name demo".split()
KEYS = "keys:\n  - {name: search, key: sk-search-1}\n  - {name: batch, key: sk-batch-1, requestsPerMinute: 5}\n"
DRAFTING = {"USE_LOOKAHEAD": "1", "NUM_SPECULATIVE_TOKENS": "8"}
QUESTIONS = ("What does os.path.join do?", "What does json.dumps do?", "def add(a, b):")
LOAD_S = float(os.environ.get("WINDLASS_PICTURE_S") or 20)
PATIENCE_S = 600.0
"""Ends a hang."""


@pytest.fixture(scope="module")
def engines(engine, tmp_path_factory):
    """Addresses by the name of a service."""
    folder = tmp_path_factory.mktemp("keys")
    (folder / "keys.yaml").write_text(KEYS)
    folder.chmod(0o755)
    common = {"mounts": {folder: "/keys:ro"}, "OPENAI_API_KEYS_FILE": "/keys/keys.yaml"}
    with (
        engine.serving(*RUN, "--dtype", "float32", **common, **DRAFTING, WINDLASS_SERVICE="chat") as chat,
        engine.serving(
            *RUN, "--quantization", "ifq", "--dtype", "float16", **common, WINDLASS_SERVICE="small"
        ) as small,
    ):
        yield {"chat": chat, "small": small}


@pytest.fixture(scope="module")
def address(engines, tmp_path_factory):
    """Prometheus', which scrapes both paths of each engine as the chart's PodMonitor does."""
    folder = tmp_path_factory.mktemp("prometheus")
    jobs = [
        {
            "job_name": f"{service}{path}",
            "metrics_path": path,
            "static_configs": [
                {"targets": [url.removeprefix("http://")], "labels": {"serving_windlass_dev_service": service}}
            ],
            "relabel_configs": [{"source_labels": ["__metrics_path__"], "target_label": "metrics_path"}],
        }
        for service, url in engines.items()
        for path in ("/metrics", "/windlass/metrics")
    ]
    (folder / "prometheus.yaml").write_text(
        yaml.safe_dump({"global": {"scrape_interval": "2s", "scrape_timeout": "2s"}, "scrape_configs": jobs})
    )
    host = "127.0.0.1:19097"
    words = (f"--config.file={folder}/prometheus.yaml", f"--storage.tsdb.path={folder}/tsdb")
    program = prometheus.ensure(paths()) / "prometheus"
    with (folder / "log").open("wb") as log:
        running = subprocess.Popen([program, *words, f"--web.listen-address={host}"], stdout=log, stderr=log)
        try:
            yield f"http://{host}"
        finally:
            running.terminate()
            running.wait(30)


def load(engines, until):
    """Four clients of two keys; the one with a limit is refused now and then."""
    numbers = count()

    def client(row):
        key = "sk-batch-1" if row == 3 else "sk-search-1"
        while time.monotonic() < until:
            number = next(numbers)
            body = {"model": "demo", "max_tokens": 24, "stream": True, "temperature": 0}
            body["messages"] = [{"role": "user", "content": QUESTIONS[number % len(QUESTIONS)]}]
            url = list(engines.values())[number % 2] + "/v1/chat/completions"
            answer = httpx.post(url, json=body, headers={"Authorization": f"Bearer {key}"}, timeout=60)
            assert answer.status_code in (200, 429), answer.text
            time.sleep(0.1 if answer.status_code == 200 else 2)  # clock: how a client behaves

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(client, range(4)))


def values(address, query):
    """What a panel shows now, of all services."""
    params = {"query": query.replace("$service", ".*")}
    rows = httpx.get(f"{address}/api/v1/query", params=params, timeout=60).json()["data"]["result"]
    return [number for row in rows if not math.isnan(number := float(row["value"][1]))]


def queries():
    """Of every panel about serving pods."""
    boards = (json.loads((BOARDS / f"{name}.json").read_text()) for name in SERVING)
    return [target["expr"] for board in boards for panel in board["panels"] for target in panel["targets"]]


def test_every_query_about_serving_pods_has_data(engines, address):
    """And both paths of a pod are apart in `up`."""
    load(engines, time.monotonic() + LOAD_S)
    empty, deadline = set(queries()), time.monotonic() + PATIENCE_S
    assert len(empty) >= 20
    while empty and time.monotonic() < deadline:
        load(engines, time.monotonic() + 3)
        empty = {query for query in empty if not values(address, query)}
    assert empty == set()
    assert values(address, 'up{serving_windlass_dev_service="chat"}') == [1.0, 1.0]
    assert len(values(address, 'count by (instance) (up{metrics_path="/windlass/metrics"})')) == 2
    if folder := os.environ.get("WINDLASS_PICTURES"):
        draw(address, folder)


def draw(address, folder):
    """The pictures of the docs."""
    uv = [os.fspath(REPOSITORY / ".venv/bin/uv"), "run", "--quiet", "--no-project", "--python", sys.executable]
    minutes = str(max(1.0, LOAD_S / 60))
    for name in SERVING:
        script = [REPOSITORY / "tools/docs/draw_dashboard.py", name, address, f"{folder}/dashboard-{name}.png", minutes]
        subprocess.run([*uv, "--with", "matplotlib==3.11.2", *script], check=True)
