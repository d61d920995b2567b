// The arithmetic of a pass, once for each kind of processor; which one runs is chosen at the start by what the
// processor has. All of it is plain functions of memory: no allocation, no exception.
#pragma once

#include <cstdint>

#include "matrix.h"

namespace windlass {

enum class Path { kBest = 0, kPortable = 1, kAvx2 = 2, kVnni = 3, kAmx = 4 };

constexpr int kHeadsAtOnce = 4;

struct Kernels {
  Path path;
  const char* name;
  // out[token * stride + channel - 16 * first] = or += weights x activations, for panels [first, last).
  void (*multiply)(const Matrix& weights, int first, int last, const Activations& activations, int tokens, float* out,
                   std::size_t stride, bool add);
  // Quantizes one token's activations into place `token`.
  void (*quantize)(const float* row, Activations& to, int token);
  // to = row / rms(row) * weight.
  void (*norm)(const float* row, const float* weight, int count, float epsilon, float* to);
  // to[i] = silu(gate) * up of panels [first, last) of `pairs`, where 16 gates and 16 ups alternate.
  void (*gate)(const float* pairs, int first, int last, float* to);
  // Rotates pairs (i, i + dim / 2) by the angles whose cosines and sines are given.
  void (*rotate)(float* head, const float* cosines, const float* sines, int dim);
  // Weighs the values of `count` positions by their keys, for heads that share them: `queries` and `out` are
  // [heads, dim], `scores` has room for kHeadsAtOnce x `stride` numbers, and stride is a multiple of 16 from count up.
  void (*attend)(const float* queries, int heads, const std::uint16_t* keys, const std::uint16_t* values, int count,
                 int dim, float* scores, std::size_t stride, float* out);
  // The index of the largest of `count` numbers, the first of equals.
  int (*best)(const float* numbers, int count);
};

// The kernels of a path; those of the next lesser one where the processor has not what it needs.
const Kernels& kernels(Path wanted);

}  // namespace windlass
