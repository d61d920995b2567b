#include "kernels.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#if defined(__x86_64__) && defined(__GNUC__)
#define WINDLASS_X86 1
#include <cpuid.h>
#include <immintrin.h>
#else
#define WINDLASS_X86 0
#endif
#if WINDLASS_X86 && defined(__linux__) && __GNUC__ >= 11
#define WINDLASS_TILES 1
#include <sys/syscall.h>
#include <unistd.h>
#else
#define WINDLASS_TILES 0
#endif

namespace windlass {

// Sums stay in registers when the loops over panels and tokens are gone.
#define WINDLASS_UNROLL _Pragma("GCC unroll 8")
#define WINDLASS_KERNELS(path, name) \
  Kernels { path, name, multiply, quantize, norm, gate, rotate, attend, best }

namespace portable {
namespace {
#define WINDLASS_VNNI 0
#define WINDLASS_AVX2 0
#include "kernels_body.h"

#include "attention_body.h"
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

#include "attention_body.h"
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

#include "attention_body.h"
#undef WINDLASS_VNNI
#undef WINDLASS_AVX2
constexpr Kernels kKernels = WINDLASS_KERNELS(Path::kVnni, "avx512_vnni");
}  // namespace
}  // namespace vnni
#pragma GCC pop_options
#endif

#if WINDLASS_TILES
#pragma GCC push_options
#pragma GCC target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,amx-tile,amx-int8")
namespace tiles {
namespace {
#include "tiles.h"
constexpr Kernels kKernels = {Path::kAmx, "amx_int8",   multiply_tiles, vnni::quantize, vnni::norm,
                              vnni::gate, vnni::rotate, vnni::attend,   vnni::best};
}  // namespace
}  // namespace tiles
#pragma GCC pop_options
#endif

namespace {

#if WINDLASS_TILES
// Whether the processor has tiles of bytes and the system lets this process use them; it must be asked for once.
bool may_use_tiles() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned kTilesOfBytes = 3U << 24;  // of leaf 7: AMX-TILE, AMX-INT8
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kTilesOfBytes) != kTilesOfBytes) return false;
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

// Whether tiles multiply as VNNI does, on a small example of every block: the code runs on few machines.
bool tiles_agree() {
  constexpr int kChannels = 48;
  constexpr int kInputs = 192;
  constexpr int kTokens = 57;
  Matrix weights(kChannels, kInputs, 8);
  Activations activations;
  activations.reserve(kTokens, kInputs);
  std::uint32_t random = 1;
  std::vector<float> row(kInputs);
  const auto draw = [&] {
    for (float& number : row) {
      random = random * 1664525 + 1013904223;
      number = static_cast<float>(static_cast<int>(random >> 16) % 1000 - 500);
    }
  };
  for (int channel = 0; channel < kChannels; ++channel) draw(), weights.set(channel, row.data());
  for (int token = 0; token < kTokens; ++token) draw(), vnni::quantize(row.data(), activations, token);
  std::vector<float> expected(kChannels * kTokens);
  std::vector<float> got(expected.size());
  vnni::multiply(weights, 0, weights.panels, activations, kTokens, expected.data(), kChannels, false);
  tiles::multiply_tiles(weights, 0, weights.panels, activations, kTokens, got.data(), kChannels, false);
  return expected == got;
}
#endif

Path most_capable() {
#if WINDLASS_X86
  __builtin_cpu_init();
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512vnni")) {
#if WINDLASS_TILES
    if (may_use_tiles() && tiles_agree()) return Path::kAmx;
#endif
    return Path::kVnni;
  }
  if (has_avx2) return Path::kAvx2;
#endif
  return Path::kPortable;
}

// Of a lesser processor, for tests: the path that the variable names.
Path allowed() {
  constexpr std::array<std::pair<std::string_view, Path>, 4> kPaths = {
      {{"portable", Path::kPortable}, {"avx2", Path::kAvx2}, {"vnni", Path::kVnni}, {"amx", Path::kAmx}}};
  const char* const name = std::getenv("WINDLASS_DRAFT_KERNELS");
  const auto found = std::find_if(kPaths.begin(), kPaths.end(),
                                  [&](const auto& path) { return name != nullptr && path.first == name; });
  return found == kPaths.end() ? Path::kAmx : found->second;
}

}  // namespace

const Kernels& kernels(Path wanted) {
  static const Path best = std::min(most_capable(), allowed());
  const Path path = wanted == Path::kBest || wanted > best ? best : wanted;
#if WINDLASS_TILES
  if (path == Path::kAmx) return tiles::kKernels;
#endif
#if WINDLASS_X86
  if (path == Path::kVnni) return vnni::kKernels;
  if (path == Path::kAvx2) return avx2::kKernels;
#endif
  return portable::kKernels;
}

}  // namespace windlass
