"""What `run_upgrade` writes down when it waited in vain: the pods, their last words, and where the engines compute."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from windlass_testbed.errors import BedError

ENGINE = "VLLM::"
"""With this the engine's processes begin their names."""
LAST_LINES = "60"


def text(kubectl: Callable[..., str], namespace: str, proc: Path = Path("/proc")) -> str:
    """Everything that says why a pod of the namespace is not ready; a question that fails is answered by its error."""
    questions: list[tuple[str, ...]] = [
        ("get", "llm,deployments,replicasets,pods", "-o", "wide"),
        ("get", "events", "--sort-by=.lastTimestamp"),
        ("get", "llm", "-o", "jsonpath={range .items[*]}{.metadata.name}{' '}{.status.conditions}{'\\n'}{end}"),
        ("describe", "pods", "-l", "app.kubernetes.io/component=server"),
    ]
    with suppress(BedError):
        pods = kubectl("-n", namespace, "get", "pods", "-l", "app.kubernetes.io/component=server", "-o", "name").split()
        questions += [("logs", pod, f"--tail={LAST_LINES}", "--timestamps") for pod in pods]
    return "\n".join([*(_asked(kubectl, namespace, words) for words in questions), engines(proc)])


def _asked(kubectl: Callable[..., str], namespace: str, words: tuple[str, ...]) -> str:
    try:
        answer = kubectl("-n", namespace, *words)
    except BedError as error:
        answer = str(error)
    return f"$ kubectl {' '.join(words)}\n{answer}"


def engines(proc: Path) -> str:
    """A line for each process of an engine on this machine: its name, processor seconds, and the CPUs it may use."""
    rows = []
    for folder in sorted(proc.glob("[0-9]*"), key=lambda one: int(one.name)):
        with suppress(OSError, IndexError, StopIteration):
            name = (folder / "cmdline").read_text().partition("\0")[0]
            if not name.startswith(ENGINE):
                continue
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            lines = (folder / "status").read_text().splitlines()
            allowed = next(line.split()[1] for line in lines if line.startswith("Cpus_allowed_list"))
            seconds = (int(fields[11]) + int(fields[12])) / 100
            rows.append(f"{folder.name:>8} {name:24} {seconds:8.1f} s  CPUs {allowed}, last on {fields[36]}")
    return "\n".join(rows)
