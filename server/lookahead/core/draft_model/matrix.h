// Weights as the kernels read them, and activations as they multiply them.
//
// A panel has 16 output channels. Four inputs of its 16 channels are 64 bytes in a row, so that one instruction
// multiplies them by four activations. A tile of AMX is 16 such lines, so the same bytes serve it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "../pages.h"

namespace windlass {

constexpr int kPanel = 16;        // output channels side by side
constexpr int kInputsAtOnce = 4;  // of one instruction
constexpr int kGroup = 32;        // inputs that share a scale where a weight has 4 bits
constexpr int kPadding = 64;      // inputs are padded with zeros to a multiple of it

inline int padded(int count, int to) { return (count + to - 1) / to * to; }

struct Matrix {
  int outputs = 0;
  int inputs = 0;
  int depth = 0;  // inputs with padding
  int panels = 0;
  int bits = 8;
  // 8 bits: weight + 128, [panels, depth / 4, 16, 4]. 4 bits: weight + 8, [panels, depth / 8, 16, 4], of which the low
  // half belongs to the first four inputs of eight.
  std::vector<std::uint8_t, LargePages<std::uint8_t>> weights;
  std::vector<float> scales;                // 8 bits: [panels, 16]
  std::vector<std::uint16_t> group_scales;  // 4 bits: bfloat16, [panels, depth / 32, 16]
  std::vector<float> bias;                  // [panels, 16] or empty

  Matrix() = default;
  Matrix(int outputs, int inputs, int bits);
  // Quantizes the weights of one output channel.
  void set(int output, const float* row);
  std::size_t panel_bytes() const { return static_cast<std::size_t>(depth) * kPanel * bits / 8; }
  std::size_t bytes() const;
};

// Activations of some tokens, 8 bits with a scale each. Weights are stored without a sign, so each token has the sum
// that must be taken off again.
struct Activations {
  int inputs = 0;
  int depth = 0;                                             // inputs with padding
  std::vector<std::int8_t, LargePages<std::int8_t>> values;  // [tokens, depth]
  std::vector<float> scales;                                 // [tokens]
  std::vector<std::int32_t> totals;                          // [tokens]: 128 x the sum of the values
  std::vector<std::int32_t> groups;                          // [tokens, depth / 32]: -8 x the sum of a group's values

  void reserve(int tokens, int width);  // room for a multiple of 16 tokens, which tiles read
};

std::uint16_t to_bfloat16(float value);
float from_bfloat16(std::uint16_t bits);

}  // namespace windlass
