// Products by AMX's tiles: 16 tokens x 16 channels x 64 inputs an instruction. kernels.cc includes it once.
//
// A line of a panel is four inputs of 16 channels, which is a row of the tile that AMX multiplies by. Tokens are padded
// to 16 with whatever their places hold, and the products of those are thrown away.

constexpr int kTileTokens = 16;
constexpr int kTileInputs = 64;
constexpr int kTileBytes = kTileTokens * kTileInputs;
constexpr int kWorthTiles = 8;  // tokens; fewer are bound by memory on VNNI as well

struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t unused[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);

struct TilePlace {
  const Matrix& weights;
  const Activations& activations;
  int tokens;
  float* out;
  std::size_t stride;
  bool add;
};

// Writes the products of 16 tokens with one panel: tile sums as they came from a register.
inline void put_tile(const TilePlace& place, const std::int32_t* sums, int first, int panel, int token) {
  const vnni::Place target{place.weights, place.activations, place.out, place.stride, place.add};
  const auto scale = vnni::load<vnni::F16>(place.weights.scales.data() + panel * kPanel);
  const int count = place.tokens - token < kTileTokens ? place.tokens - token : kTileTokens;
  for (int t = 0; t < count; ++t) {
    const auto whole = vnni::load<vnni::I16>(sums + t * kPanel) - place.activations.totals[token + t];
    vnni::put(target, panel, static_cast<std::size_t>(token + t) * place.stride + (panel - first) * kPanel,
              __builtin_convertvector(whole, vnni::F16) * (scale * place.activations.scales[token + t]));
  }
}

// Panels panel, panel + 1 and tokens token … token + 31.
inline void tiles_2x2(const TilePlace& place, int first, int panel, int token) {
  const int depth = place.weights.depth;
  const std::uint8_t* left = place.weights.weights.data() + place.weights.panel_bytes() * panel;
  const std::uint8_t* right = left + place.weights.panel_bytes();
  const std::int8_t* upper = place.activations.values.data() + static_cast<std::size_t>(token) * depth;
  const std::int8_t* lower = upper + static_cast<std::size_t>(kTileTokens) * depth;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int at = 0; at < depth; at += kTileInputs) {
    _tile_loadd(4, upper + at, depth);
    _tile_loadd(5, lower + at, depth);
    _tile_loadd(6, left + at * kPanel, kTileInputs);
    _tile_loadd(7, right + at * kPanel, kTileInputs);
    _tile_dpbsud(0, 4, 6);
    _tile_dpbsud(1, 4, 7);
    _tile_dpbsud(2, 5, 6);
    _tile_dpbsud(3, 5, 7);
  }
  alignas(64) std::int32_t sums[4][kTileTokens * kPanel];
  _tile_stored(0, sums[0], kTileInputs);
  _tile_stored(1, sums[1], kTileInputs);
  _tile_stored(2, sums[2], kTileInputs);
  _tile_stored(3, sums[3], kTileInputs);
  put_tile(place, sums[0], first, panel, token);
  put_tile(place, sums[1], first, panel + 1, token);
  put_tile(place, sums[2], first, panel, token + kTileTokens);
  put_tile(place, sums[3], first, panel + 1, token + kTileTokens);
}

// Panel `panel` and tokens token … token + 15; the inputs go to two sums in turns, so that one need not wait.
inline void tiles_1x1(const TilePlace& place, int first, int panel, int token) {
  const int depth = place.weights.depth;
  const std::uint8_t* weights = place.weights.weights.data() + place.weights.panel_bytes() * panel;
  const std::int8_t* values = place.activations.values.data() + static_cast<std::size_t>(token) * depth;
  _tile_zero(0);
  _tile_zero(1);
  int at = 0;
  for (; at + 2 * kTileInputs <= depth; at += 2 * kTileInputs) {
    _tile_loadd(4, values + at, depth);
    _tile_loadd(5, values + at + kTileInputs, depth);
    _tile_loadd(6, weights + at * kPanel, kTileInputs);
    _tile_loadd(7, weights + at * kPanel + kTileBytes, kTileInputs);
    _tile_dpbsud(0, 4, 6);
    _tile_dpbsud(1, 5, 7);
  }
  if (at < depth) {
    _tile_loadd(4, values + at, depth);
    _tile_loadd(6, weights + at * kPanel, kTileInputs);
    _tile_dpbsud(0, 4, 6);
  }
  alignas(64) std::int32_t sums[2][kTileTokens * kPanel];
  _tile_stored(0, sums[0], kTileInputs);
  _tile_stored(1, sums[1], kTileInputs);
  for (int i = 0; i < kTileTokens * kPanel; ++i) sums[0][i] += sums[1][i];
  put_tile(place, sums[0], first, panel, token);
}

inline void multiply_tiles(const Matrix& weights, int first, int last, const Activations& activations, int tokens,
                           float* out, std::size_t stride, bool add) {
  if (tokens < kWorthTiles || weights.bits != 8) {
    vnni::multiply(weights, first, last, activations, tokens, out, stride, add);
    return;
  }
  const TilePlace place{weights, activations, tokens, out, stride, add};
  static constexpr TileConfig
      kConfig;  // in memory as a whole: the compiler knows only of its first bytes that it is read
  _tile_loadconfig(&kConfig);
  for (int panel = first; panel < last;) {
    const int panels = last - panel >= 2 ? 2 : 1;
    for (int token = 0; token < tokens;) {
      if (panels == 2 && tokens - token > kTileTokens) {
        tiles_2x2(place, first, panel, token);
        token += 2 * kTileTokens;
        continue;
      }
      for (int p = 0; p < panels; ++p) tiles_1x1(place, first, panel + p, token);
      token += kTileTokens;
    }
    panel += panels;
  }
  _tile_release();
}
