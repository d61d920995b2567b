#include "round_trip.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <optional>

#include "pause.h"

namespace windlass {

namespace {
using Clock = RoundTrip::Clock;
// Microseconds that a drafted row costs the batch: 3 to 10 of ours. What verifying costs, Foresight weighs.
constexpr double kRowUs = 10;
constexpr double kWaitUs = 20;   // what waiting for drafts costs a step, whatever the rows
// Drafts planned in a full step for each token that they are expected to save, and what does not count: each takes a place from
// the prompts that wait, which is as long as a fifth of what a token takes a batch of 64.
constexpr float kPlannedFor = 2;
constexpr float kTooLittle = 0.4F;
constexpr int kHopeless = 3;     // steps without hope until none are planned: the first with hope comes two too late then
constexpr float kFade = 0.9F;    // of an expectation, each step without a better one: a match may come back
constexpr double kSlow = 0.05;   // weight of the newest figure in a running mean
constexpr double kLongUs = 50'000;   // no longer step is counted
constexpr double kIdleUs = 200'000;  // between two rings there was no work, or prompts were read
constexpr auto kSpin = std::chrono::milliseconds(20);
constexpr auto kNap = std::chrono::microseconds(50);
constexpr auto kWatchEvery = std::chrono::milliseconds(20);

std::uint32_t crc32(const std::string& text) {
  std::uint32_t sum = ~0U;
  for (const char letter : text) {
    sum ^= static_cast<unsigned char>(letter);
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ (0xEDB88320U & (0U - (sum & 1U)));
  }
  return ~sum;
}
double us_since(Clock::time_point then) {
  return std::chrono::duration<double, std::micro>(Clock::now() - then).count();
}
std::uint32_t load(const std::uint32_t* where) { return __atomic_load_n(where, __ATOMIC_ACQUIRE); }
bool reached(std::uint32_t at, std::uint32_t number) { return static_cast<std::int32_t>(at - number) >= 0; }
}  // namespace

RoundTrip::RoundTrip(Cache& cache, const Shared& shared, int patience_ms)
    : cache_(cache), shared_(shared), patience_ms_(patience_ms), foresight_(shared.most) {
  server_ = std::thread([this] { serve(); });
  watchdog_ = std::thread([this] { watch(); });
}

RoundTrip::~RoundTrip() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  server_.join();
  watchdog_.join();
}

void RoundTrip::submit(Step step) {
  {
    const std::lock_guard lock(mutex_);
    steps_.push_back(std::move(step));
    announced_ = steps_.size();
  }
  wake_.notify_all();
}

TripCounts RoundTrip::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

int RoundTrip::choose(const std::vector<std::string>& ids, const std::vector<int>& planned, const std::vector<double>& costs,
                      int emitting, bool decoding) {
  if (!reached(load(shared_.answered), load(shared_.rung) - 1)) return 0;  // its drafts would come too late
  return foresight_.choose(ids, planned, costs, emitting, decoding);
}

void RoundTrip::serve() {
  for (;;) {
    linger();
    Step step;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !steps_.empty(); });
      if (stopping_) return;
      step = std::move(steps_.front());
      steps_.pop_front();
      announced_ = steps_.size();
    }
    change(step);
    if (step.rows.empty()) continue;
    if (!await(step.number)) return;
    answer(step);
  }
}

// Spins between two steps, too: a thread that sleeps is woken on whatever processor, and waits where another one runs.
void RoundTrip::linger() const {
  const auto until = Clock::now() + kSpin;
  while (announced_ == 0 && !stopping_ && Clock::now() < until) pause();
}

// Spins, since the device rings within a step; a long one, as of a prompt, is napped through. False: told to stop.
bool RoundTrip::await(std::uint32_t number) {
  const auto since = Clock::now();
  was_late_ = is_late_;
  is_late_ = reached(load(shared_.rung), number);
  awaited_ = number;
  while (!reached(load(shared_.rung), number)) {
    if (stopping_) return false;
    if (Clock::now() - since > kSpin) {
      std::this_thread::sleep_for(kNap);
    } else {
      pause();
    }
  }
  // From ring to ring, not from the announcement: a host that is slower than the device announces just before the ring.
  period_us_ = us_since(rang_);
  rang_ = Clock::now();
  if (period_us_ < kIdleUs) step_us_ += kSlow * (std::min(period_us_, kLongUs) - step_us_);
  return true;
}

// Requests that came and went; done while the device still computes.
void RoundTrip::change(Step& step) {
  for (const std::string& id : step.finished) {
    cache_.finish(id);
    known_.erase(id);
    foresight_.forget(id);
  }
  for (auto& [id, prompt] : step.begun) {
    try {
      cache_.begin(id, prompt);
      const float expected = foresight_.of_new();
      known_[id] = {static_cast<std::uint32_t>(prompt.size()), expected, place_of(id)};
      promise(known_[id].promise, expected);
    } catch (const std::exception&) {
      lose(id);
    }
  }
}

void RoundTrip::answer(const Step& step) {
  const auto rung = Clock::now();
  Batch soon;
  Batch later;
  std::vector<Draft> drafts;
  if (step.wanted) clear(step);
  try {
    sort(step, soon, later);
    drafts = follow(soon);
    write(soon, drafts);
  } catch (const std::exception&) {
    for (const std::string& id : soon.ids) lose(id);
  }
  if (!reached(load(shared_.answered), step.number)) __atomic_store_n(shared_.answered, step.number, __ATOMIC_RELEASE);
  const double waited_us = us_since(rung);
  time(step);
  try {
    cache_.settle();
    note(soon, drafts);
    note(later, follow(later));
    cache_.withhold(later.ids);
    cache_.settle();
    hope(step);
  } catch (const std::exception&) {
    for (const std::string& id : later.ids) lose(id);
  }
  const std::lock_guard lock(mutex_);
  counts_.steps += 1;
  counts_.in_time += soon.ids.size();
  counts_.later += later.ids.size();
  counts_.missed += missed_;
  counts_.wait_us += waited_us;
  counts_.step_us = step_us_;
}

// The step before counts, too: after a prompt the host is ahead, and its own time is hidden.
void RoundTrip::time(const Step& step) {
  const bool is_timed = !is_late_ && !was_late_ && period_us_ < kLongUs;
  if (is_decoding_ && was_decoding_ && is_timed) foresight_.took(step.rows.size(), was_wanted_, verified_, period_us_);
  was_decoding_ = is_decoding_;
  was_wanted_ = step.wanted;
}

// The last look at what the device told of the step: once it is answered, its room may be taken.
void RoundTrip::sort(const Step& step, Batch& soon, Batch& later) {
  rows_ = static_cast<double>(step.rows.size());
  verified_ = 0;
  missed_ = 0;
  is_decoding_ = step.begun.empty();
  for (int row = 0; row < static_cast<int>(step.rows.size()); ++row) {
    const auto found = known_.find(step.rows[row]);
    const std::int32_t* told = this->told(step.number, row);
    const int emitted = told[1];
    const bool is_missed = told[4] != 0;  // what was verified in its place is not what we drafted
    const int verified = std::max(0, emitted - 1 + told[2]);
    missed_ += is_missed && verified > 0;
    verified_ += static_cast<std::size_t>(verified);
    is_decoding_ = is_decoding_ && emitted > 0;
    if (found == known_.end() || emitted <= 0) continue;
    std::vector<Token> tokens(static_cast<std::size_t>(std::min(emitted, shared_.span)));
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[tokens.size() - 1 - i] = static_cast<Token>(told[kTold + i]);
    const bool whole = static_cast<std::uint32_t>(told[0]) == step.number && emitted <= shared_.span &&
                       static_cast<std::uint32_t>(told[3]) == found->second.length + static_cast<std::uint32_t>(emitted);
    if (!whole) {
      lose(found->first);
      continue;
    }
    Batch& batch = step.wanted && worth(found->second.expected) ? soon : later;
    batch.ids.push_back(found->first);
    batch.tokens.push_back(std::move(tokens));
    batch.verified.push_back(is_missed ? 0 : verified);
    batch.places.push_back(row);
    found->second.length = static_cast<std::uint32_t>(told[3]);
  }
}

std::vector<Draft> RoundTrip::follow(const Batch& batch) {
  if (batch.ids.empty()) return {};
  cache_.append(batch.ids, batch.tokens, batch.verified);
  std::vector<Draft> drafts = cache_.propose(batch.ids, std::vector<int>(batch.ids.size(), shared_.most), -1.0F);
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    float expected = 0;
    for (const float probability : drafts[i].probabilities) expected += probability;
    Known& known = known_[batch.ids[i]];
    known.expected = std::max(expected, kFade * known.expected);
    promise(known.promise, known.expected);
  }
  return drafts;
}

bool RoundTrip::worth(float expected) const { return expected * step_us_ >= kWaitUs + kRowUs * rows_; }

std::uint8_t* RoundTrip::place_of(const std::string& id) const {
  return shared_.promises == nullptr ? nullptr : shared_.promises + crc32(id) % kPromises;
}

void RoundTrip::promise(std::uint8_t* place, float expected) const {
  if (place == nullptr) return;
  const int some = std::clamp(static_cast<int>(std::ceil(kPlannedFor * expected - kTooLittle)), 0, std::min(shared_.most, 254));
  const int promised = hopes_ && worth(expected) ? 1 + some : 0;
  __atomic_store_n(place, static_cast<std::uint8_t>(promised), __ATOMIC_RELAXED);
}

void RoundTrip::note(const Batch& batch, const std::vector<Draft>& drafts) {
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    const bool in_time = worth(known_[batch.ids[i]].expected);
    foresight_.note(batch.ids[i], drafts[i].probabilities, in_time);
  }
}

// For the step after the next: what it would verify is known, since all requests are followed whether drafts are planned or not.
// Where prompts are read drafts cost little beside them.
void RoundTrip::hope(const Step& step) {
  const std::optional<bool> known = is_decoding_ ? foresight_.hopes(step.rows) : std::nullopt;
  if (known) hopeless_ = *known ? 0 : hopeless_ + 1;
  const bool hopes = !known || hopeless_ < kHopeless;
  if (hopes == hopes_) return;
  hopes_ = hopes;
  for (const auto& [id, request] : known_) promise(request.promise, request.expected);
}

void RoundTrip::write(const Batch& batch, const std::vector<Draft>& drafts) {
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    std::int64_t* tokens = shared_.tokens + batch.places[i] * shared_.most;
    float* confidences = shared_.confidences + batch.places[i] * shared_.most;
    float before = 1;
    for (std::size_t at = 0; at < drafts[i].tokens.size(); ++at) {
      tokens[at] = drafts[i].tokens[at];
      confidences[at] = before > 0 ? std::min(1.0F, drafts[i].probabilities[at] / before) : 0;
      before = drafts[i].probabilities[at];
    }
  }
}

void RoundTrip::clear(const Step& step) {
  for (int row = 0; row < std::min(static_cast<int>(step.rows.size()), shared_.rows); ++row) {
    std::fill_n(shared_.tokens + row * shared_.most, shared_.most, std::max<std::int32_t>(0, told(step.number, row)[kTold]));
    std::fill_n(shared_.confidences + row * shared_.most, shared_.most, 0.0F);
  }
}

void RoundTrip::lose(const std::string& id) {
  const std::string lost = id;
  cache_.finish(lost);
  known_.erase(lost);
  foresight_.note(lost, {}, false);
  promise(place_of(lost), 0);
  const std::lock_guard lock(mutex_);
  counts_.lost += 1;
}

// A stream that nobody answers waits for ever, and the engine with it.
void RoundTrip::watch() {
  int waited_ms = 0;
  std::uint32_t last = load(shared_.answered);
  while (!stopping_) {
    std::this_thread::sleep_for(kWatchEvery);
    const std::uint32_t rung = load(shared_.rung);
    std::uint32_t answered = load(shared_.answered);
    const bool waits = !reached(answered, rung);
    waited_ms = waits && answered == last ? waited_ms + static_cast<int>(kWatchEvery.count()) : 0;
    last = answered;
    if (waited_ms < patience_ms_) continue;
    waited_ms = 0;
    std::fill_n(shared_.confidences, shared_.rows * shared_.most, 0.0F);
    // Not where the answer has come at last: it may be a later one by now.
    if (!__atomic_compare_exchange_n(shared_.answered, &answered, rung, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) continue;
    const std::lock_guard lock(mutex_);
    counts_.released += 1;
  }
}

}  // namespace windlass
