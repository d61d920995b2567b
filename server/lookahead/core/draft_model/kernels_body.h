// The kernels' text, compiled once for each kind of processor: kernels.cc includes it several times, each time in a
// namespace and a region of its own. So it has no include guard and includes nothing.
//
// Vectors of 16 numbers are the compiler's own, which it splits where registers are shorter.

using F16 [[gnu::vector_size(64)]] = float;
using I16 [[gnu::vector_size(64)]] = std::int32_t;
using U16 [[gnu::vector_size(64)]] = std::uint32_t;
using H16 [[gnu::vector_size(32)]] = std::uint16_t;
using B16 [[gnu::vector_size(16)]] = std::int8_t;

template <class Vector>
[[gnu::always_inline]] inline Vector load(const void* from) {
  Vector to;
  __builtin_memcpy(&to, from, sizeof to);
  return to;
}

template <class Vector>
[[gnu::always_inline]] inline void store(void* to, const Vector& value) {
  __builtin_memcpy(to, &value, sizeof value);
}

#if WINDLASS_VNNI
[[gnu::always_inline]] inline F16 widen(const std::uint16_t* bfloat) {
  return reinterpret_cast<F16>(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load<__m256i>(bfloat)), 16));
}
#else
[[gnu::always_inline]] inline F16 widen(const std::uint16_t* bfloat) {
  return reinterpret_cast<F16>(__builtin_convertvector(load<H16>(bfloat), U16) << 16);
}
#endif

[[gnu::always_inline]] inline F16 larger(const F16& a, const F16& b) { return a > b ? a : b; }

[[gnu::always_inline]] inline float sum(const F16& vector) {
  float parts[8];
  for (int i = 0; i < 8; ++i) parts[i] = vector[i] + vector[i + 8];
  for (int step = 4; step > 0; step /= 2)
    for (int i = 0; i < step; ++i) parts[i] += parts[i + step];
  return parts[0];
}

[[gnu::always_inline]] inline float largest(const F16& vector) {
  float most = vector[0];
  for (int i = 1; i < 16; ++i) most = most < vector[i] ? vector[i] : most;
  return most;
}

// Adding this and taking it off again rounds to an integer, which then stands in the lowest bits.
constexpr float kRounder = 12582912.0F;

[[gnu::always_inline]] inline F16 exponential(F16 x) {
  const F16 low = F16{} - 87.0F;
  const F16 high = F16{} + 87.0F;
  x = x < low ? low : x;
  x = x > high ? high : x;
  const F16 scaled = x * 1.44269504F;
  const F16 shifted = scaled + kRounder;
  const F16 part = (scaled - (shifted - kRounder)) * 0.69314718F;
  F16 power = part * (1.0F / 720) + (1.0F / 120);
  power = power * part + (1.0F / 24);
  power = power * part + (1.0F / 6);
  power = power * part + 0.5F;
  power = power * part + 1.0F;
  power = power * part + 1.0F;
  return reinterpret_cast<F16>(reinterpret_cast<I16>(power) + (reinterpret_cast<I16>(shifted) << 23));
}

// Four inputs of 16 channels, multiplied by four activations and added.
#if WINDLASS_VNNI
[[gnu::always_inline]] inline I16 dot(const I16& sum, const I16& weights, const std::int8_t* activations) {
  std::int32_t four;
  __builtin_memcpy(&four, activations, sizeof four);
  return reinterpret_cast<I16>(
      _mm512_dpbusd_epi32(reinterpret_cast<__m512i>(sum), reinterpret_cast<__m512i>(weights), _mm512_set1_epi32(four)));
}
#elif WINDLASS_AVX2
[[gnu::always_inline]] inline I16 dot(const I16& sum, const I16& weights, const std::int8_t* activations) {
  std::int32_t four;
  __builtin_memcpy(&four, activations, sizeof four);
  const __m256i wide = _mm256_cvtepi8_epi16(_mm_set1_epi32(four));
  __m256i halves[4];
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(&weights);
  for (int i = 0; i < 4; ++i) {  // four channels: two sums of two products each
    const __m256i four_channels = _mm256_cvtepu8_epi16(load<__m128i>(bytes + 16 * i));
    halves[i] = _mm256_madd_epi16(four_channels, wide);
  }
  // hadd works within halves of a register; the permutation puts the channels in order again
  const __m256i low = _mm256_permute4x64_epi64(_mm256_hadd_epi32(halves[0], halves[1]), 0xD8);
  const __m256i high = _mm256_permute4x64_epi64(_mm256_hadd_epi32(halves[2], halves[3]), 0xD8);
  I16 products;
  store(&products, low);
  store(reinterpret_cast<std::uint8_t*>(&products) + 32, high);
  return sum + products;
}
#else
[[gnu::always_inline]] inline I16 dot(const I16& sum, const I16& weights, const std::int8_t* activations) {
  const I16 low = weights & 0xFF;
  const I16 second = (weights >> 8) & 0xFF;
  const I16 third = (weights >> 16) & 0xFF;
  const I16 high = (weights >> 24) & 0xFF;
  return sum + low * static_cast<std::int32_t>(activations[0]) + second * static_cast<std::int32_t>(activations[1]) +
         third * static_cast<std::int32_t>(activations[2]) + high * static_cast<std::int32_t>(activations[3]);
}
#endif

struct Place {
  const Matrix& weights;
  const Activations& activations;
  float* out;  // of the first panel and token
  std::size_t stride;
  bool add;
};

[[gnu::always_inline]] inline void put(const Place& place, int panel, std::size_t at, F16 value) {
  if (!place.weights.bias.empty()) value += load<F16>(place.weights.bias.data() + panel * kPanel);
  if (place.add) value += load<F16>(place.out + at);
  store(place.out + at, value);
}

constexpr int kLine = kPanel * kInputsAtOnce;
constexpr int kAhead = 1536;  // bytes of each panel that are asked for before they are needed

// Panels [panel, panel + P), tokens [token, token + T), weights of 8 bits.
template <int P, int T>
void block8(const Place& place, int first, int panel, int token) {
  const Matrix& matrix = place.weights;
  const std::uint8_t* weights[P];
  WINDLASS_UNROLL
  for (int p = 0; p < P; ++p)
    weights[p] = matrix.weights.data() + matrix.panel_bytes() * static_cast<std::size_t>(panel + p);
  const std::int8_t* values[T];
  WINDLASS_UNROLL
  for (int t = 0; t < T; ++t)
    values[t] = place.activations.values.data() +
                static_cast<std::size_t>(token + t) * static_cast<std::size_t>(place.activations.depth);
  I16 sums[P][T] = {};
  for (int quad = 0; quad < matrix.depth / kInputsAtOnce; ++quad) {
    WINDLASS_UNROLL
    for (int p = 0; p < P; ++p) {
      __builtin_prefetch(weights[p] + quad * kLine + kAhead);
      const I16 line = load<I16>(weights[p] + quad * kLine);
      WINDLASS_UNROLL
      for (int t = 0; t < T; ++t) sums[p][t] = dot(sums[p][t], line, values[t] + quad * kInputsAtOnce);
    }
  }
  WINDLASS_UNROLL
  for (int p = 0; p < P; ++p) {
    const F16 scale = load<F16>(matrix.scales.data() + (panel + p) * kPanel);
    WINDLASS_UNROLL
    for (int t = 0; t < T; ++t) {
      const F16 whole = __builtin_convertvector(sums[p][t] - place.activations.totals[token + t], F16);
      put(place, panel + p, static_cast<std::size_t>(token + t) * place.stride + (panel + p - first) * kPanel,
          whole * (scale * place.activations.scales[token + t]));
    }
  }
}

// The same with weights of 4 bits, whose groups of inputs have scales.
template <int P, int T>
void block4(const Place& place, int first, int panel, int token) {
  const Matrix& matrix = place.weights;
  const int groups = matrix.depth / kGroup;
  constexpr int kBytes = kGroup * kPanel / 2;
  const std::int8_t* values = place.activations.values.data();
  const auto depth = static_cast<std::size_t>(place.activations.depth);
  F16 totals[P][T] = {};
  for (int group = 0; group < groups; ++group) {
    WINDLASS_UNROLL
    for (int p = 0; p < P; ++p) {
      const std::size_t at = static_cast<std::size_t>(panel + p) * static_cast<std::size_t>(groups) + group;
      const std::uint8_t* weights = matrix.weights.data() + at * kBytes;
      I16 sums[T];
      WINDLASS_UNROLL
      for (int t = 0; t < T; ++t)
        sums[t] = I16{} + place.activations.groups[static_cast<std::size_t>(token + t) * groups + group];
      for (int pair = 0; pair < kGroup / kInputsAtOnce / 2; ++pair) {
        __builtin_prefetch(weights + pair * kLine + kAhead);
        const I16 both = load<I16>(weights + pair * kLine);
        const I16 low = both & 0x0F0F0F0F;
        const I16 high = (both >> 4) & 0x0F0F0F0F;
        WINDLASS_UNROLL
        for (int t = 0; t < T; ++t) {
          const std::int8_t* inputs =
              values + static_cast<std::size_t>(token + t) * depth + group * kGroup + pair * 2 * kInputsAtOnce;
          sums[t] = dot(dot(sums[t], low, inputs), high, inputs + kInputsAtOnce);
        }
      }
      const F16 scale = widen(matrix.group_scales.data() + at * kPanel);
      WINDLASS_UNROLL
      for (int t = 0; t < T; ++t) totals[p][t] += __builtin_convertvector(sums[t], F16) * scale;
    }
  }
  WINDLASS_UNROLL
  for (int p = 0; p < P; ++p) {
    WINDLASS_UNROLL
    for (int t = 0; t < T; ++t)
      put(place, panel + p, static_cast<std::size_t>(token + t) * place.stride + (panel + p - first) * kPanel,
          totals[p][t] * place.activations.scales[token + t]);
  }
}

using Block = void (*)(const Place&, int first, int panel, int token);
constexpr Block kFour8[] = {block8<4, 1>, block8<4, 2>, block8<4, 3>, block8<4, 4>, block8<4, 5>, block8<4, 6>};
constexpr Block kOne8[] = {block8<1, 1>, block8<1, 2>, block8<1, 3>, block8<1, 4>, block8<1, 5>, block8<1, 6>};
constexpr Block kFour4[] = {block4<4, 1>, block4<4, 2>, block4<4, 3>, block4<2, 4>, block4<2, 5>, block4<2, 6>};
constexpr Block kOne4[] = {block4<1, 1>, block4<1, 2>, block4<1, 3>, block4<1, 4>, block4<1, 5>, block4<1, 6>};
constexpr int kMostTokens = 6;  // of a block: 24 sums of four panels are what the registers hold

void multiply(const Matrix& weights, int first, int last, const Activations& activations, int tokens, float* out,
              std::size_t stride, bool add) {
  const Place place{weights, activations, out, stride, add};
  const bool is_wide = weights.bits == 8;
  for (int panel = first; panel < last;) {
    const int panels = last - panel >= 4 ? 4 : 1;
    for (int token = 0; token < tokens;) {
      const int left = tokens - token;
      const int count = left <= kMostTokens ? left : left < 2 * kMostTokens ? (left + 1) / 2 : kMostTokens;
      if (is_wide) {
        (panels == 4 ? kFour8 : kOne8)[count - 1](place, first, panel, token);
      } else if (panels == 4 && count > 3) {  // two panels at once
        kFour4[count - 1](place, first, panel, token);
        kFour4[count - 1](place, first, panel + 2, token);
      } else {
        (panels == 4 ? kFour4 : kOne4)[count - 1](place, first, panel, token);
      }
      token += count;
    }
    panel += panels;
  }
}

void quantize(const float* row, Activations& to, int token) {
  const int inputs = to.inputs;
  F16 most = {};
  for (int i = 0; i < inputs; i += 16) {
    const F16 value = load<F16>(row + i);
    most = larger(most, larger(value, -value));
  }
  const float scale = largest(most) / 127.0F;
  const float inverse = scale == 0 ? 0 : 1 / scale;
  const auto at = static_cast<std::size_t>(token);
  std::int8_t* values = to.values.data() + at * static_cast<std::size_t>(to.depth);
  std::int32_t* groups = to.groups.data() + at * static_cast<std::size_t>(to.depth / kGroup);
  std::int32_t total = 0;
  for (int group = 0; group < to.depth / kGroup; ++group) {
    I16 sums = {};
    for (int i = group * kGroup; i < (group + 1) * kGroup; i += 16) {
      I16 rounded = {};
      if (i < inputs) {
        const F16 shifted = load<F16>(row + i) * inverse + kRounder;
        rounded = reinterpret_cast<I16>(shifted) - 0x4B400000;
      }
      sums += rounded;
      store(values + i, __builtin_convertvector(rounded, B16));
    }
    std::int32_t whole = 0;
    for (int i = 0; i < 16; ++i) whole += sums[i];
    groups[group] = -8 * whole;
    total += whole;
  }
  to.totals[at] = 128 * total;
  to.scales[at] = scale;
}

void norm(const float* row, const float* weight, int count, float epsilon, float* to) {
  F16 squares = {};
  for (int i = 0; i < count; i += 16) {
    const F16 value = load<F16>(row + i);
    squares += value * value;
  }
  const float factor = 1.0F / __builtin_sqrtf(sum(squares) / static_cast<float>(count) + epsilon);
  for (int i = 0; i < count; i += 16) store(to + i, load<F16>(row + i) * factor * load<F16>(weight + i));
}

void gate(const float* pairs, int first, int last, float* to) {
  for (int panel = first; panel < last; ++panel) {
    const F16 gated = load<F16>(pairs + (panel - first) * 2 * kPanel);
    const F16 up = load<F16>(pairs + ((panel - first) * 2 + 1) * kPanel);
    store(to + (panel - first) * kPanel, gated / (exponential(-gated) + 1.0F) * up);
  }
}

void rotate(float* head, const float* cosines, const float* sines, int dim) {
  const int half = dim / 2;
  int i = 0;
  for (; i + 16 <= half; i += 16) {
    const F16 a = load<F16>(head + i);
    const F16 b = load<F16>(head + i + half);
    store(head + i, a * load<F16>(cosines + i) - b * load<F16>(sines + i));
    store(head + i + half, b * load<F16>(cosines + i) + a * load<F16>(sines + i));
  }
  for (; i < half; ++i) {
    const float a = head[i];
    const float b = head[i + half];
    head[i] = a * cosines[i] - b * sines[i];
    head[i + half] = b * cosines[i] + a * sines[i];
  }
}

int best(const float* numbers, int count) {
  int at = 0;
  float most = numbers[0];
  int from = 0;
  for (; from + 16 <= count; from += 16) {  // most groups have nothing better
    const F16 group = load<F16>(numbers + from);
    const float top = largest(group);
    if (!(top > most)) continue;
    most = top;
    at = from;
    while (numbers[at] != top) ++at;
  }
  for (; from < count; ++from) {
    if (numbers[from] > most) most = numbers[from], at = from;
  }
  return at;
}
