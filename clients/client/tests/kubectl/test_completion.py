"""What stands at the cursor: commands, options, their values, names of services and contexts; files where files go."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from windlass_kubectl import completion
from windlass_kubectl.completion import FILES, NO_FILES, Cluster, complete, script
from windlass_kubectl.parser import SHELLS
from windlass_testbed.cases import every_case


class Known(Cluster):
    """A cluster of two services; keeps the options it was asked with."""

    __slots__ = ("asked",)

    def services(self, options):
        self.asked = vars(options)
        return [("demo", "Demo"), ("qwen", "Qwen2")]

    def contexts(self, options):
        return [("home", ""), ("work", "")]


ROWS = {
    "commands": (
        [""],
        ["create", "status", "plan", "logs", "chat", "bench", "usage", "report", "license", "completion"],
        NO_FILES,
    ),
    "actions of a command": (["license", ""], ["init", "status", "renew", "add-gpus"], NO_FILES),
    "an action begun": (["license", "re"], ["renew"], NO_FILES),
    "options of an action": (["license", "init", "--cust"], ["--customer"], NO_FILES),
    "files of an action": (["license", "init", "--gpus", ""], [], FILES),
    "an action takes no name": (["license", "status", ""], [], NO_FILES),
    "a name that is a command's": (["status", "plan", ""], [], NO_FILES),
    "a command begun": (["st"], ["status"], NO_FILES),
    "services": (["status", ""], ["demo", "qwen"], NO_FILES),
    "a service begun": (["logs", "q"], ["qwen"], NO_FILES),
    "a service after options": (["logs", "-f", "--tail", "5", "d"], ["demo"], NO_FILES),
    "only one service": (["status", "demo", ""], [], NO_FILES),
    "options": (["status", "--al"], ["--all-namespaces"], NO_FILES),
    "outputs": (["status", "-o", ""], ["text", "json", "yaml"], NO_FILES),
    "contexts": (["status", "--context", "w"], ["work"], NO_FILES),
    "a file": (["plan", "-f", ""], [], FILES),
    "a model's directory": (["plan", "--model", ""], [], FILES),
    "a model's name": (["chat", "--model", ""], [], NO_FILES),
    "shells": (["completion", ""], list(SHELLS), NO_FILES),
}


@every_case("words, found, directive", ROWS.values(), ids=ROWS.keys())
def test_what_may_stand_there(words, found, directive):
    rows, seen = complete(words, Known())
    assert ([word for word, _ in rows], seen) == (found, directive)


def test_the_cluster_is_asked_with_the_options_of_the_line():
    cluster = Known()
    complete(["status", "-n", "team", "--context=work", ""], cluster)
    assert cluster.asked == {"namespace": "team", "context": "work", "kubeconfig": None}


def test_without_a_cluster_nothing_is_reported(tmp_path, monkeypatch, capsys):
    """An error would stand in the user's prompt."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert completion.main(["status", ""]) == 0
    assert capsys.readouterr() == (":4\n", "")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_can_read_its_script(shell, tmp_path):
    """Where the shell is installed it parses the script; every script asks the program itself."""
    assert "kubectl-windlass __complete" in script(shell)
    program = shutil.which(shell)
    if program:
        file = tmp_path / "script"
        file.write_text(script(shell))
        assert subprocess.run([program, "-n", str(file)], check=False).returncode == 0


def test_bash_completes_with_it(tmp_path):
    """The function that bash calls fills COMPREPLY."""
    program = tmp_path / "kubectl-windlass"
    program.write_text(f"#!{sys.executable}\nfrom windlass_kubectl.__main__ import main\nmain()\n")
    program.chmod(0o755)
    lines = f"PATH={tmp_path}:$PATH\n{script('bash')}\nCOMP_WORDS=(kubectl-windlass completion b)\nCOMP_CWORD=2\n"
    done = subprocess.run(
        ["bash", "-c", f"{lines}_kubectl_windlass\necho ${{COMPREPLY[*]}}"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "bash"
