#include "matrix.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace windlass {

namespace {

constexpr float kMost8 = 127;
constexpr float kLeast4 = -8;
constexpr float kMost4 = 7;
// A scale below the largest weight's cuts that weight and rounds the others finer; the best is taken.
constexpr float kShrink[] = {0.94F, 0.88F};

// The nearest integer of a number within a few hundreds, without a call to the library.
int nearest(float value) { return static_cast<int>(value + 1024.5F) - 1024; }

struct Rounded {
  float scale;
  float error;
  std::int8_t values[kGroup];
};

Rounded round_group(const float* row, int count, float scale) {
  Rounded rounded{from_bfloat16(to_bfloat16(scale)), 0, {}};
  const float inverse = rounded.scale == 0 ? 0 : 1 / rounded.scale;
  for (int i = 0; i < count; ++i) {
    const float value = std::clamp(static_cast<float>(nearest(row[i] * inverse)), kLeast4, kMost4);
    rounded.values[i] = static_cast<std::int8_t>(value);
    const float off = row[i] - value * rounded.scale;
    rounded.error += off * off;
  }
  return rounded;
}

Rounded best_group(const float* row, int count) {
  float extreme = 0;  // with its sign: it becomes -8, so that no code is wasted
  for (int i = 0; i < count; ++i) {
    if (std::fabs(row[i]) > std::fabs(extreme)) extreme = row[i];
  }
  Rounded best = round_group(row, count, extreme / kLeast4);
  for (const float shrink : kShrink) {
    const Rounded other = round_group(row, count, extreme * shrink / kLeast4);
    if (other.error < best.error) best = other;
  }
  return best;
}

}  // namespace

std::uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

float from_bfloat16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

Matrix::Matrix(int outputs, int inputs, int bits)
    : outputs(outputs),
      inputs(inputs),
      depth(padded(inputs, kPadding)),
      panels(padded(outputs, kPanel) / kPanel),
      bits(bits) {
  const auto channels = static_cast<std::size_t>(panels) * kPanel;
  weights.assign(panel_bytes() * static_cast<std::size_t>(panels), bits == 8 ? 0x80 : 0x88);
  if (bits == 8) {
    scales.assign(channels, 0);
  } else {
    group_scales.assign(channels * static_cast<std::size_t>(depth / kGroup), 0);
  }
}

void Matrix::set(int output, const float* row) {
  const int panel = output / kPanel;
  const int lane = output % kPanel;
  std::uint8_t* to = weights.data() + panel_bytes() * static_cast<std::size_t>(panel) + lane * kInputsAtOnce;
  constexpr int kLine = kPanel * kInputsAtOnce;
  if (bits == 8) {
    float most = 0;
    for (int i = 0; i < inputs; ++i) most = std::max(most, std::fabs(row[i]));
    const float scale = most / kMost8;
    scales[static_cast<std::size_t>(output)] = scale;
    const float inverse = scale == 0 ? 0 : 1 / scale;
    for (int i = 0; i < inputs; ++i)
      to[i / kInputsAtOnce * kLine + i % kInputsAtOnce] = static_cast<std::uint8_t>(nearest(row[i] * inverse) + 128);
    return;
  }
  for (int from = 0; from < inputs; from += kGroup) {
    const int count = std::min(kGroup, inputs - from);
    const Rounded rounded = best_group(row + from, count);
    const auto group = static_cast<std::size_t>(panel) * static_cast<std::size_t>(depth / kGroup) + from / kGroup;
    group_scales[group * kPanel + static_cast<std::size_t>(lane)] = to_bfloat16(rounded.scale);
    for (int i = 0; i < count; ++i) {
      const int quad = (from + i) / kInputsAtOnce;
      std::uint8_t& byte = to[quad / 2 * kLine + i % kInputsAtOnce];
      const int code = rounded.values[i] + 8;
      byte = static_cast<std::uint8_t>(quad % 2 == 0 ? (byte & 0xF0) | code : (byte & 0x0F) | (code << 4));
    }
  }
}

std::size_t Matrix::bytes() const {
  return weights.size() + (scales.size() + bias.size()) * sizeof(float) + group_scales.size() * sizeof(std::uint16_t);
}

void Activations::reserve(int tokens, int width) {
  inputs = width;
  depth = padded(width, kPadding);
  const auto count = static_cast<std::size_t>(padded(tokens, 16));
  if (scales.size() >= count) return;
  values.resize(count * static_cast<std::size_t>(depth));
  groups.resize(count * static_cast<std::size_t>(depth / kGroup));
  scales.resize(count);
  totals.resize(count);
}

}  // namespace windlass
