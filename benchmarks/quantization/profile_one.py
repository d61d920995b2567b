"""Runs one fused product once, for a profiler: python profile_one.py BITS ROWS COLUMNS M few|stream SIZE ..."""

import sys

import torch
from windlass.quantization import int8, nf4, packing
from windlass.quantization.kernels import gemm
from windlass.quantization.kernels.tiling import Few, PackedStream

bits, rows, columns, m = map(int, sys.argv[1:5])
tiling = {"few": Few, "stream": PackedStream}[sys.argv[5]](*map(int, sys.argv[6:]))
weight = (torch.randn(rows, columns, device="cuda") * 0.02).half()
if bits == 4:
    codes, blocks = nf4.quantize(weight)
    packed = packing.pack_nf4(codes), packing.pack_nf4_scales(blocks)
else:
    values, blocks = int8.quantize(weight)
    packed = packing.pack_int8(values), blocks
x = torch.randn(m, columns, device="cuda").half()
for _ in range(3):
    gemm.fused(x, *packed, None, bits, tiling)
torch.cuda.synchronize()
