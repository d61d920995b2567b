"""What is found on a machine: real sockets, a real HTTP server, and programs that stand for the driver's."""

import json
import socket
import sys
from pathlib import Path

import pytest
from windlass.doctor.findings import Card
from windlass.doctor.gather import gather, parse_cuda, parse_query
from windlass.license import gpus
from windlass_testbed.ports import free_port

QUERY = "GPU-3d7a260c-8008-fd67-ded1-6027ab7c4974, NVIDIA H100 80GB HBM3, 580.159.04, 81559, 12, 9.0\n"
HEAD = "| NVIDIA-SMI 580.159.04             Driver Version: 580.159.04     CUDA Version: 13.0     |\n"
LISTING = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-3d7a260c-8008-fd67-ded1-6027ab7c4974)\n"
UUID = "GPU-3d7a260c-8008-fd67-ded1-6027ab7c4974"
VIEW = (
    'appid: "1234"\ncustomer: acme\naccesslimit: 0\ngpuinfos:\n'
    f"- uuid: {UUID}\n  brand: NVIDIA H100\n"
    "  issuedtime: 2026-07-08T10:00:00+00:00\n  expiredtime: 2126-10-06T10:00:00+00:00\n"
)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A machine with one H100, as its nvidia-smi tells it; the environment to look at it with."""
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    answers = {"-L": LISTING, "": HEAD}
    program.write_text(
        f"#!{sys.executable}\nimport sys\nanswers = {answers!r}\n"
        f"print(answers.get(''.join(sys.argv[1:]), {QUERY!r}), end='')\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(gpus, "SMI", str(program))
    return {"WINDLASS_ENGINE": "cuda", "WINDLASS_FACTS_PORT": str(free_port()), "WINDLASS_LS_ADDR": "127.0.0.1:9"}


def test_a_machine_with_a_gpu(machine: dict[str, str], tmp_path: Path) -> None:
    """Driver, card, memory and shared memory are seen; a model that is not there refuses the plan."""
    found = gather((str(tmp_path / "nope"),), machine)
    assert found.driver.cards == (Card(UUID, "NVIDIA H100 80GB HBM3", 81559, 12, (9, 0)),)
    assert (found.driver.version, found.driver.cuda) == ("580.159.04", (13, 0))
    assert found.plan is None
    assert "is not there; mount the model" in found.refusal
    assert found.checkpoint.reason == "PathNotFound"
    assert (found.shm_bytes or 0) > 0
    assert (found.host_free_bytes or 0) > 0
    assert found.license is not None
    assert found.license.why.startswith("no license server answers (http://127.0.0.1:9: ")


def test_license_server_is_only_read(machine: dict[str, str], serve) -> None:
    """Two GET requests, no lease."""
    server = serve(lambda seen: (200, VIEW if seen.path == "/ls/view" else "windlass license server\n"))
    seen = gather((), machine | {"WINDLASS_LS_ADDR": f"127.0.0.1:9,{server.url}"}).license
    assert seen is not None
    assert seen.view is not None
    assert (seen.address, list(seen.view.expires)) == (server.url, [UUID])
    assert [(one.method, one.path) for one in server.seen] == [("GET", "/"), ("GET", "/ls/view")]


def test_license_server_without_a_license(machine: dict[str, str], serve) -> None:
    """Its own words are passed on."""
    server = serve(lambda seen: (404, "no license is in force; send it") if seen.path == "/ls/view"
                   else (200, "windlass license server\n"))  # fmt: skip
    seen = gather((), machine | {"WINDLASS_LS_ADDR": server.url}).license
    assert seen is not None
    assert (seen.view, seen.why) == (None, "no license is in force")


def test_another_server_is_not_a_license_server(machine: dict[str, str], serve) -> None:
    """Something else at that address is named as such."""
    server = serve(lambda seen: (200, "welcome"))
    seen = gather((), machine | {"WINDLASS_LS_ADDR": server.url}).license
    assert seen is not None
    assert "does not greet as a license server does" in seen.why


def test_no_license_is_asked_for(machine: dict[str, str], serve) -> None:
    """Switched off means not asked."""
    server = serve(lambda seen: (500, ""))
    environment = machine | {"WINDLASS_LS_ADDR": server.url, "WINDLASS_LICENSE_REQUIRED": "false"}
    assert gather((), environment).license is None
    assert server.seen == []


def test_ports(machine: dict[str, str], serve) -> None:
    """A port that something listens on is taken; when windlass answers there, it is ours."""
    server = serve(lambda seen: (200, json.dumps({"version": 1, "phases": []})))
    port = server.url.rpartition(":")[2]
    model = Path(__file__).parents[3] / "models" / "demo"
    found = gather((str(model), "--port", port), machine | {"WINDLASS_FACTS_PORT": port})
    assert [(one.purpose, one.why) for one in found.ports] == [
        ("API", "Address already in use"),
        ("facts", "Address already in use"),
    ]
    assert found.serving
    assert not gather((str(model),), machine).serving


def test_group(machine: dict[str, str]) -> None:
    """A head that listens is reached, one that does not is told why."""
    with socket.create_server(("127.0.0.1", 0)) as head:
        port = head.getsockname()[1]
        words = ("--nnodes", "2", "--node-rank", "1", "--master-addr", "127.0.0.1", "--master-port", str(port))
        reached = gather(words, machine).group
        assert reached is not None
        assert reached.why == ""
    lost = gather(words, machine).group
    assert lost is not None
    assert "Connection refused" in lost.why


def test_answers_that_are_no_gpu() -> None:
    """A driver that is broken prints sentences."""
    assert parse_query("Failed to initialize NVML: Driver/library version mismatch\n").version == ""
    assert parse_cuda("CUDA Version: N/A") is None
    assert parse_query(QUERY.replace("9.0", "[N/A]")).cards[0].capability is None
