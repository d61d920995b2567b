#include "draft_model.h"

#include <algorithm>
#include <stdexcept>

namespace windlass {

namespace {

constexpr std::size_t kPiece = 96;  // tokens of a prompt that go through the layers together
constexpr double kWeight = 0.1;     // of the newest figure in a running mean
constexpr double kLongMs = 300;     // a pass beyond it is not repeated, and larger ones are not timed
constexpr double kUsInMs = 1000;

std::unique_ptr<Decoder> complete(std::unique_ptr<Decoder> decoder) {
  const std::vector<std::string> names = decoder->missing();
  if (!names.empty())
    throw std::invalid_argument("the draft model's files have no tensor \"" + names.front() + "\" (" +
                                std::to_string(names.size()) + " are missing): download the model again.");
  return decoder;
}

}  // namespace

DraftModel::DraftModel(std::unique_ptr<Decoder> decoder, int rows_max, Clock clock)
    : decoder_(complete(std::move(decoder))),
      clock_(std::move(clock)),
      rows_max_(static_cast<std::size_t>(std::max(rows_max, 1))),
      window_(static_cast<std::size_t>(decoder_->config().window)),
      time_(passes_ms()) {}

void DraftModel::begin(const std::string& key, std::span<const Token> tokens) {
  cancel(key);
  Row& row = rows_[key];
  row.text.assign(tokens.begin(), tokens.end());
  row.agreed = 0;
  agree(row);
  trim(key, row);
  queue(key, row);
}

void DraftModel::append(const std::string& key, std::span<const Token> tokens) {
  const auto found = rows_.find(key);
  if (found == rows_.end()) return;
  Row& row = found->second;
  row.text.insert(row.text.end(), tokens.begin(), tokens.end());
  agree(row);
  trim(key, row);
  queue(key, row);
}

void DraftModel::finish(const std::string& key) {
  cancel(key);
  const auto found = rows_.find(key);
  if (found == rows_.end()) return;
  if (found->second.kv) spare_.push_back(std::move(found->second.kv));
  rows_.erase(found);
}

// Finds out how far the cache holds the text, and drops what it holds of another one.
void DraftModel::agree(Row& row) {
  const std::size_t both = std::min(row.fed.size(), row.text.size());
  while (row.agreed < both && row.fed[row.agreed] == row.text[row.agreed]) ++row.agreed;
  if (row.agreed < both) row.fed.resize(row.agreed);
}

// A text that outgrows the window goes on with its second half, which is read anew: positions stay below the window,
// as far as a small model was trained.
void DraftModel::trim(const std::string& key, Row& row) {
  if (row.text.size() + kChain <= window_) return;
  cancel(key);
  row.text.erase(row.text.begin(), row.text.end() - static_cast<std::ptrdiff_t>(window_ / 2));
  row.fed.clear();
  row.agreed = 0;
}

void DraftModel::queue(const std::string& key, Row& row) {
  if (row.is_queued || pending(row) <= kNewest) return;
  row.is_queued = true;
  queue_.push_back(key);
}

bool DraftModel::acquire(Row& row) {
  if (row.kv) return true;
  if (!spare_.empty()) {
    row.kv = std::move(spare_.back());
    spare_.pop_back();
  } else if (caches_ < rows_max_) {
    row.kv = std::make_unique<KeyValues>(decoder_->config());
    ++caches_;
  }
  return row.kv != nullptr;
}

void DraftModel::cancel(const std::string& key) {
  if (piece_.items.empty() || piece_key_ != key) return;
  piece_.items.clear();
  const auto found = rows_.find(key);
  if (found != rows_.end()) found->second.is_queued = false;
}

bool DraftModel::is_ready(const Row& row) const {
  return !row.text.empty() && pending(row) <= kNewest && (row.kv || !spare_.empty() || caches_ < rows_max_);
}

bool DraftModel::ready(const std::string& key) const {
  const auto found = rows_.find(key);
  return found != rows_.end() && is_ready(found->second);
}

std::size_t DraftModel::waiting() const {
  std::size_t tokens = 0;
  for (const auto& [key, row] : rows_) {
    if (pending(row) > kNewest) tokens += pending(row);
  }
  return tokens;
}

std::size_t DraftModel::bytes(bool is_full) const {
  return decoder_->bytes() + (is_full ? rows_max_ : caches_) * KeyValues::bytes(decoder_->config());
}

// The next part of the oldest prompt that waits; its key stays at the head of the queue.
bool DraftModel::take_piece() {
  for (; !queue_.empty(); queue_.pop_front()) {
    const auto found = rows_.find(queue_.front());
    if (found == rows_.end()) continue;
    Row& row = found->second;
    if (pending(row) <= kNewest || !acquire(row)) {
      row.is_queued = false;
      continue;
    }
    row.fed.resize(row.agreed);
    const std::size_t count = std::min(kPiece, pending(row) - 1);  // the last token is left for draft()
    for (std::size_t at = row.agreed; at < row.agreed + count; ++at)
      piece_.items.push_back({row.kv.get(), static_cast<int>(at), row.text[at], false});
    piece_key_ = queue_.front();
    piece_us_ = 0;
    decoder_->enter(piece_);
    return true;
  }
  return false;
}

void DraftModel::end_piece() {
  Row& row = rows_.at(piece_key_);
  for (const Batch::Item& item : piece_.items) row.fed.push_back(item.token);
  row.agreed = row.fed.size();
  const double each_us = piece_us_ / static_cast<double>(piece_.items.size());
  if (piece_.items.size() == kPiece) prompt_token_us_ += kWeight * (each_us - prompt_token_us_);
  piece_.items.clear();
}

bool DraftModel::work(double budget_us) {
  const Clock::Point begun = clock_.now();
  for (double layer_us = 0;;) {
    if (piece_.items.empty() && !take_piece()) return false;
    const double spent_us = clock_.us_since(begun);
    if (layer_us > 0 && spent_us + layer_us > budget_us) return true;
    decoder_->layers(piece_, piece_.next_layer + 1);
    layer_us = clock_.us_since(begun) - spent_us;
    piece_us_ += layer_us;
    if (piece_.next_layer == decoder_->config().layers) end_piece();
  }
}

// Feeds the tokens of each row that are not in its cache, at least its last one.
void DraftModel::enter_newest(std::span<Row* const> rows) {
  batch_.items.clear();
  for (Row* row : rows) {
    row->agreed = std::min(row->agreed, row->text.size() - 1);
    row->fed.resize(row->agreed);
    for (std::size_t at = row->agreed; at < row->text.size(); ++at) {
      batch_.items.push_back({row->kv.get(), static_cast<int>(at), row->text[at], at + 1 == row->text.size()});
      row->fed.push_back(row->text[at]);
    }
    row->agreed = row->text.size();
  }
}

// Tokens that its first pass read: all that came since the last draft.
std::size_t DraftModel::chain(std::span<Row* const> rows, int k, std::span<std::vector<Token>* const> chains) {
  enter_newest(rows);
  const std::size_t read = batch_.items.size();
  for (int step = 0; step < k; ++step) {
    if (step > 0) {
      batch_.items.clear();
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const Token token = chains[i]->back();
        batch_.items.push_back({rows[i]->kv.get(), static_cast<int>(rows[i]->fed.size()), token, true});
        rows[i]->fed.push_back(token);
      }
    }
    decoder_->pass(batch_);
    for (std::size_t i = 0; i < rows.size(); ++i) chains[i]->push_back(batch_.next[i]);
  }
  return read;
}

void DraftModel::draft(std::span<const std::string> keys, int k, bool is_trial,
                       std::vector<std::vector<Token>>& chains) {
  chains.assign(keys.size(), {});
  const int most = std::min(k, static_cast<int>(kChain));
  std::vector<Row*> rows;
  std::vector<std::vector<Token>*> taken;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto found = rows_.find(keys[i]);
    if (found == rows_.end() || !is_ready(found->second) || !acquire(found->second)) continue;
    cancel(keys[i]);
    rows.push_back(&found->second);
    taken.push_back(&chains[i]);
  }
  if (rows.empty() || most < 1) return;
  const Clock::Point begun = clock_.now();
  const std::size_t read = chain(rows, most, taken);
  const double took_ms = clock_.us_since(begun) / kUsInMs;
  if (is_trial) {
    time_.tried(read, most, took_ms);
  } else {
    time_.took(static_cast<int>(rows.size()), read, most, took_ms);
  }
}

std::vector<float> DraftModel::logits(const std::string& key) {
  std::vector<float> numbers;
  const auto found = rows_.find(key);
  if (found == rows_.end() || !is_ready(found->second) || !acquire(found->second)) return numbers;
  const std::array<Row*, 1> rows = {&found->second};
  enter_newest(rows);
  decoder_->pass(batch_, &numbers);
  return numbers;
}

// Times passes over made-up tokens: positions of one row cost what as many rows do.
std::array<double, DraftTime::kKnots.size()> DraftModel::passes_ms() {
  constexpr std::array<int, DraftTime::kKnots.size()> knots = DraftTime::kKnots;
  std::array<double, knots.size()> knots_ms{};
  KeyValues kv(decoder_->config());
  for (std::size_t knot = 0; knot < knots.size(); ++knot) {
    const std::size_t before = knot == 0 ? 0 : knot - 1;
    if (knot > 0 && knots_ms[before] > kLongMs) {
      knots_ms[knot] = knots_ms[before] * knots[knot] / knots[before];
      continue;
    }
    batch_.items.clear();
    for (int at = 0; at < knots[knot]; ++at) batch_.items.push_back({&kv, at, static_cast<Token>(at), true});
    for (int times = 0; times < 3; ++times) {
      const Clock::Point begun = clock_.now();
      decoder_->pass(batch_);
      const double took_ms = clock_.us_since(begun) / kUsInMs;
      knots_ms[knot] = times == 0 ? took_ms : std::min(knots_ms[knot], took_ms);
      if (took_ms > kLongMs) break;
    }
  }
  prompt_token_us_ = knots_ms.back() * kUsInMs / knots.back();
  batch_.items.clear();
  return knots_ms;
}

}  // namespace windlass
