"""Prints which of our modules changes a signal's action or the signal mask when it is imported, as JSON.

Each module of the server that this Python can import is imported once, the engine's first.
"""

import ctypes
import importlib
import json
import pkgutil
import signal

LIBC = ctypes.CDLL(None)


class Action(ctypes.Structure):
    """glibc's `struct sigaction`. The kernel knows eight of the mask's 128 bytes; what lies behind them is chance."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_uint64),
        ("_unused", ctypes.c_ubyte * 120),
        ("flags", ctypes.c_int),
        ("_restorer", ctypes.c_void_p),
    )


def actions() -> list[object]:
    """The calling thread's mask, and what the process does on each signal, flags included."""
    found: list[object] = [signal.pthread_sigmask(signal.SIG_BLOCK, [])]
    for number in sorted(signal.valid_signals()):
        action = Action()
        LIBC.sigaction(int(number), None, ctypes.byref(action))
        found.append((action.handler, action.mask, action.flags))
    return found


def main() -> None:
    """Import one module after the other."""
    import vllm.v1.worker.cpu_worker
    import vllm.v1.worker.gpu_worker  # noqa: F401  what the engine itself changes is not ours
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
