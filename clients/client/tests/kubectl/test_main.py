"""The program: instant help, options on both sides of a command, a code for each kind of failure."""

from __future__ import annotations

import asyncio
import errno
import os
import shlex
import subprocess
import sys
from types import SimpleNamespace

import pytest
from windlass_base.command_line import OutputError
from windlass_base.kube import errors
from windlass_client.errors import NoLogsError
from windlass_kubectl import __main__ as program
from windlass_kubectl import plan
from windlass_kubectl.errors import WrongOptionError
from windlass_kubectl.parser import EXIT_CODES, parser

HEAVY = ("aiohttp", "kubernetes", "lightkube", "httpx2", "pydantic", "yaml", "windlass_sizing", "rich", "typer")


def run(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "windlass_kubectl", *words],
        env={**os.environ, **env}, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def test_help_imports_nothing_heavy():
    """So that it is instant; the same for every command's own help."""
    code = (
        "import sys\nfrom windlass_kubectl.__main__ import main\n"
        "try: main(['plan', '--help'])\nexcept SystemExit: pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert "examples:" in done.stdout


def test_no_command_needs_the_operator():
    """The plug-in runs on laptops, where nothing of the operator is installed."""
    code = (
        "import sys\nfor name in 'status plan logs chat report license completion'.split():\n"
        "  __import__('windlass_kubectl.' + name)\n"
        "print([name for name in ('windlass_operator', 'kopf', 'kubernetes', 'aiohttp') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_options_stand_before_or_after_the_command():
    before = parser().parse_args(["-n", "a", "-o", "json", "status"])
    after = parser().parse_args(["status", "-n", "a", "-o", "json"])
    assert (before.namespace, before.output) == (after.namespace, after.output) == ("a", "json")
    assert parser().parse_args(["status"]).output == "text"


CHATS = {
    "words first": ("chat demo hi --model X", "hi"),
    "options first": ("chat --model X demo hi", "hi"),
    "an option between": ("chat demo --model X hi", "hi"),
    "options everywhere": ("-o json chat --max-tokens 5 demo --model X hi -n team", "hi"),
    "a flag's value with =": ("chat demo --model=X hi", "hi"),
    "standard input": ("chat demo --model X -", "-"),
    "no prompt": ("chat demo --model X", None),
    "a dash and a space": ("chat demo --model X '- one item'", "- one item"),
    "a negative number": ("chat demo --model X -5", "-5"),
    "behind two dashes": ("chat demo --model X -- -hi", "-hi"),
}


@pytest.mark.parametrize(("typed", "prompt"), CHATS.values(), ids=CHATS.keys())
def test_options_stand_between_two_arguments(typed, prompt):
    options = parser().parse_args(shlex.split(typed))
    assert (options.name, options.model, options.prompt) == ("demo", "X", prompt)


SURPLUS = {
    "a word too many": ("chat demo --model X hi there", '"there" belongs to no option'),
    "an unknown option": ("chat demo --modle X hi", "there is no option --modle; write --model"),
    "a name twice": ("status demo -w other", '"other" belongs to no option'),
}


@pytest.mark.parametrize(("typed", "refusal"), SURPLUS.values(), ids=SURPLUS.keys())
def test_a_surplus_argument_is_refused(typed, refusal, capsys):
    with pytest.raises(SystemExit):
        parser().parse_args(typed.split())
    assert refusal in capsys.readouterr().err


@pytest.mark.parametrize(
    ("word", "read"),
    [("--max_tokens", "--max-tokens"), ("--key_from_secret=a_b", "--key-from-secret=a_b"), ("a_b", "a_b"),
     ("--what is a_b?", "--what is a_b?"), ("-", "-"), ("__complete", "__complete")],
)  # fmt: skip
def test_underscores_are_dashes_in_names_of_options(word, read):
    assert program._dashed(word) == read


CODES = {
    WrongOptionError: 2,
    errors.NotFoundError: 4,
    errors.AccessError: 5,
    errors.UnreachableError: 5,
    errors.UnauthorizedError: 5,
    errors.ForbiddenError: 5,
    errors.InvalidError: 1,
    errors.ConflictError: 1,
    NoLogsError: 1,
}


@pytest.mark.parametrize(("kind", "code"), CODES.items(), ids=[kind.__name__ for kind in CODES])
def test_each_failure_has_its_exit_code(kind, code):
    assert program._code(kind("x")).code == code
    assert code in [row.code for row in EXIT_CODES]


def test_the_help_lists_every_exit_code():
    text = parser().format_help()
    assert [row.code for row in EXIT_CODES if f"\n  {row.code} " not in text] == []


def test_without_a_cluster_one_sentence_and_code_5(tmp_path):
    done = run("status", HOME=str(tmp_path), KUBECONFIG="")
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr.startswith("kubectl windlass status: no access to a cluster")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("words", [["nonsense"], ["logs"], ["logs", "a", "--tail", "0"], ["plan", "a", "-f", "b"]])
def test_a_wrong_command_line_is_code_2(words):
    assert run(*words).returncode == 2


BEFORE_A_LOGIN = {
    "usage to the past": (
        "usage --from 2026-11-02 --to 2026-11-01",
        "usage: --from 2026-11-02T00 is after --to 2026-11-01T23; name an",
    ),
    "usage of the future": ("usage --from 2999-01-01", "usage: --from 2999-01-01T00 is in the future; name an hour"),
    "usage of years": (
        "usage --from 2020-01-01",
        "usage: --from 2020-01-01T00 is more than 400 days before --to; name",
    ),
    "status of a name everywhere": ("status demo -A", "status: a service has its name in one namespace; leave out"),
    "status of a name and labels": ("status demo -w -l a=b", "status: a name needs no selector; leave out NAME, or -l"),
    "plan of no file": ("plan -f nope.yaml", "plan: -f nope.yaml is not there; name a file with LLMServices"),
    "plan of a folder": ("plan -f /", "plan: -f / cannot be read: Is a directory; name a file"),
}


@pytest.mark.parametrize(("line", "said"), BEFORE_A_LOGIN.values(), ids=BEFORE_A_LOGIN.keys())
def test_a_wrong_option_is_code_2_before_a_cluster_is_looked_for(line, said, capsys, monkeypatch):
    """There is no kubeconfig, which would be code 5."""
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    assert program.main(line.split()) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert shown.err.startswith(f"kubectl windlass {said}")


def test_the_file_of_a_plan_may_be_a_pipe():
    """As `plan -f <(kustomize build)` gives it: it can be read once."""
    read, write = os.pipe()
    os.write(write, b"kind: Pod")
    os.close(write)
    options = parser().parse_args(["plan", "-f", f"/dev/fd/{read}"])
    plan.prepare(options)
    os.close(read)
    assert options.file_text == "kind: Pod"
    with pytest.raises(errors.InvalidError, match="holds no LLMService"):
        asyncio.run(plan.run(SimpleNamespace(options=options)))


def test_an_error_of_standard_output_is_left_to_the_wrapper(monkeypatch, capsys):
    """A command's own print meets it, which is no mistake of ours with a traceback."""

    async def prints(*_):
        raise OutputError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(program, "_in_session", prints)
    with pytest.raises(OutputError):
        program._run(parser().parse_args(["status"]))
    assert capsys.readouterr().err == ""
