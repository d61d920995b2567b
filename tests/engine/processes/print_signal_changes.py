"""Prints which of our modules changes a signal's action or the signal mask when it is imported, as JSON.

Each module of the server that this Python can import is imported once, the engine's first.
"""

import ctypes
import importlib
import json
import pkgutil
import signal

ACTION_BYTES = 256
"""Room for libc's `struct sigaction`."""
LIBC = ctypes.CDLL(None)


def actions() -> dict[int, bytes]:
    """What the process does on each signal, flags included, and the calling thread's mask."""
    found = {0: repr(sorted(signal.pthread_sigmask(signal.SIG_BLOCK, []))).encode()}
    for number in signal.valid_signals():
        action = ctypes.create_string_buffer(ACTION_BYTES)
        LIBC.sigaction(int(number), None, action)
        found[int(number)] = action.raw
    return found


def main() -> None:
    """Import one module after the other."""
    import torch  # noqa: F401  what the engine itself changes is not ours
    import vllm  # noqa: F401
    import windlass
    import windlass_lookahead  # noqa: F401

    signal.signal(signal.SIGTERM, lambda *_: None)
    imported, changed, absent = [], [], []
    for module in pkgutil.walk_packages(windlass.__path__, "windlass.", onerror=absent.append):
        before = actions()
        try:
            importlib.import_module(module.name)
        except (ImportError, RuntimeError, AttributeError) as error:  # of a GPU, or of another engine
            absent.append(f"{module.name}: {error}"[:200])
            continue
        imported.append(module.name)
        if actions() != before:
            changed.append(module.name)
    print("RESULT " + json.dumps({"imported": imported, "changed": changed, "absent": absent}))


if __name__ == "__main__":
    main()
