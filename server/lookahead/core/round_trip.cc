#include "round_trip.h"

#include <algorithm>
#include <chrono>
#include <exception>

#include "pause.h"

namespace windlass {

namespace {
constexpr auto kSpin = std::chrono::milliseconds(20);  // spinning before a nap: some times a decode step; guess
constexpr auto kNap = std::chrono::microseconds(50);   // between two looks at what nobody waits for; guess
constexpr auto kShortNap = 4 * kNap;                   // a nap with its waking, unless another thread ran instead
constexpr int kHostMost = 16;       // drafts of a row that a model on the host makes: longer chains hardly survive
constexpr double kStepShare = 0.2;  // of the time between two doorbells that counts as the step's at least; guess
constexpr auto kWatchEvery = std::chrono::milliseconds(20);  // between two looks of the watchdog; guess

std::uint32_t crc32(const std::string& text) {
  std::uint32_t sum = ~0U;
  for (const char letter : text) {
    sum ^= static_cast<unsigned char>(letter);
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ (0xEDB88320U & (0U - (sum & 1U)));
  }
  return ~sum;
}
std::uint32_t load(const std::uint32_t* where) { return __atomic_load_n(where, __ATOMIC_ACQUIRE); }
void look_away(const Clock& clock, bool naps) {
  if (naps) {
    clock.sleep(kNap);
  } else {
    pause();
  }
}
}  // namespace

RoundTrip::RoundTrip(Cache& cache, const Shared& shared, int patience_ms, const PolicyConfig& policy, Clock clock)
    : cache_(cache),
      shared_(shared),
      patience_ms_(patience_ms),
      config_(policy),
      clock_(std::move(clock)),
      policy_(shared.most, policy) {
  cache_.hurry(true);
}

void RoundTrip::start() {
  server_ = std::thread([this] {
    while (serve_next()) {}
  });
  watchdog_ = std::thread([this] { watch(); });
}

RoundTrip::~RoundTrip() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (server_.joinable()) server_.join();
  if (watchdog_.joinable()) watchdog_.join();
  cache_.hurry(true);
}

void RoundTrip::submit(Step step) {
  if (!step.rows.empty()) submitted_ = step.number;
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

int RoundTrip::choose(const std::vector<std::string>& ids, const std::vector<int>& planned,
                      const std::vector<double>& costs_ms, int emitting, bool is_decoding) {
  const int steps_behind = static_cast<std::int32_t>(load(shared_.doorbell) - load(shared_.completed));
  const std::lock_guard lock(policy_mutex_);
  const int drafts = policy_.drafts_to_verify({ids, planned, costs_ms, emitting, is_decoding, steps_behind});
  has_chosen_ = true;
  const double host_wait_us = policy_.awaits_host() ? policy_.host_wait_us() : 0;
  choices_[submitted_ % kChoices] = {submitted_, true, host_wait_us};
  host_wait_us_ = static_cast<int>(host_wait_us);
  return drafts;
}

void RoundTrip::add_model() {
  const std::lock_guard lock(policy_mutex_);
  policy_.add_model();
  publish_model();
}

void RoundTrip::add_host_model(std::shared_ptr<HostDrafter> drafter, int most, Token vocabulary) {
  const std::lock_guard lock(policy_mutex_);
  most = std::clamp(most, 0, std::min(shared_.most, kHostMost));
  host_ = std::make_unique<HostDrafting>(std::move(drafter), most, vocabulary, config_, clock_);
  policy_.add_host_model(static_cast<std::size_t>(most));
}

int RoundTrip::model_drafts(const std::vector<std::string>& ids, double model_ms, bool is_wanted) {
  const std::lock_guard lock(policy_mutex_);
  const int drafts = policy_.model_drafts(ids, model_ms, is_wanted);
  publish_model();  // its acceptance is a guess again where it wakes to be tried
  return drafts;
}

void RoundTrip::model_took(std::size_t rows, int made, double ms, double model_ms) {
  const std::lock_guard lock(policy_mutex_);
  policy_.model_took(rows, made, ms, model_ms);
}

std::vector<int> RoundTrip::unread(const std::vector<std::string>& ids) {
  const std::lock_guard lock(policy_mutex_);
  return policy_.unread(ids);
}

bool RoundTrip::serve_next() {
  const bool has_lingered = linger();
  Step step;
  {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return stopping_ || !steps_.empty(); });
    if (stopping_) return false;
    step = std::move(steps_.front());
    steps_.pop_front();
    announced_ = steps_.size();
  }
  change(step);
  if (step.rows.empty()) return true;
  if (!await(step, has_lingered)) return false;
  answer(step);
  return true;
}

// Spins between two steps, too: a sleeping thread is woken on any processor, and waits where another thread runs. Naps
// while no drafts are planned. Whether the next step was announced during the last look away, and that was short.
bool RoundTrip::linger() const {
  const Clock::Point until = clock_.now() + kSpin;
  Clock::Point looked = Clock::Point::min();
  while (announced_ == 0) {
    looked = clock_.now();
    if (stopping_ || looked >= until) return false;
    look_away(clock_, is_resting_);
  }
  return looked != Clock::Point::min() && clock_.now() - looked < kShortNap;
}

// Spins, since the doorbell rings within a step; naps where nobody waits for the answer, and through a long step, as of
// a prompt. False: the thread is to end.
bool RoundTrip::await(const Step& step, bool has_lingered) {
  const Clock::Point since = clock_.now();
  const bool naps = is_resting_ && !step.wanted;
  // One that rang during a nap was not late: it is timed to within the nap.
  const bool is_late = reached(load(shared_.doorbell), step.number) && !(naps && has_lingered);
  awaited_ = step.number;
  while (!reached(load(shared_.doorbell), step.number)) {
    if (stopping_) return false;
    const bool reads = host_ && read_on_host();
    look_away(clock_, (naps || clock_.now() - since > kSpin) && !reads);
  }
  // From doorbell to doorbell, not from the announcement: a host that is slower than the device announces just before
  // it.
  const double period_us = clock_.us_since(doorbell_at_);
  doorbell_at_ = clock_.now();
  // A step is as long as it would be without the model on the host, whose time is counted by itself.
  policy_.doorbell(std::max(period_us - host_us_, kStepShare * period_us), is_late, step.rows.size());
  return true;
}

// Requests that came and ended; done while the device still computes.
void RoundTrip::change(Step& step) {
  for (const std::string& id : step.finished) {
    cache_.finish(id);
    requests_.erase(id);
    publish(place_of(id), kUnknownBudget);
    if (host_) host_->finish(id);
    const std::lock_guard lock(policy_mutex_);
    policy_.finish(id);
  }
  if (!step.begun.empty()) {
    is_resting_ = false;
    cache_.hurry(true);
  }
  for (auto& [id, prompt] : step.begun) {
    try {
      cache_.begin(id, prompt);
      const float expected = policy_.new_request_tokens();
      const Request& request = requests_[id] = {static_cast<std::uint32_t>(prompt.size()), expected, 0, place_of(id)};
      if (host_) host_->begin(id, prompt);
      publish(request.budget, policy_.draft_budget(expected));
    } catch (const std::exception&) {
      lose(id);
    }
  }
}

void RoundTrip::answer(const Step& step) {
  const Clock::Point doorbell_at = clock_.now();
  Batch soon;
  Batch later;
  std::vector<Draft> drafts;
  host_us_ = 0;
  is_hosted_ = false;
  if (step.wanted) clear(step);
  try {
    sort(step, soon, later);
    drafts = follow(soon);
    write(soon, drafts);
    if (host_) host_us_ = draft_on_host(step, soon, later, drafts);
  } catch (const std::exception&) {
    for (const std::string& id : soon.ids) lose(id);
    drafts.clear();
  }
  if (!reached(load(shared_.completed), step.number))
    __atomic_store_n(shared_.completed, step.number, __ATOMIC_RELEASE);
  completed_at_ = clock_.now();
  const double waited_us = clock_.us_since(doorbell_at);
  learn(step);
  try {
    cache_.settle();
    note(soon, drafts);
    note(later, follow(later));
    cache_.withhold(later.ids);
    cache_.settle();
    if (host_) plan_host(step);
    plan(step);
  } catch (const std::exception&) {
    for (const std::string& id : later.ids) lose(id);
  }
  rest(step);
  count(step, soon, later, waited_us);
}

void RoundTrip::learn(const Step& step) {
  const std::lock_guard lock(policy_mutex_);
  policy_.completed({step.rows.size(), is_decoding_, step.wanted, verified_, step.modelled});
  for (const auto& [row, verified, accepted] : judged_) {
    if (policy_.has_read(step.rows[row])) policy_.model_judged(verified, accepted);
  }
  if (!judged_.empty()) publish_model();
}

// Whether the scheduler plans no drafts in the steps that it plans from here on. One thread does all rows of such a
// step, unless it falls behind.
void RoundTrip::rest(const Step& step) {
  is_resting_ = shared_.budgets != nullptr && std::none_of(requests_.begin(), requests_.end(), [](const auto& request) {
                  const std::uint8_t* budget = request.second.budget;
                  return budget != nullptr && __atomic_load_n(budget, __ATOMIC_RELAXED) > 0;
                });
  cache_.hurry(!is_resting_ || reached(load(shared_.doorbell), step.number + 1));
}

void RoundTrip::count(const Step& step, const Batch& soon, const Batch& later, double waited_us) {
  const std::lock_guard lock(mutex_);
  counts_.steps += 1;
  counts_.in_time += soon.ids.size();
  counts_.later += later.ids.size();
  counts_.missed += missed_;
  counts_.models += judged_.size();
  counts_.wait_us += waited_us;
  counts_.step_us = policy_.step_us();
  counts_.hosted += is_hosted_;
  counts_.host_us += host_us_;
  counts_.rested += step.modelled == ModelRest::kRested;
  if (host_) counts_.host = host_->counts();
}

// Reads the step's record for the last time: once the step is completed, the device may reuse the record.
void RoundTrip::sort(const Step& step, Batch& soon, Batch& later) {
  verified_ = 0;
  missed_ = 0;
  judged_.clear();
  is_decoding_ = step.begun.empty();
  for (int row = 0; row < static_cast<int>(step.rows.size()); ++row) {
    const auto found = requests_.find(step.rows[row]);
    const std::int32_t* record = this->record(step.number, row);
    const int emitted = record[1];
    auto source = static_cast<Source>(record[4]);
    const int hosted = found == requests_.end() ? 0 : found->second.hosted;
    if (source == Source::kCache && hosted > 0) source = Source::kModel;  // the device takes the host's answer as one
    const int modelled = host_ ? hosted : step.modelled;
    const int verified = std::max(0, emitted - 1 + record[2]);
    missed_ += source == Source::kLate && verified > 0;
    if (source == Source::kModel && verified > 0 && modelled > 0)
      judged_.push_back({row, static_cast<std::size_t>(std::min(verified, modelled)),
                         static_cast<std::size_t>(std::clamp(emitted - 1, 0, modelled))});
    verified_ += static_cast<std::size_t>(verified);
    is_decoding_ = is_decoding_ && emitted > 0;
    if (found == requests_.end() || emitted <= 0) continue;
    std::vector<Token> tokens(static_cast<std::size_t>(std::min(emitted, shared_.span)));
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[tokens.size() - 1 - i] = static_cast<Token>(record[kRecordHeader + i]);
    }
    const bool is_whole =
        static_cast<std::uint32_t>(record[0]) == step.number && emitted <= shared_.span &&
        static_cast<std::uint32_t>(record[3]) == found->second.length + static_cast<std::uint32_t>(emitted);
    if (!is_whole) {
      lose(found->first);
      continue;
    }
    Batch& batch = step.wanted && policy_.is_awaited(found->second.expected) ? soon : later;
    batch.ids.push_back(found->first);
    batch.tokens.push_back(std::move(tokens));
    batch.verified.push_back(source == Source::kCache ? verified : 0);
    batch.places.push_back(row);
    found->second.length = static_cast<std::uint32_t>(record[3]);
  }
}

std::vector<Draft> RoundTrip::follow(const Batch& batch) {
  if (batch.ids.empty()) return {};
  cache_.append(batch.ids, batch.tokens, batch.verified);
  std::vector<Draft> drafts = cache_.propose(batch.ids, std::vector<int>(batch.ids.size(), shared_.most), -1.0F);
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    Request& request = requests_[batch.ids[i]];
    request.expected = policy_.expected_tokens(request.expected, drafts[i].probabilities);
    publish(request.budget, policy_.draft_budget(request.expected));
  }
  return drafts;
}

std::uint8_t* RoundTrip::place_of(const std::string& id) const {
  return shared_.budgets == nullptr ? nullptr : shared_.budgets + crc32(id) % kBudgets;
}

void RoundTrip::publish(std::uint8_t* place, int budget) const {
  if (place != nullptr) __atomic_store_n(place, static_cast<std::uint8_t>(budget), __ATOMIC_RELAXED);
}

// The device may read some places of before and some of now: both are guesses.
void RoundTrip::publish_model() const {
  if (shared_.model == nullptr) return;
  const std::vector<float>& accepted = policy_.model_accepted();
  for (std::size_t at = 0; at < accepted.size(); ++at) {
    float sure = accepted[at];
    __atomic_store(shared_.model + at, &sure, __ATOMIC_RELAXED);
  }
}

void RoundTrip::note(const Batch& batch, const std::vector<Draft>& drafts) {
  const std::lock_guard lock(policy_mutex_);
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    policy_.drafted(batch.ids[i], drafts[i].probabilities, requests_[batch.ids[i]].expected);
  }
}

// All requests are followed whether their drafts are planned or not, so the policy knows what the next step would
// verify.
void RoundTrip::plan(const Step& step) {
  const std::lock_guard lock(policy_mutex_);
  if (policy_.update_planning(step.rows, is_decoding_)) publish_budgets();
  // The scheduler plans a step before the drafter has met the requests that came with the step before.
  if (shared_.budgets != nullptr)
    publish(shared_.budgets + kBudgets, policy_.draft_budget(policy_.new_request_tokens()));
}

void RoundTrip::publish_budgets() const {
  for (const auto& [id, request] : requests_) publish(request.budget, policy_.draft_budget(request.expected));
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
    const std::int32_t newest = std::max<std::int32_t>(0, record(step.number, row)[kRecordHeader]);
    std::fill_n(shared_.tokens + row * shared_.most, shared_.most, newest);
    std::fill_n(shared_.confidences + row * shared_.most, shared_.most, 0.0F);
  }
}

void RoundTrip::lose(const std::string& id) {
  const std::string lost = id;  // NOLINT(performance-unnecessary-copy-initialization): `id` may be the erased key
  cache_.finish(lost);
  requests_.erase(lost);
  if (host_) host_->finish(lost);
  {
    const std::lock_guard lock(policy_mutex_);
    policy_.abandon(lost);
  }
  publish(place_of(lost), 0);
  const std::lock_guard lock(mutex_);
  counts_.lost += 1;
}

// A stream that nobody answers waits for ever, and the engine with it.
void RoundTrip::watch() {
  int waited_ms = 0;
  std::uint32_t last = load(shared_.completed);
  while (!stopping_) {
    clock_.sleep(kWatchEvery);
    const std::uint32_t doorbell = load(shared_.doorbell);
    std::uint32_t completed = load(shared_.completed);
    const bool waits = !reached(completed, doorbell);
    waited_ms = waits && completed == last ? waited_ms + static_cast<int>(kWatchEvery.count()) : 0;
    last = completed;
    if (waited_ms < patience_ms_) continue;
    waited_ms = 0;
    std::fill_n(shared_.confidences, shared_.rows * shared_.most, 0.0F);
    // Not where the answer has come at last: it may be a later one by now.
    if (!__atomic_compare_exchange_n(shared_.completed, &completed, doorbell, false, __ATOMIC_RELEASE,
                                     __ATOMIC_RELAXED))
      continue;
    const std::lock_guard lock(mutex_);
    counts_.released += 1;
  }
}

}  // namespace windlass
