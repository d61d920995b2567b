"""Ready means that a chat works: the first chat in the image, through real vLLM, and starts that never become ready."""

import shutil
import ssl
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from windlass_testbed.paths import REPOSITORY
from windlass_testbed.waiting import wait_until

from ..conftest import Engine
from ..serving_engine import START_TIMEOUT_S

DEMO = REPOSITORY / "models/demo"
FLAGS = ("--dtype", "float32", "--max-model-len", "1024", "--served-model-name", "demo")
RUN = ("windlass", "run", *FLAGS)
COPY = ("windlass", "run", "/model", *FLAGS)
KWARGS = ("--default-chat-template-kwargs", '{"zero": 0}')
"""With values of a flag the template is only compiled before the start: what rendering it does, the engine finds."""
ASKED = {"messages": [{"role": "user", "content": "What does os.path.join do?"}], "max_tokens": 8, "temperature": 0}


@pytest.fixture
def model(tmp_path: Path) -> Callable[..., Path]:
    """A copy of the demo model; `template` is put in front of its chat template, None removes that."""

    def copy(template: str | None) -> Path:
        folder = tmp_path / "model"
        shutil.copytree(DEMO, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
        own = folder / "chat_template.jinja"
        text = own.read_text()
        own.unlink()
        if template is not None:
            own.write_text(template + text)
        for path in (tmp_path, folder, *folder.rglob("*")):
            path.chmod(0o755)  # the server is no root
        return folder

    return copy


def certificate(folder: Path) -> None:
    """A key and a certificate of another name than any that the server is called by."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "llm.example.com")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    (folder / "tls.crt").write_bytes(made.sign(key, hashes.SHA256()).public_bytes(pem))
    (folder / "tls.key").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    for path in (folder, *folder.iterdir()):
        path.chmod(0o755)


def client(host: str) -> httpx.Client:
    """One over TLS that takes any certificate, as the kubelet does."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    return httpx.Client(base_url=f"https://{host}", verify=tls, timeout=60)


def status(probe: httpx.Client) -> int:
    """Status that a probe gets; 0 while nobody answers."""
    try:
        return probe.get("/health").status_code
    except httpx.HTTPError:
        return 0


def heard_until_ready(probe: httpx.Client) -> set[int]:
    """Everything that probes hear until one hears 200."""
    heard: set[int] = set()
    wait_until(lambda: heard.add(status(probe)) or 200 in heard, "a ready server", START_TIMEOUT_S)
    return heard - {0}


def whole(log: str) -> str:
    """A log that tells of the start's end: a line reaches it some time after the answer that it tells of."""
    return log if "POST /windlass/started" in log and "serving after" in log and '/health HTTP/1.1" 200' in log else ""


def before_ready(log: str) -> Counter[str]:
    """The requests in a log before the first probe from outside of the container that heard 200."""
    found: Counter[str] = Counter()
    for line in log.splitlines():
        who, mark, request = line.partition(' - "')
        if mark and "127.0.0.1" not in who and request.startswith('GET /health HTTP/1.1" 200'):
            return found
        found[request] += bool(mark)
    pytest.fail(f"no probe heard 200:\n{log[-4000:]}")


def test_health_is_well_after_the_chats(engine: Engine, tmp_path: Path) -> None:
    """Over TLS, with keys, hosts and one place: 503 until chat and tool are answered, then 200."""
    certificate(tmp_path)
    tls = ("--ssl-certfile", "/tls/tls.crt", "--ssl-keyfile", "/tls/tls.key")
    limits = ("--allowed-hosts", "llm.example.com", "--limit-worker-concurrency", "1", "--max-waiting-requests", "0")
    mounts = {tmp_path: "/tls:ro"}
    headers = {"Host": "llm.example.com", "Authorization": "Bearer k"}
    with engine.started(*RUN, *tls, *limits, mounts=mounts, OPENAI_API_KEYS="k") as (name, host), client(host) as http:
        assert heard_until_ready(http) <= {503, 200}
        assert http.post("/v1/chat/completions", json=ASKED, headers=headers).status_code == 200
        log = wait_until(lambda: whole(engine.log(name, "all")), "the log of the start")
    requests = before_ready(log)
    assert requests['POST /v1/chat/completions HTTP/1.1" 200 OK'] == 2
    assert requests['POST /windlass/started HTTP/1.1" 200 OK'] == 1
    assert "first-chat" in next(line for line in log.splitlines() if "serving after" in line)


@pytest.mark.long
def test_a_template_that_only_the_engine_finds_broken(engine: Engine, model: Callable[..., Path]) -> None:
    """It renders a chat and no tool: never ready, with the line and Jinja's words."""
    folder = model("{% if tools %}\n{{ tools[0].nothing.more }}{% endif %}")
    code, said = engine.ended(*COPY, *KWARGS, mounts={folder: "/model:ro"})
    assert (code, "serving after" in said) == (3, False), said[-4000:]
    sentence = "windlass: line 2 of the chat template /model/chat_template.jinja cannot be rendered: UndefinedError: "
    assert sentence + "'dict object' has no attribute 'nothing'" in said


@pytest.mark.long
def test_a_chat_that_fails_in_the_engine_alone(engine: Engine, model: Callable[..., Path]) -> None:
    """What the flag's value makes of the template is no fault of its own: the engine's sentence, exit code 8."""
    folder = model("{{ 1 // zero }}")
    code, said = engine.ended(*COPY, *KWARGS, mounts={folder: "/model:ro"})
    assert (code, "serving after" in said) == (8, False), said[-4000:]
    assert "windlass: the engine is up and answers a chat with HTTP 400: integer division or modulo by zero" in said


def test_a_base_model_is_asked_a_completion(engine: Engine, model: Callable[..., Path]) -> None:
    """It has no chat template: the chat stays a 400, and the server is ready."""
    with engine.serving(*COPY, mounts={model(None): "/model:ro"}) as url:
        said = engine.output(url)
        assert '"POST /v1/completions HTTP/1.1" 200' in said
        assert httpx.post(f"{url}/v1/chat/completions", json=ASKED, timeout=60).status_code == 400


@pytest.mark.long
def test_an_embedder_is_ready_without_a_chat(engine: Engine) -> None:
    """Its API has none."""
    with engine.serving(*RUN, "--runner", "pooling", "--convert", "embed") as url:
        assert httpx.post(f"{url}/v1/chat/completions", json=ASKED, timeout=60).status_code == 404
        found = httpx.post(f"{url}/v1/embeddings", json={"input": "Hello"}, timeout=60).json()
        assert len(found["data"][0]["embedding"]) > 8
