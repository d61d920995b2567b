"""Completion of `windlass-license` for a shell, as a script with every command and option in it. Pure."""

from collections.abc import Mapping, Sequence

PROGRAM = "windlass-license"
SHELLS = ("bash", "zsh", "fish")
Commands = Mapping[str, Sequence[str]]
"""The options of each command."""


def script(shell: str, commands: Commands) -> str:
    """What the shell is to source."""
    if shell == "fish":
        return _fish(commands)
    return ("autoload -U +X bashcompinit && bashcompinit\n" if shell == "zsh" else "") + _bash(commands)


def _bash(commands: Commands) -> str:
    cases = "".join(f'    {name}) words="{" ".join(options)}" ;;\n' for name, options in commands.items())
    return (
        "_windlass_license() {\n"
        "  local words\n"
        '  case "${COMP_WORDS[1]}" in\n'
        f"{cases}"
        f'    *) words="{" ".join(commands)} --version --help" ;;\n'
        "  esac\n"
        '  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))\n'
        "}\n"
        f"complete -o default -F _windlass_license {PROGRAM}\n"
    )


def _fish(commands: Commands) -> str:
    lines = [f'complete -c {PROGRAM} -n __fish_use_subcommand -a "{" ".join(commands)}"']
    lines += [
        f'complete -c {PROGRAM} -n "__fish_seen_subcommand_from {name}" -l {option.removeprefix("--")}'
        for name, options in commands.items()
        for option in options
        if option.startswith("--")
    ]
    return "\n".join(lines) + "\n"
