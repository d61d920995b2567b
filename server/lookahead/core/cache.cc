#include "cache.h"

#include <stdexcept>

namespace windlass {

namespace {
constexpr std::size_t kPublishedAStep = 4;  // tokens of ended requests that one accept moves into the shared cache
constexpr float kItersUntilKnown = 4000.0F;
constexpr float kFirstShare = 0.55F;
constexpr std::size_t kRowsForThreads = 8;  // fewer rows are done before a thread wakes up
}  // namespace

Cache::Cache(const Options& options)
    : options_(options),
      mixer_(options.start_freq / 10.0F),
      shared_(options.cache_size, CellRules{options.cell_max_size, options.threshold, options.decay}),
      history_(std::max<std::uint64_t>(options.cache_size / 2, 4 * kBlock)),
      uses_(options.voc_size, 0) {}

void Cache::begin(const std::string& id, const std::vector<Token>& prompt) {
  check(prompt);
  const std::lock_guard lock(mutex_);
  learn();
  publish(std::numeric_limits<std::size_t>::max());
  auto request = std::make_unique<Request>(options_, options_.ignore_prompt ? 0 : prompt.size());
  if (!options_.ignore_prompt) {
    for (const Token token : prompt) request->append(token);
  }
  requests_[id] = std::move(request);
}

std::vector<Draft> Cache::propose(const std::vector<std::string>& ids, const std::vector<int>& most, float min_gain) {
  const std::lock_guard lock(mutex_);
  std::vector<Request*> rows;
  rows.reserve(ids.size());
  ++batch_;
  for (const std::string& id : ids) rows.push_back(&once(id));
  const float gain = min_gain < 0 ? eager_gain() : min_gain;
  const auto work = [&](std::size_t row) {
    rows[row]->proposed = true;
    Drafter(options_, sources(*rows[row]), mixer_, calibration_, gain).draft(*rows[row], most[row]);
  };
  each(rows.size(), drafting_us_, work);
  std::vector<Draft> drafts;
  drafts.reserve(rows.size());
  for (const Request* row : rows) drafts.push_back(row->draft);
  trim(drafts);
  for (std::size_t row = 0; row < rows.size(); ++row) rows[row]->draft = drafts[row];
  return drafts;
}

void Cache::each(std::size_t rows, double& row_us, const std::function<void(std::size_t)>& work) {
  if (is_hurried_ && options_.num_threads > 1 && rows >= kRowsForThreads) {
    if (threads_ == nullptr) threads_ = std::make_unique<Threads>(options_.num_threads);
    threads_->each(rows, row_us, work);
  } else {
    for (std::size_t row = 0; row < rows; ++row) work(row);
  }
}

// The bar for a drafted token. What was never tried teaches nothing, so the first iterations ask for less.
float Cache::eager_gain() const {
  const float known = std::min(1.0F, static_cast<float>(totals_.num_iters) / kItersUntilKnown);
  return options_.min_gain * (kFirstShare + (1.0F - kFirstShare) * known);
}

// Keeps the likeliest drafted tokens of the batch when all rows together exceed target_parallelism.
void Cache::trim(std::vector<Draft>& drafts) const {
  std::size_t total = drafts.size();
  for (const Draft& draft : drafts) total += draft.tokens.size();
  const auto target = static_cast<std::size_t>(options_.target_parallelism);
  if (total <= target) return;
  std::vector<float> all;
  for (const Draft& draft : drafts) all.insert(all.end(), draft.probabilities.begin(), draft.probabilities.end());
  std::size_t room = target > drafts.size() ? target - drafts.size() : 0;
  std::stable_sort(all.begin(), all.end(), std::greater<>());
  const float floor = room == 0 ? 2.0F : all[room - 1];
  for (Draft& draft : drafts) {
    std::size_t keep = 0;
    while (keep < draft.tokens.size() && room > 0 && draft.probabilities[keep] >= floor) ++keep, --room;
    draft.tokens.resize(keep);
    draft.probabilities.resize(keep);
  }
}

void Cache::accept(const std::vector<std::string>& ids, const std::vector<std::vector<Token>>& tokens,
                   const std::vector<int>& verified) {
  append(ids, tokens, verified);
  settle();
}

void Cache::append(const std::vector<std::string>& ids, const std::vector<std::vector<Token>>& tokens,
                   const std::vector<int>& verified) {
  for (const std::vector<Token>& row : tokens) check(row);
  const std::lock_guard lock(mutex_);
  learn();
  ++batch_;
  for (const std::string& id : ids) unsettled_.push_back(&once(id));
  for (std::size_t row = 0; row < ids.size(); ++row) {
    Request& request = *unsettled_[row];
    if (!verified.empty()) keep(request.draft, static_cast<std::size_t>(std::max(0, verified[row])));
    if (!tokens[row].empty()) count(request, tokens[row]);
  }
  each(ids.size(), reading_us_, [&](std::size_t row) { read(*unsettled_[row], tokens[row]); });
}

void Cache::settle() {
  const std::lock_guard lock(mutex_);
  learn();
}

void Cache::withhold(const std::vector<std::string>& ids) {
  const std::lock_guard lock(mutex_);
  for (const std::string& id : ids) keep(find(id).draft, 0);
}

void Cache::keep(Draft& draft, std::size_t tokens) {
  draft.tokens.resize(std::min(tokens, draft.tokens.size()));
  draft.probabilities.resize(draft.tokens.size());
}

void Cache::finish(const std::string& id) {
  const std::lock_guard lock(mutex_);
  learn();
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  queue(std::move(found->second->text));
  requests_.erase(found);
  ++ended_;
}

void Cache::teach(const std::vector<Token>& prompt, const std::vector<Token>& output) {
  check(prompt);
  check(output);
  const std::lock_guard lock(mutex_);
  learn();
  std::vector<Token> text;
  if (!options_.ignore_prompt) text = prompt;
  text.insert(text.end(), output.begin(), output.end());
  queue(std::move(text));
  publish(std::numeric_limits<std::size_t>::max());
}

Sources Cache::sources(const Request& request) const {
  return {&request.contexts(),
          options_.global_cache_switch ? &shared_ : nullptr,
          &history_,
          &uses_,
          options_.turbo_match_length,
          options_.top_k_in_cell};
}

void Cache::check(const std::vector<Token>& tokens) const {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < options_.voc_size) continue;
    throw std::invalid_argument("token id " + std::to_string(tokens[i]) + " at index " + std::to_string(i) +
                                " is outside the vocabulary of " + std::to_string(options_.voc_size) +
                                " tokens; set voc_size to the model's vocabulary.");
  }
}

Request& Cache::find(const std::string& id) const {
  const auto found = requests_.find(id);
  if (found == requests_.end()) throw std::out_of_range("request " + id + " is not active; begin it first.");
  return *found->second;
}

// An active request that this batch has not named yet: two threads must never draft one request.
Request& Cache::once(const std::string& id) {
  Request& request = find(id);
  if (request.batch == batch_) throw std::invalid_argument("request " + id + " stands twice in one batch.");
  request.batch = batch_;
  return request;
}

// Touches nothing but the request, so that rows can be read side by side.
void Cache::read(Request& request, const std::vector<Token>& tokens) const {
  for (const Token token : tokens) {
    Predictor predictor(sources(request));  // anew: the request's index moves when it grows
    Lesson& lesson = request.lessons.emplace_back();
    lesson.token = token;
    if (request.next_known) {
      lesson.view = request.next;
    } else {
      predictor.look(request.text, request.track, lesson.view);
    }
    request.next_known = false;
    predictor.advance(request.text, request.track, token);
    request.append(token);
  }
}

void Cache::learn() {
  for (Request* request : unsettled_) {
    for (const Lesson& lesson : request->lessons) {
      for (int i = 0; i < lesson.view.size; ++i) {
        const Candidate& candidate = lesson.view.candidates[static_cast<std::size_t>(i)];
        mixer_.learn(candidate.evidence, lesson.view.set, candidate.token == lesson.token);
      }
    }
    if (!request->lessons.empty()) publish(kPublishedAStep);
    request->lessons.clear();
  }
  unsettled_.clear();
}

void Cache::count(Request& request, const std::vector<Token>& tokens) {
  if (!request.proposed) return;
  request.proposed = false;
  const std::vector<Token>& draft = request.draft.tokens;
  std::size_t hit = 0;
  while (hit < draft.size() && hit < tokens.size() && draft[hit] == tokens[hit]) ++hit;
  calibration_.learn(request.draft.probabilities, hit);
  for (Counts* counts : {&request.counts, &totals_}) {
    counts->num_iters += 1;
    counts->hit_iters += hit > 0 ? 1 : 0;
    counts->hit_len += hit;
    counts->lookahead_len += draft.size();
  }
  request.draft.tokens.clear();
  request.draft.probabilities.clear();
}

void Cache::queue(std::vector<Token> text) {
  if (options_.global_cache_switch && !text.empty()) pending_.push_back({std::move(text), 0, kNowhere});
}

void Cache::publish(std::size_t tokens) {
  while (tokens > 0 && !pending_.empty()) {
    Pending& text = pending_.front();
    for (; tokens > 0 && text.at < text.text.size(); --tokens, ++text.at) {
      const Token token = text.text[text.at];
      text.last = history_.append(text.last, token);
      uses_[token] += uses_[token] < kNowhere ? 1 : 0;
      std::uint64_t hash = 0;
      for (int order = 1; order <= options_.turbo_match_length && static_cast<std::size_t>(order) <= text.at; ++order) {
        hash = extend_hash(hash, text.text[text.at - static_cast<std::size_t>(order)]);
        shared_.add(hash, token, text.last);
      }
    }
    if (text.at == text.text.size()) pending_.pop_front();
  }
}

bool Cache::knows(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  return requests_.count(id) != 0;
}

Counts Cache::counts(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  return find(id).counts;
}

Counts Cache::totals() const {
  const std::lock_guard lock(mutex_);
  return totals_;
}

std::uint64_t Cache::requests_seen() const {
  const std::lock_guard lock(mutex_);
  return ended_ + requests_.size();
}

std::uint64_t Cache::active() const {
  const std::lock_guard lock(mutex_);
  return requests_.size();
}

std::uint64_t Cache::entries() const {
  const std::lock_guard lock(mutex_);
  return shared_.used();
}

std::uint64_t Cache::bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t bytes = sizeof(*this) + shared_.bytes() + history_.bytes() + uses_.capacity() * sizeof(std::uint32_t);
  for (const auto& [id, request] : requests_) bytes += sizeof(Request) + request->bytes();
  for (const Pending& text : pending_) bytes += text.text.capacity() * sizeof(Token);
  return bytes;
}

}  // namespace windlass
