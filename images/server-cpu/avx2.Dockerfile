# The serving image for CPUs as a processor with AVX2 and no AVX-512 runs it: for tests on a processor that has more.
# ATen, oneDNN, MKL, numpy's OpenBLAS and our draft decoder read a variable each. vLLM chooses its kernels by what torch
# says of the processor, for which there is no variable.
#   make test-engine ISA=avx2
ARG SERVER_IMAGE=windlass/server-cpu:dev
FROM ${SERVER_IMAGE}
USER 0
RUN python3 -c 'import pathlib, sysconfig; \
      file = pathlib.Path(sysconfig.get_path("purelib"), "torch/cpu/__init__.py"); \
      names = [name for name in ("_is_avx512_supported", "_is_avx512_bf16_supported", "_is_vnni_supported", \
                                 "_is_amx_tile_supported", "_is_amx_fp16_supported") if f"def {name}()" in file.read_text()]; \
      assert len(names) == 5, names; \
      file.open("a").write("\n" + " = ".join(names) + " = lambda: False\n")'
ENV ATEN_CPU_CAPABILITY=avx2 \
    ONEDNN_MAX_CPU_ISA=AVX2 \
    MKL_ENABLE_INSTRUCTIONS=AVX2 \
    OPENBLAS_CORETYPE=Haswell \
    WINDLASS_DRAFT_KERNELS=avx2
USER 10001:10001
