// The blocks of tiles.h on any processor: AMX's instructions in plain loops, as Intel's manual defines them, against
// the portable kernels. What it cannot show is that a processor does the same; the decoder compares that at its start.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "draft_model/kernels.h"

namespace {

using namespace windlass;

struct Tile {
  std::uint8_t bytes[16][64];
};
Tile tiles[8];
bool is_configured = false;

void load_tile(int tile, const void* base, std::ptrdiff_t stride) {
  for (int row = 0; row < 16; ++row)
    std::memcpy(tiles[tile].bytes[row], static_cast<const char*>(base) + row * stride, 64);
}

void store_tile(int tile, void* base, std::ptrdiff_t stride) {
  for (int row = 0; row < 16; ++row) std::memcpy(static_cast<char*>(base) + row * stride, tiles[tile].bytes[row], 64);
}

// TDPBSUD: signed bytes of `a` times unsigned bytes of `b`, four at a time, added to the words of `to`.
void multiply_add(int to, int a, int b) {
  for (int m = 0; m < 16; ++m) {
    std::int32_t sums[16];
    std::memcpy(sums, tiles[to].bytes[m], sizeof sums);
    for (int k = 0; k < 16; ++k) {
      for (int n = 0; n < 16; ++n) {
        for (int i = 0; i < 4; ++i)
          sums[n] += static_cast<std::int8_t>(tiles[a].bytes[m][4 * k + i]) * tiles[b].bytes[k][4 * n + i];
      }
    }
    std::memcpy(tiles[to].bytes[m], sums, sizeof sums);
  }
}

#define _tile_zero(tile) std::memset(&tiles[tile], 0, sizeof(Tile))
#define _tile_loadd(tile, base, stride) load_tile(tile, base, stride)
#define _tile_stored(tile, base, stride) store_tile(tile, base, stride)
#define _tile_dpbsud(to, a, b) multiply_add(to, a, b)
#define _tile_loadconfig(config) is_configured = (config)->palette == 1
#define _tile_release() is_configured = false

namespace vnni {
#define WINDLASS_VNNI 0
#define WINDLASS_AVX2 0
#define WINDLASS_UNROLL
#include "draft_model/kernels_body.h"
}  // namespace vnni
#include "draft_model/tiles.h"

// Whether both multiply alike, for so many tokens and inputs.
bool agree(int tokens, int inputs, bool add, std::mt19937& random) {
  constexpr int kChannels = 7 * kPanel;
  Matrix weights(kChannels, inputs, 8);
  Activations activations;
  activations.reserve(tokens, inputs);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> row(static_cast<std::size_t>(inputs));
  const auto draw = [&] {
    for (float& number : row) number = uniform(random);
    return row.data();
  };
  for (int channel = 0; channel < kChannels; ++channel) weights.set(channel, draw());
  for (int token = 0; token < tokens; ++token) vnni::quantize(draw(), activations, token);
  std::vector<float> expected(static_cast<std::size_t>(tokens) * kChannels, 1);
  std::vector<float> got = expected;
  vnni::multiply(weights, 1, weights.panels, activations, tokens, expected.data(), kChannels, add);
  multiply_tiles(weights, 1, weights.panels, activations, tokens, got.data(), kChannels, add);
  return expected == got && !is_configured;
}

}  // namespace

int main() {
  std::mt19937 random(1);
  for (const int inputs : {32, 64, 160, 192, 320}) {
    for (int tokens = 1; tokens <= 70; ++tokens) {
      if (agree(tokens, inputs, tokens % 2 == 0, random)) continue;
      std::printf("%d tokens of %d inputs differ\n", tokens, inputs);
      return 1;
    }
  }
  std::printf("tiles multiply as the portable kernels do\n");
  return 0;
}
