"""`make test-nfs`: what reads and writes a shared volume, on a kernel's own NFS mount, with a share that goes away.

Two guests are two NFS clients, as two nodes are. Figures are printed; docs/reference/nfs.md has those of one run.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request

import pytest
from windlass_sizing.model.facts import from_config

from .conftest import DEMO, MODEL_FILES

OPERATOR = "windlass-operator"
REPORT = "/dev/shm/report"
MODEL = "windlass/demo"
AWAY_S = 15
STALE_S = 10


def inspected(guest) -> dict[str, object]:
    """What the inspect Job's program says of the share's `demo`."""
    code, output = guest.run(OPERATOR, "inspect", "--root=/volume", "--path=demo", f"--termination-log={REPORT}")
    assert code == 0, output
    return json.loads(output.splitlines()[-1])


def test_inspection_reads_the_share(an_operator):
    """The facts of a model on NFS are those of the same files here."""
    with an_operator("inspect") as guest:
        started = time.monotonic()
        report = inspected(guest)
        print(f"inspected in {time.monotonic() - started:.1f} s")
        wrong = guest.run(OPERATOR, "inspect", "--root=/volume", "--path=dmeo", f"--termination-log={REPORT}")[1]
    facts = from_config(json.loads((DEMO / "config.json").read_text()))
    assert report["facts"]["num_hidden_layers"] == facts.num_hidden_layers, report
    assert "dmeo" in wrong
    assert "demo" in wrong


@pytest.fixture
def hub(hub_module):
    """The demo's model on a slow hub: each of two connections gets 160 KiB a second."""
    files = {name: (DEMO / name).read_bytes() for name in MODEL_FILES}
    with hub_module.Hub({MODEL: {"main": files}}) as hub:
        hub.redirects = False  # its storage would be another address than the one that guests know
        hub.pause_s = 0.1
        yield hub


def download(hub, *flags: str) -> list[str]:
    """The download Job's program for the share's `new`."""
    endpoint = hub.url.replace("127.0.0.1", "10.0.2.2")
    words = ["windlass-download", "--root=/volume", "--path=new", f"--endpoint={endpoint}", "--hub=huggingface"]
    words += [f"--name={MODEL}", "--revision=main", "--part-kib=1024", "--connections=2", f"--stale-s={STALE_S}"]
    return [*words, "--stall-s=20", f"--termination-log={REPORT}", *flags]


def whole(share) -> bool:
    """Whether the model is there, byte for byte, with its mark."""
    new = share.folder / "new"
    same = all(
        (new / name).is_file() and (new / name).read_bytes() == (DEMO / name).read_bytes() for name in MODEL_FILES
    )
    return same and (new / ".windlass-complete.json").is_file()


def test_another_node_takes_over_a_download(an_operator, share, hub, until):
    """Two nodes want one model: one owns it, the other waits; the owner's power is cut, and the other ends the work."""
    with an_operator("first") as first, an_operator("second") as second:
        first.start(*download(hub))
        until(lambda: hub.sent > 2_000_000, "the first node downloads")
        waiting = second.start(*download(hub))
        until(lambda: second.poll(waiting)[1] != "", "the second node says for what it waits")
        sent = hub.sent
        until(lambda: hub.sent > sent + 1_000_000, "the first node goes on")
        first.cut()
        cut, hub.pause_s = time.monotonic(), 0.0
        code, output = second.wait(waiting, timeout_s=300)
        print(f"taken over and ended {time.monotonic() - cut:.0f} s after the cut; {hub.sent} bytes in all")
    assert code == 0, output
    assert whole(share)
    assert hub.sent < 2 * sum((DEMO / name).stat().st_size for name in MODEL_FILES)


def test_a_download_outlives_an_absent_share(an_operator, share, hub, until):
    """The share goes away in the middle and comes back: the download goes on by itself and is whole."""
    with an_operator("absent") as guest:
        number = guest.start(*download(hub))
        until(lambda: hub.sent > 2_000_000, "the download runs")
        hub.pause_s = 0.0
        share.go()
        time.sleep(AWAY_S)  # clock: the length of the outage
        assert guest.poll(number)[0] is None
        share.come()
        code, output = guest.wait(number, timeout_s=300)
    assert code == 0, output
    assert whole(share)


def ask(guest, seconds: float = 120) -> str:
    """One chat; the answer's text."""
    body = {"model": "demo", "messages": [{"role": "user", "content": "What does os.path.join do?"}], "max_tokens": 8}
    request = urllib.request.Request(
        f"http://127.0.0.1:{guest.api_port}/v1/chat/completions",
        json.dumps({**body, "temperature": 0}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=seconds) as answer:
        return json.loads(answer.read())["choices"][0]["message"]["content"]


def healthy(guest) -> bool:
    """Whether the server says that it is ready."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{guest.api_port}/health", timeout=120) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


SERVE = ("windlass", "run", "--model-path", "/volume/demo", "--served-model-name", "demo")
SERVING = {
    "WINDLASS_ENGINE": "cpu", "ENFORCE_EAGER": "true", "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1", "WINDLASS_LICENSE_REQUIRED": "false", "WINDLASS_STALL_TIMEOUT": "3600",
    "HOME": "/cache", "XDG_CACHE_HOME": "/cache", "PYTHONUNBUFFERED": "1", "VLLM_ENGINE_READY_TIMEOUT_S": "3600",
}  # fmt: skip


def test_a_server_starts_from_the_share_and_serves_while_it_is_away(a_server, share, until):
    """vLLM reads its weights ahead from NFS and answers; a share that goes away stops no answer."""
    with a_server("server") as guest:
        began = time.monotonic()
        number = guest.start(*SERVE, env=SERVING)

        def ready() -> bool:
            code, output = guest.poll(number)
            assert code is None, output[-3000:]
            return healthy(guest)

        until(ready, "the server is ready", timeout_s=3000)
        print(f"ready {time.monotonic() - began:.0f} s after its start")
        print(*(line for line in guest.poll(number)[1].splitlines() if "read ahead" in line))
        before = ask(guest)
        share.go()
        assert ask(guest) == before
        time.sleep(AWAY_S)  # clock: the length of the outage
        assert ask(guest) == before
        assert healthy(guest)
        share.come()
        code, output = guest.run("cat", "/volume/demo/config.json", timeout_s=120)
        assert (code, output) == (0, (DEMO / "config.json").read_text())
        assert ask(guest) == before
