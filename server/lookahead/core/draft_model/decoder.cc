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
  best_.resize(own_.size());
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
  crew_.run([&](Crew::Place& place) {
    for (int number = batch.next_layer; number < to; ++number) layer(batch, number, place);
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
  crew_.run([&](Crew::Place& place) {
    for (int number = 0; number < config_.layers; ++number) layer(batch, number, place);
    head(batch, place, logits);
  });
  batch.next_layer = config_.layers;
  choose(batch);
}

void Decoder::fit(Inputs& inputs, const DecoderConfig& config, int items) {
  inputs.hidden.reserve(items, config.hidden);
  inputs.heads.reserve(items, config.heads * config.head_dim);
  inputs.gated.reserve(items, config.intermediate);
}

// Quantizes what `fill` yields for each item; few items are quantized by each thread for itself, in inputs().
void Decoder::share_inputs(Crew::Place& place, int items, Activations Inputs::* which, const Fill& fill) {
  if (items <= kAlone) return;
  Own& own = own_[static_cast<std::size_t>(place.id)];
  crew_.together(place, [&](int part) {
    const Share mine = share(items, part, crew_.size());
    for (int item = mine.from; item < mine.to; ++item) kernels_.quantize(fill(item, own), shared_.*which, item);
  });
}

const Activations& Decoder::inputs(Own& own, int items, Activations Inputs::* which, const Fill& fill) const {
  if (items > kAlone) return shared_.*which;
  for (int item = 0; item < items; ++item) kernels_.quantize(fill(item, own), own.inputs.*which, item);
  return own.inputs.*which;
}

// out = or += matrix x inputs, each part some panels of it.
void Decoder::project(Crew::Place& place, const Matrix& matrix, int items, Activations Inputs::* which,
                      const Fill& fill, std::vector<float>& out, std::size_t stride, bool add) {
  share_inputs(place, items, which, fill);
  Own& own = own_[static_cast<std::size_t>(place.id)];
  crew_.together(place, [&](int part) {
    const Share mine = share(matrix.panels, part, crew_.size());
    kernels_.multiply(matrix, mine.from, mine.to, inputs(own, items, which, fill), items,
                      out.data() + mine.from * kPanel, stride, add);
  });
}

void Decoder::layer(Batch& batch, int number, Crew::Place& place) {
  const Layer& layer = layers_[static_cast<std::size_t>(number)];
  const int items = static_cast<int>(batch.items.size());
  const auto width = static_cast<std::size_t>(config_.hidden);
  const Fill normed = [&](int item, Own& own) -> const float* {
    kernels_.norm(batch.stream.data() + static_cast<std::size_t>(item) * width, layer.attention_norm.data(),
                  config_.hidden, config_.norm_epsilon, own.row.data());
    return own.row.data();
  };
  project(place, layer.qkv, items, &Inputs::hidden, normed, qkv_, qkv_width(), false);
  crew_.together(place,
                 [&](int part) { keep_keys(batch, number, share(items * config_.kv_heads, part, crew_.size())); });
  Own& own = own_[static_cast<std::size_t>(place.id)];
  crew_.together(place,
                 [&](int part) { attend(batch, number, share(items * config_.heads, part, crew_.size()), own); });
  const auto heads_width = static_cast<std::size_t>(config_.heads) * static_cast<std::size_t>(config_.head_dim);
  const Fill attended = [&](int item, Own&) {
    return attention_.data() + static_cast<std::size_t>(item) * heads_width;
  };
  project(place, layer.output, items, &Inputs::heads, attended, batch.stream, width, true);
  mlp(batch, number, place);
}

// Rotates keys by their positions and puts keys and values into the rows' caches.
void Decoder::keep_keys(Batch& batch, int number, Share part) {
  const int dim = config_.head_dim;
  const int heads = config_.kv_heads;
  const Layer& layer = layers_[static_cast<std::size_t>(number)];
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

void Decoder::attend(Batch& batch, int number, Share part, Own& own) {
  const int dim = config_.head_dim;
  const int heads = config_.heads;
  const Layer& layer = layers_[static_cast<std::size_t>(number)];
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

void Decoder::mlp(Batch& batch, int number, Crew::Place& place) {
  const Layer& layer = layers_[static_cast<std::size_t>(number)];
  const int items = static_cast<int>(batch.items.size());
  const auto hidden = static_cast<std::size_t>(config_.hidden);
  const auto intermediate = static_cast<std::size_t>(config_.intermediate);
  const Fill normed = [&](int item, Own& own) -> const float* {
    kernels_.norm(batch.stream.data() + static_cast<std::size_t>(item) * hidden, layer.mlp_norm.data(), config_.hidden,
                  config_.norm_epsilon, own.row.data());
    return own.row.data();
  };
  share_inputs(place, items, &Inputs::hidden, normed);
  Own& own = own_[static_cast<std::size_t>(place.id)];
  crew_.together(place, [&](int part) {
    const Share mine = share(config_.intermediate / kPanel, part, crew_.size());
    float* pairs = pairs_.data() + static_cast<std::size_t>(mine.from) * 2 * kPanel;
    kernels_.multiply(layer.gate_up, 2 * mine.from, 2 * mine.to, inputs(own, items, &Inputs::hidden, normed), items,
                      pairs, 2 * intermediate, false);
    for (std::size_t item = 0; item < batch.items.size(); ++item)
      kernels_.gate(pairs + item * 2 * intermediate, mine.from, mine.to,
                    gated_.data() + item * intermediate + mine.from * kPanel);
  });
  const Fill gated = [&](int item, Own&) { return gated_.data() + static_cast<std::size_t>(item) * intermediate; };
  project(place, layer.down, items, &Inputs::gated, gated, batch.stream, hidden, true);
}

// Each part keeps the best token of its panels; choose() takes the best of them.
void Decoder::head(const Batch& batch, Crew::Place& place, std::vector<float>* logits) {
  const auto hidden = static_cast<std::size_t>(config_.hidden);
  const int count = static_cast<int>(last_.size());
  const Fill normed = [&](int index, Own& own) -> const float* {
    const auto item = static_cast<std::size_t>(last_[static_cast<std::size_t>(index)]);
    kernels_.norm(batch.stream.data() + item * hidden, final_norm_.data(), config_.hidden, config_.norm_epsilon,
                  own.row.data());
    return own.row.data();
  };
  share_inputs(place, count, &Inputs::hidden, normed);
  Own& own = own_[static_cast<std::size_t>(place.id)];
  crew_.together(place, [&](int part) { search(inputs(own, count, &Inputs::hidden, normed), part, own, logits); });
}

void Decoder::search(const Activations& normed, int part, Own& own, std::vector<float>* logits) {
  const auto wanted = last_.size();
  Best& best = best_[static_cast<std::size_t>(part)];
  best.logits.assign(wanted, -std::numeric_limits<float>::infinity());
  best.tokens.assign(wanted, 0);
  constexpr std::size_t kWidth = kTile * kPanel;
  if (own.tile.size() < wanted * kWidth) own.tile.resize(wanted * kWidth);
  const Share mine = share(head_.panels, part, crew_.size());
  for (int panel = mine.from; panel < mine.to; panel += kTile) {
    const int last = std::min(panel + kTile, mine.to);
    kernels_.multiply(head_, panel, last, normed, static_cast<int>(wanted), own.tile.data(), kWidth, false);
    const int first = panel * kPanel;
    const int channels = std::min(last * kPanel, config_.vocabulary) - first;
    for (std::size_t row = 0; row < wanted; ++row) {
      const float* tile = own.tile.data() + row * kWidth;
      const int at = kernels_.best(tile, channels);
      if (tile[at] > best.logits[row]) best.logits[row] = tile[at], best.tokens[row] = static_cast<Token>(first + at);
      if (logits != nullptr) std::copy(tile, tile + channels, logits->data() + row * config_.vocabulary + first);
    }
  }
}

void Decoder::choose(Batch& batch) {
  batch.next.assign(last_.size(), 0);
  for (std::size_t row = 0; row < last_.size(); ++row) {
    const Best* best = best_.data();
    for (const Best& part : best_) {  // in the order of tokens, so that the first of equals stays
      if (part.logits[row] > best->logits[row]) best = &part;
    }
    batch.next[row] = best->tokens[row];
  }
}

}  // namespace windlass
