#!/usr/bin/env bash
# Behaviour: nvrtcCompileProgram of CUDA 13.0, the one that torch's cu130 wheels bring, puts the process's handlers of
#   SIGINT and SIGTERM back with SA_RESTART, which they did not have before. NVRTC 13.5.37 leaves them as they were. The address of the handler stays the same, so a look at the handler shows no change.
# Expected: a compiler that is called as a library leaves what a process does on a signal as it was.
# Why users care: Python runs a handler between bytecodes of the main thread, and counts on a signal to interrupt its
#   waits. With SA_RESTART a wait goes on. A server whose main thread waits for work, as an inference engine does when it
#   is idle, does not end on SIGTERM until work comes: Kubernetes waits for the grace period, then kills it. Any Python
#   program that compiles a kernel at run time in its main process is touched.
# Seen with: nvidia-cuda-nvrtc 13.0.88, and not with 13.5.37; Linux x86-64, glibc 2.36. No GPU is needed.
# Exits 1 when the behaviour is another one.
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
cat > "$work/look.py" <<'PY'
import ctypes
import glob
import os
import select
import signal
import subprocess
import sys

SA_RESTART, SECONDS = 0x10000000, 10


class Action(ctypes.Structure):
    """glibc's struct sigaction on x86-64 and aarch64."""

    _fields_ = [
        ("handler", ctypes.c_void_p), ("mask", ctypes.c_ubyte * 128), ("flags", ctypes.c_int), ("end", ctypes.c_void_p)
    ]


def look():
    """The handler of SIGTERM, and whether it has SA_RESTART."""
    action = Action()
    ctypes.CDLL(None).sigaction(signal.SIGTERM, None, ctypes.byref(action))
    return action.handler, bool(action.flags & SA_RESTART)


def compile_kernel():
    """Compile a kernel of one line for compute capability 9.0."""
    (path,) = glob.glob(f"{sys.prefix}/lib/python3*/site-packages/nvidia/cu13/lib/libnvrtc.so.13")
    library, program = ctypes.CDLL(path), ctypes.c_void_p()
    source = b'extern "C" __global__ void add(float* x) { x[threadIdx.x] += 1; }'
    options = (ctypes.c_char_p * 1)(b"--gpu-architecture=sm_90")
    assert library.nvrtcCreateProgram(ctypes.byref(program), source, b"add.cu", 0, None, None) == 0
    assert library.nvrtcCompileProgram(program, 1, options) == 0, "the kernel was not compiled"


def child(compiles):
    """Wait in the main thread; the handler of SIGTERM says that it ran."""
    signal.signal(signal.SIGTERM, lambda *_: (print("handled", flush=True), os._exit(0)))
    before = look()
    if compiles:
        compile_kernel()
    after = look()
    print(f"same handler: {before[0] == after[0]}; SA_RESTART before: {before[1]}, after: {after[1]}", flush=True)
    os.read(0, 1)


def ends_by_sigterm(compiles):
    """Whether the handler ran while the child waited."""
    words = [sys.executable, __file__, "child", "compiles" if compiles else "plain"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        print(f"  {process.stdout.readline().strip()}")
        while open(f"/proc/{process.pid}/stat").read().rpartition(") ")[2][0] != "S":
            pass
        process.send_signal(signal.SIGTERM)
        found = bool(select.select([process.stdout], [], [], SECONDS)[0])
        process.kill()
    return found


if sys.argv[1:2] == ["child"]:
    child(sys.argv[2] == "compiles")
    sys.exit()
plain = ends_by_sigterm(False)
print(f"  without NVRTC the handler of SIGTERM runs in a wait of the main thread: {plain}")
compiled = ends_by_sigterm(True)
print(f"  after one compilation it runs within {SECONDS} s: {compiled}")
sys.exit(0 if plain and compiled == (sys.argv[1] == "ends") else 1)
PY
try() { # PACKAGE==VERSION ends|stays
  "$work/venv/bin/pip" install --quiet --disable-pip-version-check "$1"
  echo "$1"
  LD_LIBRARY_PATH=$(echo "$work"/venv/lib/python3*/site-packages/nvidia/cu13/lib) "$work/venv/bin/python" "$work/look.py" "$2" \
    || { echo "changed: with $1 a wait is said to be one that $2 after SIGTERM"; exit 1; }
}
try nvidia-cuda-nvrtc==13.0.88 stays
try nvidia-cuda-nvrtc==13.5.37 ends
