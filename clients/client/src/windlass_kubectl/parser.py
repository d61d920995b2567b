"""The command line of `kubectl windlass`. Imports nothing but the standard library, so that --help is instant."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from windlass_kubectl import __version__, bench_parser, usage_parser
from windlass_kubectl.command_line import Parser
from windlass_kubectl.license_parser import add_actions

PROGRAM = "kubectl windlass"
WIDTH = 100
OUTPUTS = ("text", "json", "yaml")
SHELLS = ("bash", "zsh", "fish")


@dataclass(frozen=True, slots=True)
class ExitCode:
    """One exit code, for the program and for its help."""

    code: int
    meaning: str


OK = ExitCode(0, "done")
FAILED = ExitCode(1, "the API server or the service refused; the sentence on standard error says what")
USAGE = ExitCode(2, "the command line itself is wrong")
NOTHING_FITS = ExitCode(3, "plan: the model is not there, or fits no GPU of this cluster")
NOT_FOUND = ExitCode(4, "there is no such service")
UNREACHABLE = ExitCode(5, "no kubeconfig, no answer, or no right to look")
INTERRUPTED = ExitCode(130, "interrupted")
EXIT_CODES = (OK, FAILED, USAGE, NOTHING_FITS, NOT_FOUND, UNREACHABLE, INTERRUPTED)


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = Whole(
        prog=PROGRAM,
        description="Create LLMServices, look at them, preview plans, read logs, chat, report bugs, license GPUs.",
        epilog=_examples(
            ("kubectl windlass status", "all services of the namespace"),
            ("kubectl windlass plan -f service.yaml --model ./qwen2-7b", "what would be planned, before anything runs"),
            ("kubectl windlass chat demo 'What are you?'", "one question, streamed"),
        )
        + "\n\nexit codes:\n"
        + "\n".join(f"  {row.code:<4} {row.meaning}" for row in EXIT_CODES),
        formatter_class=_Formatter,
        parents=[_everywhere()],
    )
    top.set_defaults(context=None, namespace=None, kubeconfig=None, output="text")
    top.add_argument("--version", action="version", version=__version__)
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)
    for add in (_create, _status, _plan, _logs, _chat, _bench, _usage, _report, _license, _completion):
        add(commands)
    return top


class Whole(Parser):
    """All words; those behind -- of `bench` are another program's, and stand in `behind`."""

    def parse_args(self, args: Sequence[str], namespace: None = None) -> argparse.Namespace:  # type: ignore[override]
        """The options; argparse itself would give a list behind -- to the first argument that takes several."""
        at = args.index("--") if "bench" in args and "--" in args else len(args)
        found = super().parse_args(args[:at], namespace)
        found.behind = list(args[at + 1 :])
        return found


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Help of one width everywhere, so that the reference page is always the same."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=WIDTH, max_help_position=32)


def _everywhere() -> Parser:
    """Options that each command takes, before or after its name; suppressed defaults let both places work."""
    both = Parser(add_help=False, argument_default=argparse.SUPPRESS)
    both.add_argument("-n", "--namespace", help="namespace (default: the context's)")
    both.add_argument("--context", help="context of the kubeconfig (default: the current one)")
    both.add_argument("--kubeconfig", help="kubeconfig file (default: $KUBECONFIG, else ~/.kube/config)")
    both.add_argument("-o", "--output", choices=OUTPUTS, help="how the answer is printed (default: text)")
    return both


Commands: TypeAlias = "argparse._SubParsersAction[Parser]"


def _command(commands: Commands, name: str, words: str, examples: Iterable[tuple[str, str]]) -> Parser:
    return commands.add_parser(
        name,
        help=words,
        description=f"{words[0].upper()}{words[1:]}.",
        epilog=_examples(*examples),
        formatter_class=_Formatter,
        parents=[_everywhere()],
    )


def _examples(*rows: tuple[str, str]) -> str:
    return "examples:\n" + "\n".join(f"  {command}\n      {meaning}" for command, meaning in rows)


def _create(commands: Commands) -> None:
    one = _command(
        commands,
        "create",
        "serve a model of a hub or of a claim, and follow it until it answers",
        (
            ("kubectl windlass create qwen --model hf://Qwen/Qwen2.5-7B-Instruct", "with a new claim of 50Gi"),
            ("kubectl windlass create qwen --model pvc://models/qwen2-7b", "a directory of a claim that is there"),
            ("kubectl windlass create qwen --model hf://Qwen/Qwen2.5-7B-Instruct --dry-run", "print the manifests"),
        ),
    )
    one.add_argument("name", metavar="NAME", help="the service's name")
    one.add_argument(
        "--model",
        required=True,
        metavar="ADDRESS",
        help="hf://OWNER/NAME of Hugging Face, ms://OWNER/NAME of ModelScope, each perhaps with @REVISION, "
        "or pvc://CLAIM/PATH",
    )
    one.add_argument("--size", metavar="QUANTITY", help="of the new claim, as 50Gi (default: 50Gi)")
    one.add_argument("--storage-class", metavar="NAME", help="of the new claim (default: the cluster's)")
    one.add_argument(
        "--access-mode",
        choices=("ReadWriteOnce", "ReadWriteMany"),
        help="of the new claim; ReadWriteMany serves from several nodes (default: ReadWriteOnce)",
    )
    one.add_argument(
        "--gpus", type=_zero_or_more, metavar="N", help="GPUs of a replica; 0 serves on CPUs (default: as planned)"
    )
    one.add_argument("--max-model-len", type=_count, metavar="N", help="context in tokens (default: as planned)")
    one.add_argument(
        "--dry-run", action="store_true", help="print the manifests, as YAML or by -o json, and make nothing"
    )
    one.add_argument("--no-wait", action="store_true", help="return as soon as the service is made")
    one.add_argument(
        "--timeout-s", type=_zero_or_more, default=1800, metavar="S", help="seconds to follow it (default: 1800)"
    )


def _status(commands: Commands) -> None:
    one = _command(
        commands,
        "status",
        "show what a service does, what was planned for it, and what is wrong with it",
        (
            ("kubectl windlass status", "a line for each service of the namespace"),
            ("kubectl windlass status -A", "of all namespaces"),
            ("kubectl windlass status demo -w", "everything about one, again whenever it changes"),
        ),
    )
    one.add_argument("name", nargs="?", metavar="NAME", help="the service; left out: a line for each")
    one.add_argument("-A", "--all-namespaces", action="store_true", help="services of all namespaces")
    one.add_argument("-w", "--watch", action="store_true", help="go on, and show every change")
    one.add_argument("-l", "--selector", default="", help="only services with these labels")


def _plan(commands: Commands) -> None:
    one = _command(
        commands,
        "plan",
        "preview the plan of a service on this cluster's GPUs; nothing is applied",
        (
            ("kubectl windlass plan -f service.yaml --model ./qwen2-7b", "a service that does not exist yet"),
            ("kubectl windlass plan -f service.yaml", "a change to one that does: its model is known"),
            ("kubectl windlass plan demo -o json", "the running one: what it goes by"),
        ),
    )
    one.set_defaults(file_text=None)
    what = one.add_mutually_exclusive_group(required=True)
    what.add_argument("name", nargs="?", metavar="NAME", help="an existing service")
    what.add_argument("-f", "--filename", metavar="FILE", help="file with LLMServices; - reads standard input")
    one.add_argument(
        "--model",
        metavar="PATH",
        help="model directory or config.json on this machine (default: what the operator found of the service)",
    )


def _logs(commands: Commands) -> None:
    one = _command(
        commands,
        "logs",
        "print the logs of a service's pods; before there are any, of the Jobs that fetch and inspect its model",
        (
            ("kubectl windlass logs demo -f", "all pods, those that come later too"),
            ("kubectl windlass logs demo --previous", "the run before the last restart"),
        ),
    )
    one.add_argument("name", metavar="NAME", help="the service")
    one.add_argument("-f", "--follow", action="store_true", help="go on as lines come")
    one.add_argument("-p", "--previous", action="store_true", help="the run before the container's last restart")
    one.add_argument("--pod", default="", help="only this pod")
    one.add_argument("--tail", type=_count, metavar="LINES", help="only the last lines of each pod")


def _chat(commands: Commands) -> None:
    one = _command(
        commands,
        "chat",
        "talk to a service through a port-forward of kubectl's",
        (
            ("kubectl windlass chat demo", "talk; an empty line or Ctrl-D ends it"),
            ("kubectl windlass chat demo 'What are you?'", "one question"),
            ("kubectl windlass chat demo --key-from-secret keys", "with the first key of a Secret"),
        ),
    )
    one.add_argument("name", metavar="NAME", help="the service")
    one.add_argument("prompt", nargs="?", metavar="PROMPT", help="ask this and leave; - reads standard input")
    key = one.add_mutually_exclusive_group()
    key.add_argument("--token", help="API key (default: $WINDLASS_API_KEY)")
    key.add_argument("--key-from-secret", metavar="SECRET[/ENTRY]", help="API key: the first line of that Secret")
    one.add_argument("--system", help="system prompt")
    one.add_argument("--model", help="name to ask for, for example an adapter's (default: spec.model.id)")
    one.add_argument("--max-tokens", type=_count, help="most tokens of an answer")
    one.add_argument("--temperature", type=float, help="0 always takes the likeliest token")
    one.add_argument("--address", metavar="URL", help="ask there instead of through a port-forward")


def _bench(commands: Commands) -> None:
    what = "measure a service by a Job beside it, and bring the results back"
    bench_parser.add_options(_command(commands, "bench", what, bench_parser.EXAMPLES))


def _usage(commands: Commands) -> None:
    what = "sum the hourly records of requests and tokens, by service, key and model"
    usage_parser.add_options(_command(commands, "usage", what, usage_parser.EXAMPLES))


def _report(commands: Commands) -> None:
    one = _command(
        commands,
        "report",
        "collect what a bug report needs into one archive; secrets are left out",
        (
            ("kubectl windlass report demo", "writes windlass-report-demo.tar.gz"),
            ("kubectl windlass report demo --out -", "the same as text, to look through before you send it"),
        ),
    )
    one.add_argument("name", metavar="NAME", help="the service")
    one.add_argument("--out", metavar="FILE", help="the archive; - prints text (default: windlass-report-NAME.tar.gz)")
    one.add_argument("--tail", type=_count, default=500, metavar="LINES", help="log lines of each pod (default: 500)")


def _license(commands: Commands) -> None:
    one = _command(
        commands,
        "license",
        "license the GPUs of a cluster: init, status, renew, add-gpus; -n is the license server's namespace",
        (
            ("kubectl windlass license init", "from nothing to a license in force"),
            ("kubectl windlass license status", "who may run what, until when"),
        ),
    )
    one.set_defaults(action=None)
    actions = one.add_subparsers(dest="action", metavar="ACTION", required=True)
    add_actions(lambda name, words, examples: _command(actions, name, words, examples))


def _completion(commands: Commands) -> None:
    one = _command(
        commands,
        "completion",
        "print a shell's completion for kubectl-windlass",
        (
            ("source <(kubectl windlass completion bash)", "for this shell"),
            ("kubectl windlass st<TAB>", "completed by kubectl itself, through kubectl_complete-windlass on the PATH"),
        ),
    )
    one.add_argument("shell", choices=SHELLS, help="the shell")


def _zero_or_more(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 0 or more")
    return int(text)


def _count(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return number
