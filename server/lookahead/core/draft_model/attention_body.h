// The kernels' text for attention; kernels.cc includes it behind kernels_body.h, each time that it includes that.

// What the queries of H heads attend to: they share keys and values, which are widened once for all.
struct Attention {
  const float* queries;         // [H, dim]
  const std::uint16_t* keys;    // [positions / 16, dim, 16]
  const std::uint16_t* values;  // [positions, dim]
  int count;                    // of positions
  int dim;
  float* scores;       // [H, stride]
  std::size_t stride;  // a multiple of 16 that holds all positions
  float* out;          // [H, dim]
};

template <int H>
void score(const Attention& attention) {
  constexpr int kSums = 4 / H;  // of each head, so that an addition need not wait for the one before it
  const int dim = attention.dim;
  const float scale = 1.0F / __builtin_sqrtf(static_cast<float>(dim));
  for (int from = 0; from < attention.count; from += 16) {
    const std::uint16_t* block = attention.keys + static_cast<std::size_t>(from) * dim;
    F16 sums[H][kSums] = {};
    for (int d = 0; d < dim; d += kSums) {
      WINDLASS_UNROLL
      for (int j = 0; j < kSums; ++j) {
        const F16 key = widen(block + (d + j) * 16);
        WINDLASS_UNROLL
        for (int h = 0; h < H; ++h) sums[h][j] += key * attention.queries[h * dim + d + j];
      }
    }
    WINDLASS_UNROLL
    for (int h = 0; h < H; ++h) {
      F16 total = sums[h][0];
      WINDLASS_UNROLL
      for (int j = 1; j < kSums; ++j) total += sums[h][j];
      store(attention.scores + static_cast<std::size_t>(h) * attention.stride + from, total * scale);
    }
  }
}

// Turns scores into weights and returns the inverse of their sum.
inline float soften(float* scores, int count) {
  constexpr float kNever = -1e30F;
  for (int i = count; i % 16 != 0; ++i) scores[i] = kNever;  // exp of it is next to nothing
  F16 most = F16{} + kNever;
  for (int from = 0; from < count; from += 16) most = larger(most, load<F16>(scores + from));
  const float top = largest(most);
  F16 total = {};
  for (int from = 0; from < count; from += 16) {
    const F16 weight = exponential(load<F16>(scores + from) - top);
    store(scores + from, weight);
    total += weight;
  }
  return 1.0F / sum(total);
}

// Of each value 16 x J numbers from `d` on.
template <int J, int H>
void weigh(const Attention& attention, int d, const float* factors) {
  F16 sums[H][J] = {};
  const std::uint16_t* value = attention.values + d;
  for (int position = 0; position < attention.count; ++position, value += attention.dim) {
    WINDLASS_UNROLL
    for (int j = 0; j < J; ++j) {
      const F16 wide = widen(value + j * 16);
      WINDLASS_UNROLL
      for (int h = 0; h < H; ++h)
        sums[h][j] += wide * attention.scores[static_cast<std::size_t>(h) * attention.stride + position];
    }
  }
  for (int h = 0; h < H; ++h) {
    WINDLASS_UNROLL
    for (int j = 0; j < J; ++j) store(attention.out + h * attention.dim + d + j * 16, sums[h][j] * factors[h]);
  }
}

template <int H>
void attend_heads(const Attention& attention) {
  score<H>(attention);
  float factors[H];
  for (int h = 0; h < H; ++h)
    factors[h] = soften(attention.scores + static_cast<std::size_t>(h) * attention.stride, attention.count);
  int d = 0;
  for (; d + 64 <= attention.dim; d += 64) weigh<4, H>(attention, d, factors);
  for (; d < attention.dim; d += 16) weigh<1, H>(attention, d, factors);
}

void attend(const float* queries, int heads, const std::uint16_t* keys, const std::uint16_t* values, int count, int dim,
            float* scores, std::size_t stride, float* out) {
  for (int head = 0; head < heads;) {
    const Attention attention{queries + head * dim, keys, values, count, dim, scores, stride, out + head * dim};
    const int left = heads - head;
    const int together = left >= 4 ? 4 : left >= 2 ? 2 : 1;
    (together == 4 ? attend_heads<4> : together == 2 ? attend_heads<2> : attend_heads<1>)(attention);
    head += together;
  }
}
