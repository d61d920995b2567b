#include "kernels.h"

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__) && defined(__GNUC__)
#define WINDLASS_X86 1
#include <immintrin.h>
#else
#define WINDLASS_X86 0
#endif

namespace windlass {

// Sums stay in registers when the loops over panels and tokens are gone.
#define WINDLASS_UNROLL _Pragma("GCC unroll 8")
#define WINDLASS_KERNELS(path, name) Kernels{path, name, multiply, quantize, norm, gate, rotate, attend, best}

namespace portable {
namespace {
#define WINDLASS_VNNI 0
#define WINDLASS_AVX2 0
#include "kernels_body.h"
#undef WINDLASS_AVX2
constexpr Kernels kKernels = WINDLASS_KERNELS(Path::kPortable, "portable");
}  // namespace
}  // namespace portable

#if WINDLASS_X86
#pragma GCC push_options
#pragma GCC target("avx2,fma")
namespace avx2 {
namespace {
#define WINDLASS_AVX2 1
#include "kernels_body.h"
#undef WINDLASS_VNNI
#undef WINDLASS_AVX2
constexpr Kernels kKernels = WINDLASS_KERNELS(Path::kAvx2, "avx2");
}  // namespace
}  // namespace avx2
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")
namespace vnni {
namespace {
#define WINDLASS_VNNI 1
#define WINDLASS_AVX2 0
#include "kernels_body.h"
#undef WINDLASS_VNNI
#undef WINDLASS_AVX2
constexpr Kernels kKernels = WINDLASS_KERNELS(Path::kVnni, "avx512_vnni");
}  // namespace
}  // namespace vnni
#pragma GCC pop_options
#endif

namespace {

Path most_capable() {
#if WINDLASS_X86
  __builtin_cpu_init();
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni"))
    return Path::kVnni;
  if (has_avx2) return Path::kAvx2;
#endif
  return Path::kPortable;
}

}  // namespace

const Kernels& kernels(Path wanted) {
  const Path best = most_capable();
  const Path path = wanted == Path::kBest || wanted > best ? best : wanted;
#if WINDLASS_X86
  if (path == Path::kVnni) return vnni::kKernels;
  if (path == Path::kAvx2) return avx2::kKernels;
#endif
  return portable::kKernels;
}

}  // namespace windlass
