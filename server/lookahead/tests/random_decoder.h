// A tiny draft model of numbers drawn by chance, for what runs under the sanitizers.
#pragma once

#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "draft_model/draft_model.h"

namespace windlass {

constexpr Token kTinyVocabulary = 50;

inline std::unique_ptr<DraftModel> random_model(int bits, Path path, int threads, int rows, int window) {
  DecoderConfig config;
  config.layers = 2;
  config.hidden = 32;
  config.heads = 2;
  config.kv_heads = 1;
  config.head_dim = 16;
  config.intermediate = 96;
  config.vocabulary = kTinyVocabulary;
  config.rope_frequencies = {1, 0.5F, 0.25F, 0.1F, 0.05F, 0.02F, 0.01F, 0.001F};
  config.has_qkv_bias = true;
  config.is_tied = true;
  config.window = window;
  config.body_bits = config.head_bits = bits;
  config.threads = threads;
  config.path = path;
  auto decoder = std::make_unique<Decoder>(config);
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.2F);
  for (const std::string& name : decoder->missing()) {
    const std::vector<std::int64_t> shape = decoder->shape(name);
    std::vector<float> numbers(static_cast<std::size_t>(shape[0] * (shape.size() > 1 ? shape[1] : 1)));
    for (float& number : numbers) number = normal(random);
    decoder->add(name, numbers.data(), Kind::kFloat32, shape);
  }
  return std::make_unique<DraftModel>(std::move(decoder), rows);
}

}  // namespace windlass
