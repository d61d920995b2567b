"""Server ↔ license server, both as they run: the real keeper and the real process, killed, stopped, started again."""

import asyncio
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from windlass.errors import LicenseError
from windlass.license import keeper as keeping_a_lease
from windlass.license import settings
from windlass.license.client import LeaseClient
from windlass.license.hold import Lease
from windlass.license.keeper import LicenseFacts, LicenseKeeper, keeper
from windlass.license.model import Granted, Holder, Refused, Unreachable
from windlass_testbed.ports import free_port
from windlass_testbed.waiting import HANG_S, wait_until, wait_until_async

PROGRAM = shutil.which("windlass-license", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
POD, OTHER = Holder("team-a", "qwen-0", "uid-1", "qwen"), Holder("team-a", "qwen-1", "uid-2", "qwen")
TTL_S = 5  # the shortest that the server takes
LONG_TTL_S = 300  # so that no lease lapses because the machine is busy
DEADLINE_S = HANG_S
Told = list[LicenseFacts]


def tool(*words: str | Path) -> None:
    assert PROGRAM is not None
    subprocess.run([PROGRAM, *map(str, words)], check=True, capture_output=True, timeout=DEADLINE_S)


class Shop:
    """Keys, a license and a license server on a port of its own."""

    def __init__(self, folder: Path, *more: str | Path, scheme: str = "http") -> None:
        self.folder, self.more = folder, more
        self.port = free_port()
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        self.trust: ssl.SSLContext | None = None
        self.ttl_s = TTL_S
        if not (folder / "keys").exists():
            tool("keygen", "--out", folder / "keys")

    def start(self) -> None:
        """Start the process and wait for its greeting."""
        words = ["serve", "--host", "127.0.0.1", "--port", str(self.port), "--data", self.folder / "data"]
        words += [
            "--lease-auth",
            "none",
            "--public-key",
            self.folder / "keys" / "public.pem",
            "--ttl-seconds",
            str(self.ttl_s),
            *self.more,
        ]
        with (self.folder / "server.log").open("a") as log:
            self.process = subprocess.Popen([str(PROGRAM), *map(str, words)], stdout=log, stderr=log)
        wait_until(lambda: self.process.poll() is not None or self._is_ready(), "the license server's start")
        assert self.process.poll() is None, (self.folder / "server.log").read_text()

    def _is_ready(self) -> bool:
        with suppress(OSError), urllib.request.urlopen(f"{self.url}/readyz", timeout=DEADLINE_S, context=self.trust):
            return True
        return False

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End the process, when it is not ended yet."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.process.wait(DEADLINE_S)

    def license(self, *terms: str, gpus: int = 2, seconds: float = 3600) -> None:
        """Issue and upload a license for GPU-0, GPU-1, … that ends so many seconds from now."""
        listing, file = self.folder / "gpus.txt", self.folder / "license.dat"
        listing.write_text("".join(f"GPU {n}: L20 (UUID: GPU-{n})\n" for n in range(gpus)))
        ends = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()
        words = ["--customer", "x", "--appid", "1", "--expires", ends, *terms, "--out", file]
        tool("issue", "--gpus", listing, "--key", self.folder / "keys" / "private.pem", *words)
        head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="license.dat"\r\n\r\n'
        body = head + file.read_bytes() + b"\r\n--x--\r\n"
        request = urllib.request.Request(f"{self.url}/ls", body, {"Content-Type": "multipart/form-data; boundary=x"})
        with urllib.request.urlopen(request, timeout=DEADLINE_S, context=self.trust):
            return

    def end_license(self, *terms: str) -> None:
        """Upload a license that ends soon; one that ended on its way is refused, and the next lasts twice as long."""
        seconds = 3.0
        while True:
            with suppress(urllib.error.HTTPError, subprocess.CalledProcessError):
                return self.license(*terms, seconds=seconds)
            seconds *= 2


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that hold leases meet in a folder of this test's own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))


@pytest.fixture
def shop(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Shop]:
    """With `TTL_S`, or with the TTL of an indirect parameter; a keeper renews each second or two in either case."""
    shop = Shop(tmp_path)
    shop.ttl_s = getattr(request, "param", TTL_S)
    shop.start()
    yield shop
    shop.end(signal.SIGKILL)


@asynccontextmanager
async def keeping(shop: Shop, told: Told) -> AsyncIterator[tuple[LicenseKeeper, asyncio.Task[None]]]:
    """A serving pod that holds GPU-0: its keeper, and the task that renews."""
    said = settings.read({"WINDLASS_LS_ADDR": shop.url, "WINDLASS_LICENSE_TIMEOUT": "2"})
    async with LeaseClient.of(said) as client:
        kept = keeper(said, client, ["GPU-0"], POD, told.append)
        assert kept is not None
        await asyncio.wait_for(kept.obtain(), DEADLINE_S)
        work = asyncio.create_task(kept.keep())
        try:
            yield kept, work
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)


LONG = pytest.mark.parametrize("shop", [LONG_TTL_S], ids=["long leases"], indirect=True)


@pytest.fixture
def renews_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long lease is renewed each two seconds as well."""
    monkeypatch.setattr(keeping_a_lease, "RENEWALS_PER_TTL", LONG_TTL_S / 2)


@LONG
@pytest.mark.usefixtures("renews_often")
async def test_a_restart_is_lived_through_and_the_seat_is_kept(shop: Shop) -> None:
    """kill -9, seconds without a server, a new process: the pod goes on, says so, and nobody took its seat."""
    shop.license("--max-concurrent", "1")
    told: Told = []
    async with keeping(shop, told) as (kept, work), LeaseClient([shop.url]) as client:
        lease = kept._granted
        shop.end(signal.SIGKILL)
        await wait_until_async(lambda: told[-1].state == "unreachable")
        assert "GPU-0" in told[-1].message
        assert "this pod serves on until 20" in told[-1].message
        shop.start()
        assert isinstance(refused := await client.lease(["GPU-1"], OTHER), Refused)
        assert refused.reason == "LimitReached"
        await wait_until_async(lambda: told[-1].state == "granted")
        assert not work.done()
        assert lease is not None
        assert kept._granted is not None
        assert lease.lease == kept._granted.lease
        work.cancel()
        await kept.release()
        assert isinstance(await client.lease(["GPU-1"], OTHER), Granted)


async def test_a_server_that_stays_away_ends_the_pod_after_the_grace(shop: Shop) -> None:
    """Not before: TTL and the license's grace after the last renewal."""
    shop.license("--grace-seconds", "1")
    told: Told = []
    async with keeping(shop, told) as (kept, work):
        renewed_at = kept._renewed_at
        shop.end()
        with pytest.raises(LicenseError, match=r"GPU-0.*no license server answers.*was not renewed for"):
            await asyncio.wait_for(work, DEADLINE_S)
        without_s = time.monotonic() - max(renewed_at, kept._renewed_at)
        assert without_s >= TTL_S + 1  # clock: at least; a slow machine only takes longer


@LONG
@pytest.mark.usefixtures("renews_often")
@pytest.mark.parametrize("stops", [False, True], ids=["serving goes on", "the license says stop"])
async def test_the_license_ends_while_serving(shop: Shop, stops: bool) -> None:
    """A renewal is marked expired; with --stop-at-expiry it is refused, and the pod ends without a grace."""
    shop.license()
    told: Told = []
    async with keeping(shop, told) as (_, work):
        shop.end_license(*(["--stop-at-expiry"] if stops else []))
        await wait_until_async(lambda: told[-1].state == "expired")
        if stops:
            with pytest.raises(LicenseError, match=r"GPU-0 expired at .* and does not allow serving after that"):
                await asyncio.wait_for(work, DEADLINE_S)
        else:
            assert "serving pods go on" in told[-1].message
            assert not work.done()


@pytest.mark.parametrize("shop", [2 * TTL_S], ids=["10 s"], indirect=True)
async def test_a_pod_whose_lease_lapsed_after_the_license_ended_goes_on(shop: Shop) -> None:
    """Renewed after the end, then no network for longer than a lease lasts: the pod has its grace."""
    shop.license()
    told: Told = []
    async with keeping(shop, told) as (_, work):
        shop.end_license()
        await wait_until_async(lambda: told[-1].state == "expired")
        shop.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(shop.ttl_s + 2)  # clock: longer than a lease lasts; a slow machine only waits longer
        shop.process.send_signal(signal.SIGCONT)
        before = len(told)
        await wait_until_async(lambda: work.done() or [one.state for one in told[before:]].count("expired") > 1)
        assert not work.done()


async def test_a_slow_server_is_given_up_in_time_and_found_again(shop: Shop) -> None:
    """A stopped process accepts connections and answers nothing; continued, it grants."""
    shop.license()
    async with LeaseClient([shop.url], total_timeout_s=0.5) as client:
        shop.process.send_signal(signal.SIGSTOP)
        answer = await client.lease(["GPU-0"], POD)
        shop.process.send_signal(signal.SIGCONT)
        assert isinstance(answer, Unreachable)
        assert "no answer in time" in answer.message
        again = LeaseClient([shop.url], total_timeout_s=DEADLINE_S)
        async with again:
            assert isinstance(await again.lease(["GPU-0"], POD), Granted)


async def test_a_wrong_address_is_reported_and_the_next_one_is_asked(shop: Shop) -> None:
    """Nobody there, another server there, and the right one behind both."""
    shop.license()
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        async with LeaseClient([closed, f"{shop.url}/ls"], total_timeout_s=DEADLINE_S) as client:
            answer = await client.lease(["GPU-0"], POD)
        assert isinstance(answer, Unreachable)
        assert f"{closed}: All connection attempts failed" in answer.message
        assert f"{shop.url}/ls answered 404" in answer.message
        async with LeaseClient([closed, shop.url], total_timeout_s=DEADLINE_S) as client:
            assert isinstance(await client.lease(["GPU-0"], POD), Granted)


def certificate(folder: Path, *, alternative: str = "127.0.0.1") -> str:
    """Write tls.crt and tls.key, signed by themselves, and return the certificate's PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "license server")]), datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(x509.random_serial_number()).not_valid_before(now - timedelta(minutes=5))
    made = made.not_valid_after(now + timedelta(days=1))
    made = made.add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(alternative))]), critical=False)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    pem = made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "tls.key").write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))
    (folder / "tls.crt").write_bytes(pem)
    return pem.decode()


async def test_https_with_an_authority_of_ones_own(tmp_path: Path) -> None:
    """WINDLASS_LS_CA is PEM text or a file; without it, and with another one, the server is not believed."""
    (tmp_path / "tls").mkdir()
    (tmp_path / "other").mkdir()
    pem, other = certificate(tmp_path / "tls"), certificate(tmp_path / "other")
    shop = Shop(tmp_path, "--tls-dir", tmp_path / "tls", scheme="https")
    shop.trust = ssl.create_default_context(cadata=pem)
    shop.start()
    try:
        shop.license()
        answers = {}
        for ca in (pem, str(tmp_path / "tls" / "tls.crt"), "", other):
            found = settings.read(
                {"WINDLASS_LS_ADDR": shop.url, "WINDLASS_LS_CA": ca, "WINDLASS_LICENSE_TIMEOUT": "120"}
            )
            async with LeaseClient.of(found) as client:
                answers[ca] = await client.lease(["GPU-0"], POD)
    finally:
        shop.end()
    assert [type(answer) for answer in answers.values()] == [Granted, Granted, Unreachable, Unreachable]
    assert "CERTIFICATE_VERIFY_FAILED" in str(answers[other])


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment whose nvidia-smi lists GPU-0 and GPU-1."""
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho 'GPU 0: L20 (UUID: GPU-0)'\necho 'GPU 1: L20 (UUID: GPU-1)'\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return dict(os.environ)


@LONG
def test_a_program_holds_a_lease_while_it_lives(shop: Shop, machine: dict[str, str]) -> None:
    """Taken before anything is loaded, given back at its end, and also when it is killed."""
    shop.license("--max-concurrent", "1")
    mine = {**machine, "WINDLASS_LS_ADDR": shop.url, "CUDA_VISIBLE_DEVICES": "0", "WINDLASS_LICENSE_WAIT": "0"}
    yours = {**mine, "CUDA_VISIBLE_DEVICES": "1"}
    with Lease.take(mine) as lease:  # type: ignore[union-attr]  # there are GPUs, so there is a lease
        lease.check()
        with pytest.raises(LicenseError, match=r"GPU-1: the license allows 1 GPU at a time .* gave up after \d+ s"):
            Lease.take(yours)
    program = "from windlass.license.hold import *; l = Lease.take(os.environ); print(1, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program], env=yours, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout
        assert other.stdout.readline() == b"1\n"
        with pytest.raises(LicenseError, match="GPU-0: the license allows 1 GPU at a time"):
            Lease.take(mine)
        other.kill()
    with Lease.take({**mine, "WINDLASS_LICENSE_WAIT": "120"}) as again:  # type: ignore[union-attr]
        again.check()


def test_programs_of_one_pod_share_a_seat(shop: Shop, machine: dict[str, str]) -> None:
    """The first that ends does not give the other's seat away."""
    shop.license("--max-concurrent", "1")
    pod = {**machine, "WINDLASS_LS_ADDR": shop.url, "CUDA_VISIBLE_DEVICES": "0", "WINDLASS_POD_UID": "uid-9"}
    yours = {**machine, "WINDLASS_LS_ADDR": shop.url, "CUDA_VISIBLE_DEVICES": "1", "WINDLASS_LICENSE_WAIT": "0"}
    first, second = Lease.take(pod), Lease.take(pod)
    assert first is not None
    assert second is not None
    first.close()
    with pytest.raises(LicenseError, match="GPU-1: the license allows 1 GPU at a time"):
        Lease.take(yours)
    second.check()
    second.close()
    with Lease.take(yours) as lease:  # type: ignore[union-attr]
        lease.check()


def test_a_lost_license_is_reported_at_the_next_check(shop: Shop, machine: dict[str, str]) -> None:
    """The process beside ends with the sentence, and whoever asks for an answer gets it."""
    shop.license()
    lease = Lease.take({**machine, "WINDLASS_LS_ADDR": shop.url, "WINDLASS_LICENSE_WAIT": "0"})
    assert lease is not None
    shop.end_license("--stop-at-expiry")
    with pytest.raises(LicenseError, match="does not allow serving after that"):
        wait_until(lease.check)


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("WINDLASS_LS_ADDR", "http://ü..svc:1"),
        ("WINDLASS_LS_ADDR", "http://xn--a:1"),
        ("WINDLASS_LS_ADDR", "http://\udcff:1"),
        ("WINDLASS_LS_CA", "-----BEGIN CERTIFICATE-----ü"),
    ],
)
def test_a_wrong_variable_is_one_sentence(machine: dict[str, str], variable: str, text: str) -> None:
    """Of the process beside, too: its exit code says that the environment is wrong."""
    command = [sys.executable, "-m", "windlass.license.hold"]
    nobody = {**machine, "WINDLASS_LS_ADDR": "https://127.0.0.1:1", "CUDA_VISIBLE_DEVICES": "0"}
    done = subprocess.run(
        command, env={**nobody, variable: text}, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (2, b"")
    lines = done.stdout.decode().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(f"variable {variable} h")


def test_no_lease_without_gpus_or_when_none_is_required(machine: dict[str, str]) -> None:
    assert Lease.take({**machine, "CUDA_VISIBLE_DEVICES": ""}) is None
    assert Lease.take({**machine, "WINDLASS_LICENSE_REQUIRED": "false"}) is None
