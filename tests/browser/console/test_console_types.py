"""The pages' types are those of the back end's document, and the vendored modules those of the lock."""

import subprocess
from pathlib import Path

CONSOLE = Path(__file__).parents[3] / "clients/console"


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """A program of npm in the console's folder."""
    return subprocess.run(command, cwd=CONSOLE, capture_output=True, text=True, check=False)


def test_types_are_those_of_the_document(tmp_path):
    """`npm run types` would change nothing."""
    made = tmp_path / "openapi.d.ts"
    program = CONSOLE / "node_modules/.bin/openapi-typescript"
    subprocess.run([program, "openapi.json", "-o", made], cwd=CONSOLE, check=True, capture_output=True)
    assert (CONSOLE / "types/openapi.d.ts").read_text() == made.read_text()


def test_the_pages_hold_to_the_types():
    """tsc finds nothing."""
    done = run("npx", "tsc", "-p", "tsconfig.json")
    assert (done.stdout, done.returncode) == ("", 0)


def test_vendored_modules_are_those_of_the_lock():
    """`npm run vendor` would change nothing."""
    done = run("node", "vendor.mjs", "--check")
    assert (done.stderr, done.returncode) == ("", 0)
