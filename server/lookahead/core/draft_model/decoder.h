// The decoder's pass: tokens of several rows go through all layers together, so that the weights are read once.
//
// Norm, rotary positions, grouped attention and a gated MLP, as Llama, Qwen2 and Qwen3 have them. Weights are 8 bits
// (a scale for each output channel) or 4 bits (a scale for each 32 inputs of a channel); activations are 8 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "crew.h"
#include "kernels.h"
#include "table.h"

namespace windlass {

struct DecoderConfig {
  int layers = 0;
  int hidden = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int intermediate = 0;
  int vocabulary = 0;
  float norm_epsilon = 1e-6F;
  std::vector<float> rope_frequencies;  // [head_dim / 2], radians a token; scaling is in them already
  bool has_qkv_bias = false;
  bool has_output_bias = false;  // of the attention's output projection
  bool has_qk_norm = false;      // a norm of each head's query and key before rotation (Qwen3)
  bool is_tied = false;          // the head is the embedding
  int body_bits = 8;             // of a weight in the layers: 8 or 4
  int head_bits = 8;             // of a weight in the head: 8 or 4
  int threads = 1;               // with the calling one
  Path path = Path::kBest;       // which kernels; kBest: what the processor has
};

enum class Kind { kFloat32, kFloat16, kBfloat16 };

// Keys and values of one row, bfloat16, for all layers. Keys lie in blocks of 16 positions, [dim][16], so that a score
// of 16 positions needs no sum across a register.
class KeyValues {
 public:
  KeyValues(const DecoderConfig& config, int window);
  std::uint16_t* keys(int layer, int kv_head) { return memory_.data() + (layer * kv_heads_ + kv_head) * 2 * plane_; }
  std::uint16_t* values(int layer, int kv_head) { return keys(layer, kv_head) + plane_; }
  std::size_t bytes() const { return memory_.size() * sizeof(std::uint16_t); }

 private:
  int kv_heads_;
  std::size_t plane_;  // numbers of one head's keys
  std::vector<std::uint16_t> memory_;
};

// Tokens that go through the layers together. Tokens of one row stand in the order of their positions.
struct Batch {
  struct Item {
    KeyValues* kv;
    int position;
    Token token;
    bool is_last;  // its next token is wanted
  };
  std::vector<Item> items;
  int next_layer = 0;

  // Filled by the decoder, [items] by what the name says.
  std::vector<float> stream, qkv, attention, gated;
  std::vector<std::int8_t> quantized;
  std::vector<float> scales;
  std::vector<std::int32_t> sums;
  std::vector<Token> next;  // [items that are last]: the likeliest next token
};

class Decoder {
 public:
  explicit Decoder(const DecoderConfig& config);

  // Takes over one tensor under its usual name ("model.layers.0.mlp.up_proj.weight"), quantized at once. Throws
  // std::invalid_argument with a sentence when the name, the shape or a number in it is not what the config says.
  void add(const std::string& name, const void* data, Kind kind, std::span<const std::int64_t> shape);
  // Names of tensors that have not come yet.
  std::vector<std::string> missing() const;

  // Puts the items' embeddings into the batch and starts it at layer 0.
  void enter(Batch& batch);
  // Runs layers [batch.next_layer, to).
  void layers(Batch& batch, int to);
  // Final norm, head and argmax for the last items; with `logits` also all numbers, [last items, vocabulary].
  void head(Batch& batch, std::vector<float>* logits = nullptr);
  // enter, all layers, head: one wake of the threads.
  void pass(Batch& batch);

  const DecoderConfig& config() const { return config_; }
  int threads() const { return crew_.size(); }
  Path path() const { return kernels_.path; }
  std::size_t bytes() const;

 private:
  struct Layer;
  DecoderConfig config_;
  Crew crew_;
  const Kernels& kernels_;
};

}  // namespace windlass
