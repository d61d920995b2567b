#include "decoder.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace windlass {

namespace {

// Up to here each thread prepares all items for itself: that takes less than to wait for the others once more.
constexpr int kAlone = 2;
constexpr int kTile = 4;  // panels of the head that one thread does at once

}  // namespace

KeyValues::KeyValues(const DecoderConfig& config)
    : kv_heads_(config.kv_heads),
      plane_(static_cast<std::size_t>(padded(config.window, 16)) * config.head_dim),
      memory_(LargePages<std::uint16_t>().allocate(bytes(config) / sizeof(std::uint16_t))) {}

std::size_t KeyValues::bytes(const DecoderConfig& config) {
  const auto plane = static_cast<std::size_t>(padded(config.window, 16)) * config.head_dim;
  return plane * 2 * static_cast<std::size_t>(config.layers * config.kv_heads) * sizeof(std::uint16_t);
}

Decoder::Decoder(const DecoderConfig& config)
    : crew_(config.threads), config_(config), kernels_(windlass::kernels(config.path)) {
  check();
  const int dim = config.head_dim;
  layers_.resize(static_cast<std::size_t>(config.layers));
  for (int number = 0; number < config.layers; ++number) expect_layer(number);
  embedding_.resize(static_cast<std::size_t>(config.vocabulary) * config.hidden);
  head_ = Matrix(config.vocabulary, config.hidden, config.head_bits);
  final_norm_.resize(static_cast<std::size_t>(config.hidden));
  expect("model.norm.weight", final_norm_, 0, config.hidden);
  targets_["model.embed_tokens.weight"] = {
      {config.vocabulary, config.hidden}, nullptr, config.is_tied ? &head_ : nullptr, 0, false, true, false};
  if (!config.is_tied) expect("lm_head.weight", head_, 0, config.vocabulary, false);
  for (int position = 0; position < config.window; ++position) {
    for (int i = 0; i < dim / 2; ++i) {
      const double angle = static_cast<double>(position) * config.rope_frequencies[static_cast<std::size_t>(i)];
      cosines_.push_back(static_cast<float>(std::cos(angle)));
      sines_.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  own_.resize(static_cast<std::size_t>(crew_.size()));
  for (Own& own : own_) {
    fit(own.inputs, config, kAlone);
    own.row.resize(static_cast<std::size_t>(std::max(config.hidden, dim)));
    own.scores.resize(static_cast<std::size_t>(padded(config.window, 16)) * kHeadsAtOnce);
  }
}

std::size_t Decoder::bytes() const {
  std::size_t total = embedding_.size() * sizeof(std::uint16_t) + head_.bytes();
  for (const Layer& layer : layers_)
    total += layer.qkv.bytes() + layer.output.bytes() + layer.gate_up.bytes() + layer.down.bytes();
  return total;
}

void Decoder::enter(Batch& batch) {
  const auto hidden = static_cast<std::size_t>(config_.hidden);
  batch.stream.resize(batch.items.size() * hidden);
  batch.next_layer = 0;
  for (std::size_t item = 0; item < batch.items.size(); ++item) {
    const std::size_t token = std::min<std::size_t>(batch.items[item].token, config_.vocabulary - 1);
    const std::uint16_t* from = embedding_.data() + token * hidden;
    std::transform(from, from + hidden, batch.stream.begin() + static_cast<std::ptrdiff_t>(item * hidden),
                   from_bfloat16);
  }
}

void Decoder::reserve(const Batch& batch) {
  const auto items = batch.items.size();
  const auto grow = [&](std::vector<float>& numbers, std::size_t width) {
    if (numbers.size() < items * width) numbers.resize(items * width);
  };
  const auto intermediate = static_cast<std::size_t>(config_.intermediate);
  grow(qkv_, qkv_width());
  grow(attention_, static_cast<std::size_t>(config_.heads) * static_cast<std::size_t>(config_.head_dim));
  grow(pairs_, 2 * intermediate);
  grow(gated_, intermediate);
  fit(shared_, config_, static_cast<int>(items));
}

void Decoder::layers(Batch& batch, int to) {
  reserve(batch);
  crew_.run([&](int id) {
    for (int number = batch.next_layer; number < to; ++number) layer(batch, number, id);
  });
  batch.next_layer = to;
}

void Decoder::pass(Batch& batch, std::vector<float>* logits) {
  enter(batch);
  reserve(batch);
  last_.clear();
  for (std::size_t i = 0; i < batch.items.size(); ++i) {
    if (batch.items[i].is_last) last_.push_back(static_cast<int>(i));
  }
  if (logits != nullptr) logits->resize(last_.size() * static_cast<std::size_t>(config_.vocabulary));
  crew_.run([&](int id) {
    for (int number = 0; number < config_.layers; ++number) layer(batch, number, id);
    head(batch, id, logits);
  });
  batch.next_layer = config_.layers;
  choose(batch);
}

void Decoder::fit(Inputs& inputs, const DecoderConfig& config, int items) {
  inputs.hidden.reserve(items, config.hidden);
  inputs.heads.reserve(items, config.heads * config.head_dim);
  inputs.gated.reserve(items, config.intermediate);
}

// Quantizes what `fill` yields for each item: each thread for itself, or all together.
const Activations& Decoder::prepare(int items, Activations Inputs::* which, int id, const Fill& fill) {
  Own& own = own_[static_cast<std::size_t>(id)];
  const bool is_alone = items <= kAlone;
  Activations& to = (is_alone ? own.inputs : shared_).*which;
  const Share part = is_alone ? Share{0, items} : share(items, id, crew_.size());
  for (int item = part.from; item < part.to; ++item) kernels_.quantize(fill(item, own), to, item);
  if (!is_alone) crew_.meet();
  return to;
}

void Decoder::layer(Batch& batch, int number, int id) {
  const Layer& layer = layers_[static_cast<std::size_t>(number)];
  const int items = static_cast<int>(batch.items.size());
  const int hidden = config_.hidden;
  const auto width = static_cast<std::size_t>(hidden);
  const auto normed = [&](int item, Own& own) -> const float* {
    kernels_.norm(batch.stream.data() + static_cast<std::size_t>(item) * width, layer.attention_norm.data(), hidden,
                  config_.norm_epsilon, own.row.data());
    return own.row.data();
  };
  const Activations& inputs = prepare(items, &Inputs::hidden, id, normed);
  const Share qkv = share(layer.qkv.panels, id, crew_.size());
  kernels_.multiply(layer.qkv, qkv.from, qkv.to, inputs, items, qkv_.data() + qkv.from * kPanel, qkv_width(), false);
  crew_.meet();
  keep_keys(batch, number, id);
  crew_.meet();
  attend(batch, number, id);
  crew_.meet();
  const int heads_width = config_.heads * config_.head_dim;
  const Activations& attended = prepare(items, &Inputs::heads, id, [&](int item, Own&) -> const float* {
    return attention_.data() + static_cast<std::size_t>(item) * static_cast<std::size_t>(heads_width);
  });
  const Share out = share(layer.output.panels, id, crew_.size());
  kernels_.multiply(layer.output, out.from, out.to, attended, items, batch.stream.data() + out.from * kPanel, width,
                    true);
  crew_.meet();
  mlp(batch, number, id);
}

// Rotates keys by their positions and puts keys and values into the rows' caches.
void Decoder::keep_keys(Batch& batch, int number, int id) {
  const int dim = config_.head_dim;
  const int heads = config_.kv_heads;
  const Layer& layer = layers_[static_cast<std::size_t>(number)];
  const Share part = share(static_cast<int>(batch.items.size()) * heads, id, crew_.size());
  for (int unit = part.from; unit < part.to; ++unit) {
    const Batch::Item& item = batch.items[static_cast<std::size_t>(unit / heads)];
    const int head = unit % heads;
    float* key = qkv_of(unit / heads) + (config_.heads + head) * dim;
    const float* value = key + heads * dim;
    if (config_.has_qk_norm) kernels_.norm(key, layer.key_norm.data(), dim, config_.norm_epsilon, key);
    const std::size_t angles = static_cast<std::size_t>(item.position) * static_cast<std::size_t>(dim / 2);
    kernels_.rotate(key, cosines_.data() + angles, sines_.data() + angles, dim);
    std::uint16_t* keys = item.kv->keys(number, head) +
                          static_cast<std::size_t>(item.position / 16) * 16 * static_cast<std::size_t>(dim) +
                          item.position % 16;
    std::uint16_t* values =
        item.kv->values(number, head) + static_cast<std::size_t>(item.position) * static_cast<std::size_t>(dim);
    for (int d = 0; d < dim; ++d) {
      keys[d * 16] = to_bfloat16(key[d]);
      values[d] = to_bfloat16(value[d]);
    }
  }
}

void Decoder::attend(Batch& batch, int number, int id) {
  const int dim = config_.head_dim;
  const int heads = config_.heads;
  const Layer& layer = layers_[static_cast<std::size_t>(number)];
  Own& own = own_[static_cast<std::size_t>(id)];
  const Share part = share(static_cast<int>(batch.items.size()) * heads, id, crew_.size());
  const int group_size = heads / config_.kv_heads;
  const auto stride = static_cast<std::size_t>(padded(config_.window, 16));
  for (int unit = part.from; unit < part.to;) {
    const Batch::Item& item = batch.items[static_cast<std::size_t>(unit / heads)];
    const int head = unit % heads;
    const int group = head / group_size;
    const int together = std::min((group + 1) * group_size - head, part.to - unit);
    float* queries = qkv_of(unit / heads) + head * dim;
    const std::size_t angles = static_cast<std::size_t>(item.position) * static_cast<std::size_t>(dim / 2);
    for (int i = 0; i < together; ++i) {
      float* query = queries + i * dim;
      if (config_.has_qk_norm) kernels_.norm(query, layer.query_norm.data(), dim, config_.norm_epsilon, query);
      kernels_.rotate(query, cosines_.data() + angles, sines_.data() + angles, dim);
    }
    kernels_.attend(queries, together, item.kv->keys(number, group), item.kv->values(number, group), item.position + 1,
                    dim, own.scores.data(), stride, attention_.data() + static_cast<std::size_t>(unit) * dim);
    unit += together;
  }
}

void Decoder::mlp(Batch& batch, int number, int id) {
  const Layer& layer = layers_[static_cast<std::size_t>(number)];
  const int items = static_cast<int>(batch.items.size());
  const auto hidden = static_cast<std::size_t>(config_.hidden);
  const auto intermediate = static_cast<std::size_t>(config_.intermediate);
  const Activations& inputs = prepare(items, &Inputs::hidden, id, [&](int item, Own& own) -> const float* {
    kernels_.norm(batch.stream.data() + static_cast<std::size_t>(item) * hidden, layer.mlp_norm.data(), config_.hidden,
                  config_.norm_epsilon, own.row.data());
    return own.row.data();
  });
  const Share part = share(config_.intermediate / kPanel, id, crew_.size());
  float* pairs = pairs_.data() + static_cast<std::size_t>(part.from) * 2 * kPanel;
  kernels_.multiply(layer.gate_up, 2 * part.from, 2 * part.to, inputs, items, pairs, 2 * intermediate, false);
  for (int item = 0; item < items; ++item) {
    const auto at = static_cast<std::size_t>(item);
    kernels_.gate(pairs + at * 2 * intermediate, part.from, part.to,
                  gated_.data() + at * intermediate + part.from * kPanel);
  }
  crew_.meet();
  const Activations& gated = prepare(items, &Inputs::gated, id, [&](int item, Own&) -> const float* {
    return gated_.data() + static_cast<std::size_t>(item) * intermediate;
  });
  const Share down = share(layer.down.panels, id, crew_.size());
  kernels_.multiply(layer.down, down.from, down.to, gated, items, batch.stream.data() + down.from * kPanel, hidden,
                    true);
  crew_.meet();
}

// Each thread keeps the best token of its part of the vocabulary; choose() takes the best of them.
void Decoder::head(Batch& batch, int id, std::vector<float>* logits) {
  Own& own = own_[static_cast<std::size_t>(id)];
  const auto hidden = static_cast<std::size_t>(config_.hidden);
  const int count = static_cast<int>(last_.size());
  const auto wanted = last_.size();
  own.best.assign(wanted, -std::numeric_limits<float>::infinity());
  own.tokens.assign(wanted, 0);
  if (count == 0) return;
  const Activations& inputs = prepare(count, &Inputs::hidden, id, [&](int index, Own& mine) -> const float* {
    const auto item = static_cast<std::size_t>(last_[static_cast<std::size_t>(index)]);
    kernels_.norm(batch.stream.data() + item * hidden, final_norm_.data(), config_.hidden, config_.norm_epsilon,
                  mine.row.data());
    return mine.row.data();
  });
  constexpr std::size_t kWidth = kTile * kPanel;
  if (own.tile.size() < wanted * kWidth) own.tile.resize(wanted * kWidth);
  const Share part = share(head_.panels, id, crew_.size());
  for (int panel = part.from; panel < part.to; panel += kTile) {
    const int last = std::min(panel + kTile, part.to);
    kernels_.multiply(head_, panel, last, inputs, count, own.tile.data(), kWidth, false);
    const int first = panel * kPanel;
    const int channels = std::min(last * kPanel, config_.vocabulary) - first;
    for (std::size_t row = 0; row < wanted; ++row) {
      const float* tile = own.tile.data() + row * kWidth;
      const int at = kernels_.best(tile, channels);
      if (tile[at] > own.best[row]) own.best[row] = tile[at], own.tokens[row] = static_cast<Token>(first + at);
      if (logits != nullptr) std::copy(tile, tile + channels, logits->data() + row * config_.vocabulary + first);
    }
  }
}

void Decoder::choose(Batch& batch) {
  batch.next.assign(last_.size(), 0);
  for (std::size_t row = 0; row < last_.size(); ++row) {
    const Own* best = own_.data();
    for (const Own& own : own_) {  // in the order of tokens, so that the first of equals stays
      if (own.best[row] > best->best[row]) best = &own;
    }
    batch.next[row] = best->tokens[row];
  }
}

}  // namespace windlass
