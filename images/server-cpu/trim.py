"""Makes the CPU engine's environment small: the torch of the package index is its CUDA build, and this image has no GPU.

Run once, in the build stage, after the install and before the copy:  trim.py SITE_PACKAGES

What happens, each by a table below: libraries of the CUDA toolkit that torch names as needed (DT_NEEDED), and that were
never installed, get stand-ins of a few KiB with the same name and the same versioned symbols; a stand-in that is ever
called says which function was wanted and aborts. GPU machine code inside torch's own CUDA library is cut out of the
file. Symbols for debuggers go, and folders that only builds and tests read. At last the engine is loaded with every
symbol bound at once, and the build fails when anything that it needs is gone.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

# Symbols that torch imports without a version say by their beginning which library they are from.
# The longest beginning wins: cublasLt before cublas.
SYMBOL_BEGINNINGS = {
    "cublasLt": "libcublasLt",
    "cublas": "libcublas",
    "cudnn": "libcudnn",
    "cufft": "libcufft",
    "cuFile": "libcufile",
    "curand": "libcurand",
    "cusolver": "libcusolver",
    "cusparseLt": "libcusparseLt",
    "cusparse": "libcusparse",
    "nccl": "libnccl",
    "nvrtc": "libnvrtc",
    "nvshmem": "libnvshmem_host",
}

# Where GPU machine code lies inside torch.
CUT_SECTIONS = {"torch/lib/libtorch_cuda.so": ".nv_fatbin", "torch/lib/libtorch_cuda_linalg.so": ".nv_fatbin"}

# What goes, and why. Patterns are relative to site-packages.
DELETED = (
    ("torch/include", "headers: read by a compiler only, and the image has none"),
    ("torch/share", "CMake files"),
    ("torch/bin/protoc*", "protobuf compiler"),
    ("numba/tests", "tests"),
    ("numpy/**/tests", "tests"),
    ("numpy/_core/include", "headers"),
    ("sympy/**/tests", "tests"),
    ("networkx/**/tests", "tests"),
    ("nvidia/**/*.a", "static libraries"),
    ("nvidia/**/include", "headers"),
    ("nvidia/**/libnvperf*", "profiler of GPUs"),
    ("nvidia/**/libcheckpoint*", "profiler of GPUs"),
    ("nvidia/**/libpcsamplingutil*", "profiler of GPUs"),
)

STRIPPED = ("vllm/*.so", "llvmlite/**/*.so")
ENGINE_MODULES = (
    *("torch", "vllm", "vllm.entrypoints.openai.api_server", "vllm.v1.worker.cpu_worker"),
    "vllm.model_executor.models.llava",  # brings what reads images
)

PAGE = 4096
PT_LOAD, PT_NOTE = 1, 4
PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")  # type flags offset vaddr paddr filesz memsz align


def output(*command: str | Path) -> str:
    """What a binary tool prints."""
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


# --- stand-ins -----------------------------------------------------------------------------------------------------


def needed_libraries(path: Path) -> list[str]:
    """The DT_NEEDED names of a shared object."""
    return [line.split()[-1] for line in output("objdump", "-p", path).splitlines() if " NEEDED " in line]


def imported_symbols(path: Path) -> set[tuple[str, str]]:
    """(symbol, version or nothing) of everything that a shared object imports."""
    lines = output("nm", "-D", "--undefined-only", "--with-symbol-versions", path).splitlines()
    parts = (line.split()[-1].partition("@") for line in lines)
    return {(name, version.lstrip("@")) for name, _, version in parts}


def library_of(symbol: str) -> str | None:
    """The library that a symbol is from, without its version number."""
    beginnings = [beginning for beginning in SYMBOL_BEGINNINGS if symbol.startswith(beginning)]
    return SYMBOL_BEGINNINGS[max(beginnings, key=len)] if beginnings else None


def stand_in_source(library: str, names: list[str]) -> str:
    """C source of a library whose functions all end the process with a sentence."""
    sentence = f"windlass: %s of {library} was called, but this is the CPU image; use the GPU image\\n"
    functions = "".join(f'void {name}(void) {{ gone("{name}"); }}\n' for name in names)
    return (
        "#include <stdio.h>\n#include <stdlib.h>\n"
        f'static void gone(const char *name) {{ fprintf(stderr, "{sentence}", name); abort(); }}\n{functions}'
    )


def write_stand_in(made: Path, symbols: set[tuple[str, str]]) -> None:
    """Compile one stand-in: SONAME, symbols and version nodes as torch was linked against them."""
    nodes: dict[str, list[str]] = defaultdict(list)
    for name, version in sorted(symbols):
        nodes[version].append(name)
    script = "".join(f"{node} {{ global: {'; '.join(names)}; }};\n" for node, names in nodes.items() if node)
    with tempfile.TemporaryDirectory() as scratch:
        source, versions = Path(scratch, "stand_in.c"), Path(scratch, "versions")
        source.write_text(stand_in_source(made.name, sorted({name for name, _ in symbols})))
        versions.write_text(script)
        flags = [f"-Wl,--version-script={versions}"] if script else []
        output("gcc", "-shared", "-fPIC", "-O1", "-w", "-s", f"-Wl,-soname,{made.name}", *flags, "-o", made, source)


def add_stand_ins(site: Path) -> None:
    """A stand-in beside torch's own libraries for each library of the table that torch needs."""
    torch_libraries = sorted(site.glob("torch/lib/*.so*"))
    needed = {name for path in torch_libraries for name in needed_libraries(path)}
    by_library: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for path in torch_libraries:
        for symbol in imported_symbols(path):
            by_library[library_of(symbol[0]) or ""].add(symbol)
    for name in sorted(needed):
        stem = name.partition(".so")[0]
        if stem in SYMBOL_BEGINNINGS.values():
            write_stand_in(site / "torch/lib" / name, by_library[stem])
            print(f"  stand-in {name}: {len(by_library[stem])} symbols")


# --- the cut -------------------------------------------------------------------------------------------------------


def section(path: Path, name: str) -> tuple[int, int, int]:
    """(address, file offset, size) of a section."""
    for line in output("readelf", "-SW", path).splitlines():
        fields = line.replace("[ ", "[").split()
        if len(fields) > 5 and fields[1] == name:
            return int(fields[3], 16), int(fields[4], 16), int(fields[5], 16)
    raise SystemExit(f"{path.name} has no section {name}; remove it from CUT_SECTIONS")


def cut_section(path: Path, name: str) -> int:
    """Take a read-only section's whole pages out of the file; its addresses stay reserved but unmapped.

    The segment that holds the section is split in two; the note segment gives its slot in the header table to the
    second half. Everything behind the cut moves up in the file by whole pages, so offsets stay congruent to addresses.
    """
    address, offset, size = section(path, name)
    content = path.read_bytes()
    table_at, count = struct.unpack_from("<Q", content, 32)[0], struct.unpack_from("<H", content, 56)[0]
    entry = PROGRAM_HEADER.size
    headers = [list(PROGRAM_HEADER.unpack_from(content, table_at + index * entry)) for index in range(count)]
    whole = next(h for h in headers if h[0] == PT_LOAD and h[3] <= address < h[3] + h[5])
    note = next(h for h in headers if h[0] == PT_NOTE)
    page = max(whole[7], PAGE)
    begin, end = -(-offset // page) * page, (offset + size) // page * page
    for header in headers:
        if header is not whole and header is not note and header[2] >= end:
            header[2] -= end - begin
    rest, into = whole[2] + whole[5] - end, end - whole[2]
    note[:] = [PT_LOAD, whole[1], begin, whole[3] + into, whole[4] + into, rest, rest, whole[7]]
    whole[5] = whole[6] = begin - whole[2]
    made = bytearray(content[:begin] + content[end:])
    ordered = sorted((h for h in headers if h[0] == PT_LOAD), key=lambda h: h[3]) + [h for h in headers if h[0] != PT_LOAD]
    for index, header in enumerate(ordered):
        PROGRAM_HEADER.pack_into(made, table_at + index * entry, *header)
    struct.pack_into("<Q", made, 40, 0)  # the section table is for linkers and debuggers, and its offsets are now wrong
    struct.pack_into("<HHH", made, 58, 0, 0, 0)
    path.write_bytes(made)
    return end - begin


# --- the whole -----------------------------------------------------------------------------------------------------


def mib(site: Path) -> int:
    """Size of a tree in MiB."""
    return sum(path.lstat().st_size for path in site.rglob("*") if not path.is_dir()) >> 20


def delete_by_table(site: Path) -> None:
    """Remove what the table names."""
    for pattern, _ in DELETED:
        for path in sorted(site.glob(pattern), reverse=True):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def self_test(python: str) -> None:
    """Load the engine with every symbol bound; the first thing missing fails the build by its name."""
    environment = {**os.environ, "LD_BIND_NOW": "1", "VLLM_NO_USAGE_STATS": "1"}
    program = "import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]; import torch; "
    program += "assert (torch.ones(8, 8) @ torch.ones(8, 8)).sum() == 512 and not torch.cuda.is_available()"
    subprocess.run([python, "-c", program, *ENGINE_MODULES], check=True, env=environment)


def main() -> None:
    """Trim the environment of the Python that runs this, given its site-packages folder."""
    site = Path(sys.argv[1])
    before = mib(site)
    add_stand_ins(site)
    for name, cut in CUT_SECTIONS.items():
        print(f"  cut {cut_section(site / name, cut) >> 20} MiB of GPU code out of {name}")
    delete_by_table(site)
    for pattern in STRIPPED:
        for path in site.glob(pattern):
            output("strip", "--strip-unneeded", path)
    self_test(sys.executable)
    after = mib(site)
    subprocess.run([sys.executable, "-m", "compileall", "-q", "-j0", site], check=False, stdout=subprocess.DEVNULL)
    print(f"trimmed {before} MiB to {after} MiB; with byte code {mib(site)} MiB")


if __name__ == "__main__":
    main()
