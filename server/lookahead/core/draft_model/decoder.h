// The decoder's pass: tokens of several rows go through all layers together, so that the weights are read once.
//
// Norm, rotary positions, grouped attention and a gated MLP, as Llama, Qwen2 and Qwen3 have them. Weights are 8 bits
// (a scale for each output channel) or 4 bits (a scale for each 32 inputs of a channel); activations are 8 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "../options.h"
#include "crew.h"
#include "kernels.h"

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
  int window = 1024;             // tokens of a row that it sees at most
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
  explicit KeyValues(const DecoderConfig& config);
  std::uint16_t* keys(int layer, int kv_head) {
    return memory_.get() + static_cast<std::size_t>(layer * kv_heads_ + kv_head) * 2 * plane_;
  }
  std::uint16_t* values(int layer, int kv_head) { return keys(layer, kv_head) + plane_; }
  static std::size_t bytes(const DecoderConfig& config);

 private:
  struct Free {
    void operator()(std::uint16_t* memory) const { LargePages<std::uint16_t>().deallocate(memory, 0); }
  };

  int kv_heads_;
  std::size_t plane_;                              // numbers of one head's keys
  std::unique_ptr<std::uint16_t[], Free> memory_;  // not set to zero, so that pages come as positions are written
};

// Tokens that go through the layers together. Those of one row stand in the order of their positions.
struct Batch {
  struct Item {
    KeyValues* kv = nullptr;
    int position = 0;
    Token token = 0;
    bool is_last = false;  // its next token is wanted
  };
  std::vector<Item> items;
  int next_layer = 0;
  std::vector<float> stream;  // [items, hidden]
  std::vector<Token> next;    // of each item that is last, in order: the likeliest next token
};

class Decoder {
 public:
  // Throws std::invalid_argument with a sentence when it cannot run such a model.
  explicit Decoder(const DecoderConfig& config);
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // Takes over one tensor under its usual name ("model.layers.0.mlp.up_proj.weight"), quantized at once. Throws
  // std::invalid_argument with a sentence when the name, the shape or a number in it is not what the config says.
  void add(const std::string& name, const void* data, Kind kind, std::span<const std::int64_t> shape);
  // Names of tensors that have not come yet.
  std::vector<std::string> missing() const;
  // The shape that the config gives a tensor of this name; empty for a name that it does not know.
  std::vector<std::int64_t> shape(const std::string& name) const;

  // Puts the items' embeddings into the batch and starts it at layer 0.
  void enter(Batch& batch);
  // Runs layers [batch.next_layer, to).
  void layers(Batch& batch, int to);
  // All layers from the first, then the head: the likeliest next token of each last item. With `logits` also all
  // numbers, [last items, vocabulary].
  void pass(Batch& batch, std::vector<float>* logits = nullptr);

  const DecoderConfig& config() const { return config_; }
  int threads() const { return crew_.size(); }
  const Kernels& kernels() const { return kernels_; }
  std::size_t bytes() const;  // of the weights

 private:
  struct Layer {
    Matrix qkv, output, gate_up, down;
    std::vector<float> attention_norm, mlp_norm, query_norm, key_norm;
  };
  // Where a tensor goes.
  struct Target {
    std::vector<std::int64_t> shape;
    std::vector<float>* numbers = nullptr;  // of a tensor with one dimension
    Matrix* matrix = nullptr;
    int offset = 0;        // of its first row among the matrix's outputs, or among the numbers
    bool is_half = false;  // panels of it alternate with those of another tensor
    bool is_embedding = false;
    bool has_come = false;
  };
  // Activations by what they are inputs of.
  struct Inputs {
    Activations hidden, heads, gated;
  };
  // What one thread needs for itself.
  struct Own {
    Inputs inputs;
    std::vector<float> row;
    std::vector<float> scores;
    std::vector<float> tile;
  };
  // The best tokens of one part of the vocabulary, by last items.
  struct Best {
    std::vector<float> logits;
    std::vector<Token> tokens;
  };
  using Fill = std::function<const float*(int item, Own& own)>;  // one item's inputs

  void check() const;
  void expect_layer(int number);
  void expect(const std::string& name, Matrix& matrix, int offset, int rows, bool is_half);
  void expect(const std::string& name, std::vector<float>& numbers, int offset, int count);
  void place(const Target& target, int row, const float* numbers);
  void reserve(const Batch& batch);
  static void fit(Inputs& inputs, const DecoderConfig& config, int items);
  void share_inputs(Crew::Place& place, int items, Activations Inputs::* which, const Fill& fill);
  const Activations& inputs(Own& own, int items, Activations Inputs::* which, const Fill& fill) const;
  void project(Crew::Place& place, const Matrix& matrix, int items, Activations Inputs::* which, const Fill& fill,
               std::vector<float>& out, std::size_t stride, bool add);
  void layer(Batch& batch, int number, Crew::Place& place);
  void keep_keys(Batch& batch, int number, Share part);
  void attend(Batch& batch, int number, Share part, Own& own);
  void mlp(Batch& batch, int number, Crew::Place& place);
  void head(const Batch& batch, Crew::Place& place, std::vector<float>* logits);
  void search(const Activations& normed, int part, Own& own, std::vector<float>* logits);
  void choose(Batch& batch);
  float* qkv_of(int item) { return qkv_.data() + static_cast<std::size_t>(item) * qkv_width(); }
  std::size_t qkv_width() const {
    return static_cast<std::size_t>(config_.heads + 2 * config_.kv_heads) * static_cast<std::size_t>(config_.head_dim);
  }

  Crew crew_;
  DecoderConfig config_;
  const Kernels& kernels_;
  std::map<std::string, Target> targets_;
  std::vector<Layer> layers_;
  std::vector<std::uint16_t, LargePages<std::uint16_t>> embedding_;  // bfloat16, [vocabulary, hidden]
  Matrix head_;
  std::vector<float> final_norm_;
  std::vector<float> cosines_, sines_;  // [window, head_dim / 2]

  // Of the pass under way, [items, …].
  std::vector<float> qkv_, attention_, pairs_, gated_;
  Inputs shared_;
  std::vector<Own> own_;    // [threads]
  std::vector<Best> best_;  // [parts of the vocabulary]
  std::vector<int> last_;   // items whose next token is wanted
};

}  // namespace windlass
