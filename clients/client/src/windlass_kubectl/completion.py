"""What may stand at the cursor: for kubectl, which runs `kubectl_complete-windlass`, and for the shells themselves.

The answer is kubectl's own form: a candidate a line, its meaning behind a tab, and a last line `:N` that says whether
the shell may go on with file names.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from windlass_base.command_line import output_checked

from windlass_kubectl.parser import PROGRAM, SHELLS, parser

if TYPE_CHECKING:
    from windlass_client import LLMService

FILES, NO_FILES = 0, 4  # the shell's own completion may follow, or not
QUICK_S = 2.0
FILE_METAVARS = ("FILE", "PATH", "KUBECONFIG")
Candidates = list[tuple[str, str]]


@output_checked(PROGRAM)
def main(words: Sequence[str] | None = None) -> int:
    """The program that kubectl runs."""
    return answer(list(sys.argv[1:] if words is None else words))


def answer(words: list[str]) -> int:
    """Print what may stand where the last word is; never an error, which would stand in the user's prompt."""
    found, directive = complete(words, Cluster())
    print("\n".join([*(f"{word}\t{meaning}" if meaning else word for word, meaning in found), f":{directive}"]))
    return 0


@dataclass(slots=True)
class Cluster:
    """What is asked of kubeconfig and API server; quickly, or not at all."""

    def services(self, options: argparse.Namespace) -> Candidates:
        """Names of services, with what they serve."""
        from windlass_client import Client, ClientError, find_access

        from windlass_kubectl.harmless import one_line

        try:
            access = find_access(kubeconfig=options.kubeconfig, context=options.context, namespace=options.namespace)
            with Client(access, timeout_s=QUICK_S) as client:
                found = client.list()
                return [(one.metadata.name, one_line(one.spec.model.id, 100)) for one in found if is_name(one)]
        except ClientError:
            return []

    def contexts(self, options: argparse.Namespace) -> Candidates:
        """Names of contexts."""
        from windlass_base.kube.access import context_names
        from windlass_client import ClientError

        try:
            return [(name, "") for name in context_names(options.kubeconfig)]
        except ClientError:
            return []


def is_name(one: LLMService) -> bool:
    """Whether the name is one that a shell may put on a command line as it is."""
    return re.fullmatch("[a-z0-9.-]{1,253}", one.metadata.name) is not None


def complete(words: list[str], cluster: Cluster) -> tuple[Candidates, int]:
    """Candidates for the last of the words, and the directive. Pure but for the cluster."""
    *before, begun = words or [""]
    here, chosen = _chosen(before)
    option = _option(here, before[-1]) if before else None
    if option is not None and option.nargs != 0:
        return _value_of(option, _given(before), begun, cluster)
    if begun.startswith("-"):
        return _matching([(name, row.help or "") for row in _options(here) for name in row.option_strings], begun)
    if commands := _commands(here):
        return _matching([(name, one.description or "") for name, one in commands.items()], begun)
    return _argument(here, chosen, before, begun, cluster)


def _chosen(before: list[str]) -> tuple[argparse.ArgumentParser, list[str]]:
    """The parser of the command that the words name, `license init` for example, and its names."""
    here, names = parser(), list[str]()
    for word in before:
        if word in (commands := _commands(here)):
            here = commands[word]
            names.append(word)
    return here, names


def _argument(
    here: argparse.ArgumentParser, chosen: list[str], before: list[str], begun: str, cluster: Cluster
) -> tuple[Candidates, int]:
    if chosen == ["completion"]:
        return _matching([(shell, "") for shell in SHELLS], begun)
    if all(action.option_strings for action in here._actions) or _plain(here, chosen[-1], before):
        return [], NO_FILES  # there is no name to give, or it is there already
    return _matching(cluster.services(_given(before)), begun)


def _plain(here: argparse.ArgumentParser, chosen: str, before: list[str]) -> list[str]:
    """Words after the command that are neither options nor an option's value."""
    out, skip = [], False
    for word in before[before.index(chosen) + 1 :]:
        option = _option(here, word)
        if not skip and option is None and not word.startswith("-"):
            out.append(word)
        skip = option is not None and option.nargs != 0
    return out


def _value_of(
    option: argparse.Action, given: argparse.Namespace, begun: str, cluster: Cluster
) -> tuple[Candidates, int]:
    """What may follow an option that takes a value."""
    if option.choices:
        return _matching([(str(one), "") for one in option.choices], begun)
    if "--context" in option.option_strings:
        return _matching(cluster.contexts(given), begun)
    return [], FILES if (option.metavar or option.dest.upper()) in FILE_METAVARS else NO_FILES


def _matching(rows: Candidates, begun: str) -> tuple[Candidates, int]:
    return [(word, " ".join(meaning.split())) for word, meaning in rows if word.startswith(begun)], NO_FILES


def _commands(top: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parsers of the commands below; argparse keeps them in the one action whose choices are parsers."""
    rows = [action.choices for action in top._actions if isinstance(action.choices, dict)]
    return dict(rows[0]) if rows else {}


def _options(here: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in here._actions if action.option_strings]


def _option(here: argparse.ArgumentParser, word: str) -> argparse.Action | None:
    return next((action for action in _options(here) if word in action.option_strings), None)


def _given(before: list[str]) -> argparse.Namespace:
    """The cluster's options among the words; a line that is half written has no other way to be read."""
    flags = {"-n": "namespace", "--namespace": "namespace", "--context": "context", "--kubeconfig": "kubeconfig"}
    out = argparse.Namespace(namespace=None, context=None, kubeconfig=None)
    for word, after in zip(before, [*before[1:], ""], strict=True):
        name, _, value = word.partition("=")
        if name in flags:
            setattr(out, flags[name], value or after or None)
    return out


BASH = r"""_kubectl_windlass() {
  local line directive=4 IFS=$'\n'
  COMPREPLY=()
  while read -r line; do
    case $line in
      :*) directive=${line#:} ;;
      *) COMPREPLY+=("${line%%$'\t'*}") ;;
    esac
  done < <(kubectl-windlass __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  if [[ $directive == 0 ]]; then compopt -o default; fi
}
complete -F _kubectl_windlass kubectl-windlass
"""
ZSH = r"""#compdef kubectl-windlass
_kubectl_windlass() {
  local line directive=4
  local -a found
  while IFS= read -r line; do
    case $line in
      :*) directive=${line#:} ;;
      *) found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
    esac
  done < <(kubectl-windlass __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
  (( $#found )) && _describe -V 'kubectl windlass' found
  [[ $directive == 0 ]] && _files
}
compdef _kubectl_windlass kubectl-windlass
"""
FISH = r"""function __kubectl_windlass
  set -l words (commandline -opc) (commandline -ct)
  kubectl-windlass __complete $words[2..-1] 2>/dev/null | string match -v -r '^:\d+$'
end
complete -c kubectl-windlass -a '(__kubectl_windlass)'
"""
SCRIPTS: dict[str, str] = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def script(shell: str) -> str:
    """The script that the shell is to source."""
    return SCRIPTS[shell]
