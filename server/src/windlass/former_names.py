"""Names that modules had in release 0.1, for those who still hold them: start commands, images and installed metadata.

`windlass` installs the finder, which is asked after every other one. Leaves with release 0.3. Imports nothing of ours.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.abc import Loader
    from types import ModuleType

TODAY = {
    "windlass.dry_run.worker": "windlass.engine.dry_run.worker",
    "windlass.grammars.plugin": "windlass.engine.grammars.plugin",
    "windlass.lookahead.plugin": "windlass.engine.lookahead.plugin",
    "windlass.lookahead.scheduler": "windlass.engine.lookahead.scheduler",
    "windlass.lookahead.vllm_cpu": "windlass.engine.lookahead.vllm_cpu",
    "windlass.lookahead.vllm_gpu": "windlass.engine.lookahead.vllm_gpu",
    "windlass.prefix_offload.connector": "windlass.engine.prefix_offload.connector",
    "windlass.prefix_offload.logger": "windlass.engine.prefix_offload.logger",
    "windlass.prefix_offload.spec": "windlass.engine.prefix_offload.spec",
    "windlass.progress.logger": "windlass.engine.step_logger",
    "windlass.quantization.plugin": "windlass.engine.quantization.plugin",
    "windlass.sampling.no_repeat_ngram": "windlass.engine.sampling.no_repeat_ngram",
    "windlass.sampling.plugin": "windlass.engine.sampling.plugin",
    "windlass.sequence_parallel.worker": "windlass.engine.sequence_parallel.worker",
    "windlass.startup.executor": "windlass.engine.startup.executor",
}
"""Modules that a start command or an entry point names."""
PACKAGES = frozenset(name.rpartition(".")[0] for name in TODAY)


def today(text: str) -> str:
    """A module, or a class in it as `module:Class` or `module.Class`, under the name that it has today."""
    for former, name in TODAY.items():
        if text == former or text.startswith((f"{former}.", f"{former}:")):
            return name + text.removeprefix(former)
    return text


class FormerNames:
    """Finds and loads a module of today by its former name, so that both names are one module."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """For the modules of the table, and for the packages that they were in, which are empty."""
        if fullname not in TODAY and fullname not in PACKAGES:
            return None
        return ModuleSpec(fullname, cast("Loader", self), is_package=fullname in PACKAGES)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """A module of its own, which `exec_module` replaces."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Put the module of today in its place, where the import takes it from."""
        if name := TODAY.get(module.__name__):
            sys.modules[module.__name__] = import_module(name)


def install() -> None:
    """Let imports ask the table last."""
    if not any(isinstance(finder, FormerNames) for finder in sys.meta_path):
        sys.meta_path.append(FormerNames())
