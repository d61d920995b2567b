"""`make upgrade-live`: 0.1.0 to this release and back on the cluster, while streams run.

Everything is installed anew: other releases of the charts, every LLMService and the CRD go before and after. The report
is a table and `upgrade.json` in the folder that is named. It ends with 1 where a stream was cut, a text differed, a pod
was replaced whose own spec had not changed, or a license, lease or audit record was lost.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import upgrade_diagnosis as diagnosis
import upgrade_report as report
from upgrade_report import Phase
from windlass_testbed import charts, cluster, daemon, deploy, first_release, licensing, machine
from windlass_testbed.cluster import kubectl
from windlass_testbed.errors import BedError
from windlass_testbed.forward import forward
from windlass_testbed.licensing import LicenseServer
from windlass_testbed.paths import REPOSITORY, Paths, paths
from windlass_testbed.process import phase, say

NAMESPACE, SYSTEM, LICENSES = "upgrade-live", "upgrade-system", "upgrade-licenses"
CRD = "llmservices.serving.windlass.dev"
STEADY, EDITED = "steady", "edited"
CHANGE = {"engine": {"allowedMediaDomains": ["example.com"]}}
"""A field that 0.1.0 does not know, and that concerns the pods."""
CLIENT = (Path(__file__).parent / "upgrade_client.py").read_text()
AT_A_TIME, TOKENS, MOST_S = 2, 100, 1800
PAUSE_S = 1.0
"""Between two streams of one client. An engine that streams computes on one processor and polls on another, so that two
services without a pause leave little of two processors to a pod that starts."""
SERVED_S, SETTLED_S, RENEWED_S = 600.0, 10.0, 90.0
FACTS = (
    "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8502/windlass/facts', timeout=5).read().decode())"
)


class Run:
    """The cluster, the two releases, and what was seen so far."""

    def __init__(self, where: Paths, today: deploy.Deployed, out: Path) -> None:
        self.paths, self.today, self.out = where, today, out
        self.licenses = LicenseServer(where, LICENSES)
        self.phases = list[Phase]()
        self.seen = dict[str, Any]()

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        return kubectl(self.paths, *words, stdin=stdin)

    def get(self, *words: str) -> Any:
        return json.loads(self.kubectl(*words, "-o", "json"))

    def until(self, what: str, met: Callable[[], bool], seconds: float) -> None:
        began = time.monotonic()
        while not met():
            if time.monotonic() > began + seconds:
                (self.out / "diagnosis.txt").write_text(diagnosis.text(self.kubectl, NAMESPACE))
                raise BedError(f"waited {seconds:.0f} s for {what}: see {self.out / 'diagnosis.txt'}")
            time.sleep(1)
        say(f"    {what}: after {time.monotonic() - began:.0f} s")

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        began = time.time()
        say(f"▸ {name} …")
        yield
        self.phases.append(Phase(name, began, time.time(), self.pods(), self.leases()))
        say(f"  {name}: {time.time() - began:.0f} s; {self.phases[-1].pods}")

    def pods(self) -> dict[str, dict[str, str]]:
        """The serving pods that are there and not going, by service and uid."""
        found: dict[str, dict[str, str]] = {}
        for pod in self.get("-n", NAMESPACE, "get", "pods", "-l", "app.kubernetes.io/component=server")["items"]:
            if "deletionTimestamp" not in pod["metadata"]:
                of = found.setdefault(pod["metadata"]["labels"]["serving.windlass.dev/service"], {})
                of[pod["metadata"]["uid"]] = pod["spec"]["containers"][0]["image"].rpartition("/")[2]
        return found

    def condition(self, service: str, type_: str) -> dict[str, Any]:
        rows = self.get("-n", NAMESPACE, "get", "llm", service).get("status", {}).get("conditions", [])
        return next((row for row in rows if row["type"] == type_), {})

    def license_server(self, path: str) -> str:
        with (
            forward(self.paths, LICENSES, f"svc/{licensing.RELEASE}", licensing.PORT) as url,
            urllib.request.urlopen(f"{url}{path}", timeout=30) as answer,
        ):
            return str(answer.read().decode())

    def leases(self) -> dict[str, Any]:
        """What each pod says of its license, and what the license server answered since it started."""
        counts = {}
        for line in self.license_server("/metrics").splitlines():
            if line.startswith("windlass_license_lease_requests_total{"):
                counts[line.split('state="')[1].partition('"')[0]] = float(line.split()[-1])
        return {"answers": counts, "pods": self.pod_licenses()}

    def pod_licenses(self) -> dict[str, str]:
        pods = self.get("-n", NAMESPACE, "get", "pods", "-l", "app.kubernetes.io/component=server")["items"]
        found = {}
        for pod in pods:
            with suppress(BedError, ValueError, KeyError):  # one that starts or ends has nothing to say
                words = ("exec", pod["metadata"]["name"], "--", "python3", "-c", FACTS)
                facts = json.loads(self.kubectl("-n", NAMESPACE, *words))
                found[pod["metadata"]["uid"]] = facts["license"]["state"]
        return found

    def audit(self) -> list[str]:
        return self.license_server("/ls/audit?limit=10000").splitlines()

    def renewed(self, times: int = 2) -> None:
        """Wait until the license server has renewed so many leases since it started, and refused none."""

        def met() -> bool:
            answers = self.leases()["answers"]
            if answers.get("refused"):
                raise BedError(f"the license server refused a lease: {answers}")
            return bool(answers.get("renewed", 0) >= times)

        self.until(f"{times} renewals", met, RENEWED_S)


def clean(where: Paths) -> None:
    """Take away every LLMService, every release of the charts, the CRD, and this run's namespaces."""
    with suppress(BedError):  # the CRD may be gone already
        kubectl(where, "delete", "llm", "--all", "-A", "--timeout=120s")
    for row in json.loads(charts.helm(where, "list", "--all-namespaces", "--all", "-o", "json")):
        if row["name"] in ("windlass", licensing.RELEASE):
            charts.helm(where, "uninstall", row["name"], "-n", row["namespace"], "--wait", "--timeout", "90s")
    kubectl(where, "delete", "namespace", NAMESPACE, SYSTEM, LICENSES, "--ignore-not-found", "--timeout=120s")
    kubectl(where, "delete", "pv", f"windlass-models-{NAMESPACE}", "--ignore-not-found", "--timeout=60s")
    kubectl(where, "delete", "crd", CRD, "--ignore-not-found", "--timeout=60s")


def install_operator(run: Run, *, first: bool) -> None:
    """This release's chart and operator, or the first one's; the CRD is one of the chart's templates."""
    images = {name: first_release.image(name) if first else run.today[name] for name in ("operator", "server-cpu")}
    repository, tag = charts.repository_and_tag(images["operator"])
    server, version = charts.repository_and_tag(images["server-cpu"])
    values = [f"image.repository={repository}", f"image.tag={tag}", f"license.addresses[0]={run.licenses.url}"]
    values += [f"server.image.repository={server}", f"server.image.version={version}"]
    values += [] if first else [f"server.image.cpuRepository={server}"]
    charts.Release(run.paths, SYSTEM, "windlass", chart_folder(run, "windlass", first=first)).install(values)


def install_license_server(run: Run, *, first: bool) -> None:
    """Pods of 0.1.0 have no tokens: today's server asks for none until their services have changed."""
    image = first_release.image("license-server") if first else run.today["license-server"]
    repository, tag = charts.repository_and_tag(image)
    values = [f"image.repository={repository}", f"image.tag={tag}", "auth.adminToken="]
    values += [] if first else ["leases.auth=none"]
    public = ("--set-file", f"publicKeys[0]={licensing.signing_keys(run.paths) / 'public.pem'}")
    folder = chart_folder(run, licensing.RELEASE, first=first)
    charts.Release(run.paths, LICENSES, licensing.RELEASE, folder).install(values, public)


def chart_folder(run: Run, name: str, *, first: bool) -> str:
    """Where helm finds a chart of either release."""
    return str((first_release.tree(run.paths) if first else REPOSITORY) / "charts" / name)


def service(name: str, more: dict[str, Any] | None = None) -> str:
    """A service with one named GPU and a license."""
    spec = {
        "model": {"id": "demo", "source": {"pvc": {"claimName": "models", "path": "demo"}}},
        "resources": {"gpus": 1, "cpu": "200m", "memory": "3Gi"},
        "env": deploy.UNBOUND,
        **(more or {}),
    }
    return json.dumps({"apiVersion": "serving.windlass.dev/v1alpha1", "kind": "LLMService",
                       "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})  # fmt: skip


def first_state(run: Run) -> None:
    """0.1.0 with two licensed services that answer."""
    install_license_server(run, first=True)
    install_operator(run, first=True)
    gpus, keys = cluster.gpu_list(run.paths), licensing.signing_keys(run.paths)
    run.licenses.upload(first_release.issue(run.paths, gpus, keys / "private.pem"))
    run.kubectl("create", "namespace", NAMESPACE)
    deploy.make_model(run.paths)
    deploy.models_volume(run.paths, NAMESPACE)
    for name in (STEADY, EDITED):
        run.kubectl("apply", "-f", "-", stdin=service(name))
    served(run)


def served(run: Run) -> None:
    """Both services answer, from pods of their present template alone."""

    def met() -> bool:
        rows = [run.condition(name, "Ready") for name in (STEADY, EDITED)]
        moves = [run.condition(name, "Progressing").get("reason") for name in (STEADY, EDITED)]
        alone = all(len(pods) == 1 for pods in run.pods().values())
        return alone and moves == ["Settled"] * 2 and all(row.get("reason") == "Running" for row in rows)

    run.until("both services to serve", met, SERVED_S)


@contextmanager
def streams(run: Run, found: list[dict[str, Any]]) -> Iterator[None]:
    """Streams of both services until the block ends; the list is filled then."""
    places = {name: f"{name}.{NAMESPACE}.svc.cluster.local" for name in (STEADY, EDITED)}
    told = {"places": places, "port": 8501, "atATime": AT_A_TIME, "tokens": TOKENS, "stop": "/tmp/stop",
            "pause": PAUSE_S, "seconds": MOST_S}  # fmt: skip
    container = {"name": "client", "image": first_release.image("operator"), "imagePullPolicy": "Never",
                 "command": ["/opt/windlass/bin/python", "-c", CLIENT, json.dumps(told)]}  # fmt: skip
    spec = {"containers": [container], "restartPolicy": "Never", "automountServiceAccountToken": False}
    meta = {"name": "client", "namespace": NAMESPACE}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
    run.kubectl("apply", "-f", "-", stdin=json.dumps(pod))
    run.kubectl("-n", NAMESPACE, "wait", "--for=condition=Ready", "pod/client", "--timeout=60s")
    try:
        yield
    finally:
        run.kubectl("-n", NAMESPACE, "exec", "client", "--", "touch", "/tmp/stop")
        run.kubectl("-n", NAMESPACE, "wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/client", "--timeout=90s")
        found += [json.loads(line) for line in run.kubectl("-n", NAMESPACE, "logs", "client").splitlines()]


def upgrade(run: Run) -> None:
    """0.1.0 to this release: CRD, operator, license server; then one service changes."""
    run.seen["audit before"] = run.audit()
    with run.phase("0.1.0 at rest"):
        time.sleep(SETTLED_S)
    with run.phase("CRD to 0.2.0, operator 0.1.0"):
        schema = REPOSITORY / "crds/llmservices.serving.windlass.dev.yaml"
        run.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(schema))
        time.sleep(SETTLED_S)
    with run.phase("operator to 0.2.0"):
        install_operator(run, first=False)
        outdated = lambda: all(run.condition(name, "Outdated") for name in (STEADY, EDITED))  # noqa: E731
        run.until("the condition Outdated", outdated, 90)
        time.sleep(SETTLED_S)
    with run.phase("license server to 0.2.0"):
        install_license_server(run, first=False)
        run.renewed()
        run.seen["audit of 0.2.0"] = run.audit()
    with run.phase("a service changes"):
        old = set(run.pods()[EDITED])
        run.kubectl("-n", NAMESPACE, "patch", "llm", EDITED, "--type=merge", "-p", json.dumps({"spec": CHANGE}))
        run.until("its pod replaced", lambda: not old & set(run.pods()[EDITED]), SERVED_S)
        served(run)


def back(run: Run) -> None:
    """This release to 0.1.0: license server, then operator with its CRD."""
    with run.phase("license server to 0.1.0"):
        install_license_server(run, first=True)
        run.renewed()
        run.seen["audit of 0.1.0 again"] = run.audit()
    with run.phase("operator and CRD to 0.1.0"):
        install_operator(run, first=True)
        wanted = first_release.image("server-cpu").rpartition("/")[2]
        run.until("the edited pod of 0.1.0", lambda: wanted in run.pods()[EDITED].values(), SERVED_S)
        served(run)
    with run.phase("0.1.0 at rest again"):
        run.seen["new field"] = unknown_field(run)
        time.sleep(SETTLED_S)


def unknown_field(run: Run) -> dict[str, str]:
    """What the API server says of a field that the CRD of 0.1.0 does not have, and what it keeps."""
    command = [str(run.paths.bin / "kubectl"), "--kubeconfig", str(run.paths.kubeconfig), "apply", "-f", "-"]
    body, said = service(EDITED, CHANGE), {}
    for way in ("warn", "strict"):
        words = [*command, f"--validate={way}", "--dry-run=server", "-o", "json"]
        done = subprocess.run(words, input=body, capture_output=True, text=True, check=False)
        said[way] = done.stderr.strip()
        if way == "warn":
            said["kept"] = json.dumps(json.loads(done.stdout)["spec"].get("engine", {}).get("allowedMediaDomains"))
    return said


def judge(run: Run, rows: Sequence[report.Row], found: Sequence[dict[str, Any]]) -> list[str]:
    """What was not as it shall be."""
    wrong = [f"{one['service']}: {one['outcome']}" for one in found if one["outcome"] != "whole"]
    wrong += [f"{name} gave {len(some)} texts" for name, some in report.texts(found).items() if len(some) != 1]
    allowed = {(EDITED, "a service changes"), (EDITED, "operator and CRD to 0.1.0")}
    wrong += [f"{row.phase}: {count} pods of {name} replaced" for row in rows for name, count in row.replaced.items()
              if count and (name, row.phase) not in allowed]  # fmt: skip
    if "ended by" in run.seen:
        return [*wrong, run.seen["ended by"]]
    for before, after in (("audit before", "audit of 0.2.0"), ("audit of 0.2.0", "audit of 0.1.0 again")):
        wrong += [f"lost between {before} and {after}: {one}" for one in report.lost(run.seen[before], run.seen[after])]
    wrong += [f"{phase.name}: a pod's license is {state}" for phase in run.phases
              for state in phase.leases["pods"].values() if state != "granted"]  # fmt: skip
    if "unknown field" not in run.seen["new field"]["warn"] or run.seen["new field"]["kept"] != "null":
        wrong.append(f"the new field: {run.seen['new field']}")
    return wrong


def main(words: list[str]) -> int:
    """Upgrade, go back, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=REPOSITORY / ".cache/upgrade")
    parser.add_argument("--images", action="store_true", help="only build the images of both releases")
    asked = parser.parse_args(words)
    where = paths()
    machine.ensure_packages()
    daemon.start(where)
    with phase("images of both releases"):
        today = deploy.prepare_images(where)
        first_release.build(where, today["engine-cpu"])
    if asked.images:
        return 0
    cluster.check(where)
    asked.out.mkdir(parents=True, exist_ok=True)
    run = Run(where, deploy.bring_up(where), asked.out)
    with phase("nothing of an earlier run"):
        clean(where)
    try:
        with phase("images of the first release into the nodes"):
            first_release.load_images(where, today["engine-cpu"])
        with phase("the first release serves"):
            first_state(run)
        found = list[dict[str, Any]]()
        try:
            with streams(run, found):
                upgrade(run)
                back(run)
        except BedError as error:
            run.seen["ended by"] = str(error)
        return reported(run, found)
    finally:
        clean(where)


def reported(run: Run, found: list[dict[str, Any]]) -> int:
    """Write and print the report; 1 where something was not as it shall be."""
    rows = report.rows(run.phases, found)
    wrong = judge(run, rows, found)
    texts = {name: dict(some) for name, some in report.texts(found).items()}
    whole = {"rows": report.as_json(rows), "leases": [phase.leases for phase in run.phases], "texts": texts,
             "wrong": wrong, "streams": len(found), "seen": run.seen}  # fmt: skip
    (run.out / "upgrade.json").write_text(json.dumps(whole, indent=2))
    say(f"\n{report.table(rows)}\n")
    say(f"{len(found)} streams, {sum(one['outcome'] != 'whole' for one in found)} not whole; texts: {texts}")
    for line in wrong:
        say(f"wrong: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
