"""The table of suites: what each runs, and which files of the repository are its input.

A row gives the suites that read the files of a pattern; the first row that fits a file counts, and `*` crosses folders.
A file without a row is an input of every suite: the Makefile, conftest.py, locks, `images/` and this program have none.
`check` and `house` hold rules about files, so every file is their input.
"""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache


@dataclass(frozen=True, slots=True)
class Suite:
    """A make target runs its suites in turn, with the command that the Makefile gives and the suite's `tests`."""

    name: str
    target: str
    tests: tuple[str, ...] = ()
    reads_everything: bool = False
    runs_engine: bool = False
    """Whether the engine's image is an input."""
    is_pytest: bool = True


SUITES = (
    Suite("check", "check", reads_everything=True, is_pytest=False),
    Suite("sanitize", "sanitize-lookahead", is_pytest=False),
    Suite("house", "test-fast", ("tests/house",), reads_everything=True),
    Suite("contract", "test-fast", ("tests/contract",)),
    Suite("attack", "test-fast", ("tests/attack",)),
    Suite("testbed", "test-fast", ("tools/testbed/tests",)),
    Suite("shared", "test-fast", ("lib/base/tests", "lib/sizing/tests", "lib/api/tests")),
    Suite("operator", "test-fast", ("operator/tests", "operator/download/tests", "clients/client/tests")),
    Suite("server", "test-fast", ("server/tests", "server/deepspeed/tests")),
    Suite("license", "test-fast", ("license_server/tests",)),
    Suite("console", "test-fast", ("clients/console/tests",)),
    Suite("engine", "test-engine", ("tests/engine",), runs_engine=True),
    Suite("kind", "test-kind", ("tests/kind",), runs_engine=True),
    Suite(
        "apiserver",
        "test-apiserver",
        (
            *("tests/apiserver", "tests/attack/faults", "tests/attack/admission/test_spec_fuzz.py"),
            *("tests/attack/operator", "tests/attack/console"),
        ),
    ),
)
EVERY = " ".join(suite.name for suite in SUITES)
TESTBED, SUITE_PROGRAM = "tools/testbed/src/windlass_testbed", "tools/testbed/src/windlass_testbed/suites"
READMES = ("operator", "server", "license_server", "lib", "clients", "images", "tests", "tools")
"""Folders of several suites, whose READMEs no test reads."""
ROWS: tuple[tuple[str, str], ...] = (
    # Tests, and what they share.
    (f"{SUITE_PROGRAM}/*", EVERY),
    (f"{TESTBED}/__init__.py", EVERY),
    (f"{TESTBED}/cases.py", EVERY),
    (f"{TESTBED}/certificate.py", EVERY),
    (f"{TESTBED}/ports.py", EVERY),
    (f"{TESTBED}/simulated_time.py", EVERY),
    (f"{TESTBED}/waiting.py", EVERY),
    ("tools/testbed/tests/*", "testbed"),
    ("tools/testbed/*", "contract testbed attack operator engine kind apiserver"),
    ("tests/house/*", ""),
    ("tests/contract/*", "contract engine"),
    ("tests/attack/network/*", "attack engine kind apiserver"),
    ("tests/attack/guard/*", "attack engine apiserver"),
    ("tests/attack/faults/*", "attack kind apiserver"),
    ("tests/attack/*", "attack apiserver"),
    ("tests/browser/console/*", ""),
    ("tests/browser/*", "attack engine"),
    ("tests/card/*", "server"),
    ("tests/apiserver/*", "attack kind apiserver"),
    ("tests/engine/identity/*", "server engine"),
    ("tests/engine/*", "engine"),
    ("tests/kind/tiny_adapter.py", "contract kind"),
    ("tests/kind/*", "kind"),
    ("tests/ray/*", ""),
    ("tests/storage/*", ""),
    *((f"{folder}/README.md", "") for folder in READMES),
    # Distributions: their own tests, and the suites that import them, start them, or have them in an image.
    ("lib/base/tests/*", "shared"),
    ("lib/base/*", "contract attack testbed shared operator server license console engine kind apiserver"),
    ("lib/sizing/tests/*.json", "contract shared engine"),
    ("lib/sizing/tests/*", "shared"),
    ("lib/sizing/*", "contract attack testbed shared operator server console engine kind apiserver"),
    ("lib/api/tests/*", "shared"),
    ("lib/api/*", "contract attack testbed shared operator server console engine kind apiserver"),
    ("operator/tests/*", "contract attack shared operator apiserver"),
    ("operator/download/tests/*", "contract attack operator kind"),
    ("operator/*", "contract attack testbed shared operator server kind apiserver"),
    ("clients/client/tests/*", "operator"),
    ("clients/client/*", "contract attack testbed shared operator console engine kind apiserver"),
    ("license_server/tests/*", "license"),
    ("license_server/*", "contract attack testbed license kind apiserver"),
    ("server/deepspeed/tests/*", "attack server"),
    ("server/deepspeed/*", "contract attack testbed server engine"),
    ("clients/console/tests/*", "console"),
    # The cluster asks the image for these two pages alone; `make test-console` has the pages' own tests.
    ("clients/console/src/windlass_console/pages/index.html", "contract attack testbed console kind apiserver"),
    ("clients/console/src/windlass_console/pages/app.js", "contract attack testbed console kind apiserver"),
    ("clients/console/src/windlass_console/pages/*", "console apiserver"),
    ("clients/console/*", "contract attack testbed console kind apiserver"),
    # CUDA's sources: compiled on a card alone, so tests on a CPU read their text at most, or hash an image's files.
    ("server/src/windlass/*.cu", "testbed server"),
    ("server/src/windlass/*.cuh", "testbed server"),
    ("server/tests/launch/checkpoints/*", "server engine"),
    ("server/tests/*", "server"),
    ("server/lookahead/*", "contract attack testbed server sanitize engine kind"),
    ("server/*", "contract attack testbed server engine kind"),
    # What is installed, shown and measured.
    ("charts/windlass/files/dashboards/*", "contract testbed operator engine kind apiserver"),
    ("charts/*", "contract testbed operator kind apiserver"),
    ("crds/*", "contract attack testbed shared operator kind apiserver"),
    ("examples/*", "contract testbed operator kind"),
    ("models/*", "contract testbed operator server engine kind"),
    ("benchmarks/*", "contract shared server engine"),
    ("changelog.d/*", "testbed"),
    ("findings/*", ""),
    # Pages that code prints, or that hold a table of the code, and the tests that compare them.
    ("docs/reference/console-api.md", "contract console"),
    ("docs/reference/license-server.md", "contract license"),
    ("docs/how-to/license.md", "contract license"),
    ("docs/reference/sizing.md", "contract shared"),
    ("docs/reference/quantization.md", "contract shared"),
    ("docs/reference/troubleshooting.md", "contract operator"),
    ("docs/how-to/expose.md", "contract operator kind"),
    ("docs/reference/llmservice.*", "contract operator"),
    ("docs/*/kubectl-windlass.md", "contract operator"),
    ("docs/how-to/console.md", "contract apiserver"),
    ("docs/how-to/doctor.md", "contract server"),
    ("docs/reference/api.md", "contract server"),
    ("docs/reference/architectures.md", "contract server"),
    ("docs/reference/chat-templates.md", "contract server"),
    ("docs/reference/deepspeed.md", "contract server"),
    ("docs/reference/groups.md", "contract server"),
    ("docs/reference/lookahead.md", "contract server"),
    ("docs/reference/replaced-functions.md", "contract server"),
    ("docs/reference/start-command.md", "contract server"),
    ("docs/reference/model-configs.md", "contract engine"),
    ("docs/*", "contract"),
    ("README.md", "contract kind"),
    ("CONTRIBUTING.md", "contract"),
    ("SECURITY.md", "contract"),
    ("LICENSE", "testbed"),
    ("NOTICE", "testbed"),
    (".importlinter", ""),
    (".clang-format", ""),
    (".clang-tidy", ""),
    (".yamllint", ""),
    ("tools/sanitize", "sanitize"),
    ("tools/docs/draw_dashboard.py", "contract engine apiserver kind"),
    ("tools/docs/*", "contract"),
    ("tools/engine_*.py", "engine"),
    ("tools/supported_architectures.py", "engine"),
    ("tools/cpp", ""),
    ("tools/house/*", ""),
)

IN_IMAGES = ("clients/console/src/windlass_console/pages/*", "server/src/windlass/*.cu", "server/src/windlass/*.cuh")
"""Files that a suite reads for an image's tag, though none of its tests runs them. Their rows say whose they are."""


def first_row(file: str) -> tuple[str, str] | None:
    """Return the row that counts for a file."""
    return next((row for row in ROWS if fnmatchcase(file, row[0])), None)


def is_in_images_alone(file: str) -> bool:
    """Whether a suite that reads the file for an image's tag need not have it as an input."""
    return any(fnmatchcase(file, pattern) for pattern in IN_IMAGES)


@cache
def readers(file: str) -> frozenset[str]:
    """Return the names of the suites that a file is an input of."""
    row = first_row(file)
    if row is None:
        return frozenset(EVERY.split())
    return frozenset({suite.name for suite in SUITES if suite.reads_everything} | set(row[1].split()))
