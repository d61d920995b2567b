// How a decoder takes over its weights: which tensors it expects, where each goes, what it refuses.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "decoder.h"

namespace windlass {

namespace {

float from_float16(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1F;
  const std::uint32_t fraction = bits & 0x3FF;
  if (exponent == 0) {  // a subnormal number or zero
    const float value = std::ldexp(static_cast<float>(fraction), -24);
    return sign != 0 ? -value : value;
  }
  const std::uint32_t wide = exponent == 31 ? 0xFF : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

// One row of a tensor as float; false when a number in it is not finite. `data` may lie anywhere in a file.
bool read_row(const void* data, Kind kind, std::size_t row, int count, float* to) {
  const std::size_t size = kind == Kind::kFloat32 ? 4 : 2;
  const auto* from = static_cast<const unsigned char*>(data) + row * static_cast<std::size_t>(count) * size;
  bool is_finite = true;
  for (int i = 0; i < count; ++i, from += size) {
    if (kind == Kind::kFloat32) {
      std::memcpy(to + i, from, sizeof(float));
    } else {
      std::uint16_t bits = 0;
      std::memcpy(&bits, from, sizeof bits);
      to[i] = kind == Kind::kBfloat16 ? from_bfloat16(bits) : from_float16(bits);
    }
    is_finite &= std::isfinite(to[i]);
  }
  return is_finite;
}

std::string words(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

void demand(bool is_so, const std::string& sentence) {
  if (!is_so) throw std::invalid_argument(sentence);
}

}  // namespace

void Decoder::check() const {
  const DecoderConfig& c = config_;
  const std::string end = "; the draft decoder cannot run this model: take another draft model.";
  demand(c.layers > 0 && c.hidden > 0 && c.heads > 0 && c.kv_heads > 0 && c.intermediate > 0 && c.vocabulary > 0,
         "layers, hidden, heads, kv_heads, intermediate and vocabulary must be above 0" + end);
  demand(c.hidden % kGroup == 0, "hidden_size " + std::to_string(c.hidden) + " is no multiple of 32" + end);
  demand(c.intermediate % kGroup == 0,
         "intermediate_size " + std::to_string(c.intermediate) + " is no multiple of 32" + end);
  demand(c.head_dim > 0 && c.head_dim % 16 == 0,
         "head_dim " + std::to_string(c.head_dim) + " is no multiple of 16" + end);
  demand(c.heads * c.head_dim % kGroup == 0, "heads x head_dim is no multiple of 32" + end);
  demand(c.heads % c.kv_heads == 0,
         "num_attention_heads " + std::to_string(c.heads) + " is no multiple of num_key_value_heads" + end);
  demand(c.rope_frequencies.size() == static_cast<std::size_t>(c.head_dim / 2),
         "rope_frequencies needs head_dim / 2 numbers.");
  demand((c.body_bits == 8 || c.body_bits == 4) && (c.head_bits == 8 || c.head_bits == 4),
         "body_bits and head_bits must be 8 or 4.");
  demand(c.window >= 64, "window must be at least 64 tokens.");
  demand(c.threads >= 1, "threads must be at least 1.");
}

void Decoder::expect_layer(int number) {
  const DecoderConfig& c = config_;
  Layer& layer = layers_[static_cast<std::size_t>(number)];
  const std::string at = "model.layers." + std::to_string(number) + ".";
  const int queries = c.heads * c.head_dim;
  const int keys = c.kv_heads * c.head_dim;
  layer.qkv = Matrix(queries + 2 * keys, c.hidden, c.body_bits);
  layer.output = Matrix(c.hidden, queries, c.body_bits);
  layer.gate_up = Matrix(2 * c.intermediate, c.hidden, c.body_bits);
  layer.down = Matrix(c.hidden, c.intermediate, c.body_bits);
  if (c.has_qkv_bias) layer.qkv.bias.resize(qkv_width());
  if (c.has_output_bias) layer.output.bias.resize(static_cast<std::size_t>(c.hidden));
  const struct {
    const char* name;
    int offset;
    int rows;
  } parts[] = {{"q_proj", 0, queries}, {"k_proj", queries, keys}, {"v_proj", queries + keys, keys}};
  for (const auto& part : parts) {
    const std::string name = at + "self_attn." + part.name;
    expect(name + ".weight", layer.qkv, part.offset, part.rows, false);
    if (c.has_qkv_bias) expect(name + ".bias", layer.qkv.bias, part.offset, part.rows);
  }
  expect(at + "self_attn.o_proj.weight", layer.output, 0, c.hidden, false);
  if (c.has_output_bias) expect(at + "self_attn.o_proj.bias", layer.output.bias, 0, c.hidden);
  expect(at + "mlp.gate_proj.weight", layer.gate_up, 0, c.intermediate, true);
  expect(at + "mlp.up_proj.weight", layer.gate_up, kPanel, c.intermediate, true);
  expect(at + "mlp.down_proj.weight", layer.down, 0, c.hidden, false);
  const auto norm = [&](const char* name, std::vector<float>& numbers, int count) {
    numbers.resize(static_cast<std::size_t>(count));
    expect(at + name, numbers, 0, count);
  };
  norm("input_layernorm.weight", layer.attention_norm, c.hidden);
  norm("post_attention_layernorm.weight", layer.mlp_norm, c.hidden);
  if (!c.has_qk_norm) return;
  norm("self_attn.q_norm.weight", layer.query_norm, c.head_dim);
  norm("self_attn.k_norm.weight", layer.key_norm, c.head_dim);
}

void Decoder::expect(const std::string& name, Matrix& matrix, int offset, int rows, bool is_half) {
  targets_[name] = {{rows, matrix.inputs}, nullptr, &matrix, offset, is_half, false, false};
}

void Decoder::expect(const std::string& name, std::vector<float>& numbers, int offset, int count) {
  targets_[name] = {{count}, &numbers, nullptr, offset, false, false, false};
}

void Decoder::place(const Target& target, int row, const float* numbers) {
  if (target.is_embedding) {
    std::uint16_t* to = embedding_.data() + static_cast<std::size_t>(row) * static_cast<std::size_t>(config_.hidden);
    for (int i = 0; i < config_.hidden; ++i) to[i] = to_bfloat16(numbers[i]);
  }
  if (target.matrix == nullptr) return;
  const int output = target.is_half ? row / kPanel * 2 * kPanel + row % kPanel : row;
  target.matrix->set(target.offset + output, numbers);
}

void Decoder::add(const std::string& name, const void* data, Kind kind, std::span<const std::int64_t> shape) {
  const auto found = targets_.find(name);
  demand(found != targets_.end(), "the draft decoder knows no tensor \"" + name + "\" in a model of this config.");
  Target& target = found->second;
  demand(std::ranges::equal(shape, target.shape), "tensor \"" + name + "\" has shape " + words(shape) +
                                                      ", and the config says " + words(target.shape) +
                                                      ": the files belong to different models.");
  demand(!target.has_come, "tensor \"" + name + "\" came twice.");
  const std::string odd = "tensor \"" + name + "\" has a number that is not finite: the file is damaged.";
  if (target.numbers != nullptr) {
    demand(read_row(data, kind, 0, static_cast<int>(shape[0]), target.numbers->data() + target.offset), odd);
  } else {
    std::atomic<bool> is_finite{true};
    const int columns = static_cast<int>(shape[1]);
    crew_.run([&](Crew::Place& thread) {
      crew_.together(thread, [&](int part) {
        std::vector<float> row(static_cast<std::size_t>(columns));
        const Share mine = share(static_cast<int>(shape[0]), part, crew_.size());
        for (int at = mine.from; at < mine.to; ++at) {
          if (!read_row(data, kind, static_cast<std::size_t>(at), columns, row.data())) is_finite = false;
          if (is_finite) place(target, at, row.data());
        }
      });
    });
    demand(is_finite, odd);
  }
  target.has_come = true;
}

std::vector<std::string> Decoder::missing() const {
  std::vector<std::string> names;
  for (const auto& [name, target] : targets_) {
    if (!target.has_come) names.push_back(name);
  }
  return names;
}

std::vector<std::int64_t> Decoder::shape(const std::string& name) const {
  const auto found = targets_.find(name);
  return found == targets_.end() ? std::vector<std::int64_t>() : found->second.shape;
}

}  // namespace windlass
