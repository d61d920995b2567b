// The part of a round trip for a draft model on the host's cores. Of the drafting thread alone.
#include <algorithm>
#include <mutex>
#include <numeric>
#include <utility>

#include "round_trip.h"

namespace windlass {

namespace {
constexpr double kReadUs = 300;  // µs of reading prompts between two looks, and before a doorbell none; guess
}  // namespace

void RoundTrip::append_on_host(const Batch& batch) {
  for (std::size_t i = 0; i < batch.ids.size(); ++i) host_->append(batch.ids[i], batch.tokens[i]);
}

// Chains for the rows whose drafts of the cache save less; the µs that the device waited for them. Nothing is drafted
// for a step that takes no drafts of the model.
double RoundTrip::draft_on_host(const Step& step, const Batch& soon, const Batch& later,
                                const std::vector<Draft>& drafts) {
  append_on_host(soon);
  append_on_host(later);
  if (!step.wanted) return 0;
  for (const std::string& id : soon.ids) requests_[id].hosted = 0;
  for (const std::string& id : later.ids) requests_[id].hosted = 0;
  const double more_us = host_patience_us(step);
  if (more_us <= 0) return 0;
  const float worth = policy_.host_tokens();
  std::vector<std::string> ids;
  std::vector<int> places;
  const auto add = [&](const Batch& batch, std::size_t i, float cached) {
    if (cached >= worth || !host_->ready(batch.ids[i])) return;
    ids.push_back(batch.ids[i]);
    places.push_back(batch.places[i]);
  };
  for (std::size_t i = 0; i < soon.ids.size(); ++i) {
    const std::vector<float>& survivals = drafts[i].probabilities;
    add(soon, i, std::accumulate(survivals.begin(), survivals.end(), 0.0F));
  }
  for (std::size_t i = 0; i < later.ids.size(); ++i) add(later, i, 0);
  if (ids.empty()) return 0;
  const double left_us = more_us + config_.device_wait_us +
                         config_.device_wait_row_us * static_cast<double>(step.rows.size()) -
                         clock_.us_since(doorbell_at_);
  const Clock::Point since = clock_.now();
  const std::vector<std::vector<Token>> chains = host_->draft(ids, host_made_);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    requests_[ids[i]].hosted = static_cast<int>(chains[i].size());
    if (!chains[i].empty()) write_chain(places[i], chains[i]);
  }
  is_hosted_ = true;
  return std::clamp(host_waited_us(step, since), 0.0, std::max(0.0, left_us));
}

// Since the wait for this step's drafts began: before that the device waits for nothing. A wait for a later step began
// after it.
double RoundTrip::host_waited_us(const Step& step, Clock::Point since) {
  const std::lock_guard lock(policy_mutex_);
  if (!reached(wait_.number, step.number) || wait_.more_us <= 0) return 0;
  return clock_.us_since(wait_.number == step.number ? std::max(since, wait_.begun_at) : since);
}

int RoundTrip::begin_wait() {
  if (host_ == nullptr) return 0;
  const std::lock_guard lock(policy_mutex_);
  wait_ = {submitted_, host_wait_us_, clock_.now()};
  return wait_.more_us;
}

// For how many µs more than for the cache's drafts the device waits for the model's after this step. Where the engine
// has not planned the next step yet, the policy's last word counts.
double RoundTrip::host_patience_us(const Step& step) {
  if (host_made_ == 0) return 0;
  const std::lock_guard lock(policy_mutex_);
  const Choice& choice = choices_[step.number % kChoices];
  const bool is_planned = choice.is_made && choice.number == step.number;
  return is_planned ? choice.host_wait_us : policy_.host_usual_wait_us();
}

void RoundTrip::write_chain(int row, const std::vector<Token>& chain) {
  const std::vector<float>& accepted = policy_.model_accepted();
  std::int64_t* tokens = shared_.tokens + row * shared_.most;
  float* confidences = shared_.confidences + row * shared_.most;
  for (std::size_t at = 0; at < chain.size(); ++at) {
    tokens[at] = chain[at];
    confidences[at] = accepted[at];
  }
  std::fill(confidences + chain.size(), confidences + shared_.most, 0.0F);
}

// What the model makes after the next step; whether it rests; its trials while it does. While it reads, the rows that
// it can read count as read: reading ends early where it could not win, and goes on where it would.
void RoundTrip::plan_host(const Step& step) {
  const HostCosts ms = [this](std::size_t rows, int drafts) { return host_->draft_ms(rows, drafts); };
  host_->step(step.rows, policy_.step_us());
  bool has_changed = false;
  bool would_draft = false;
  const bool is_resting = host_->is_resting();
  std::vector<std::string> readable;
  if (is_resting || host_->is_reading()) readable = host_->readable(step.rows);
  {
    const std::lock_guard lock(policy_mutex_);
    for (const auto& [made, accepted] : host_->take_judged()) policy_.model_judged(made, accepted);
    for (const std::string& id : step.rows) policy_.host_reads(id, host_->ready(id));
    would_draft = !readable.empty() && policy_.host_would_draft(step.rows, readable, ms) > 0;
    const int made = policy_.host_drafts(step.rows, ms);
    const bool could_draft = policy_.could_host_draft() || (!is_resting && !readable.empty());
    has_changed = (std::exchange(host_made_, made) > 0) != (made > 0);
    if (!has_chosen_) host_wait_us_ = made > 0 ? static_cast<int>(policy_.host_usual_wait_us()) : 0;
    host_idle_ = made > 0 ? 0 : host_idle_ + (could_draft && !would_draft);
    if (has_changed) publish_budgets();
  }
  if (is_resting && would_draft) host_->wake();
  if (host_idle_ < config_.host_rest_steps) return;
  host_idle_ = 0;
  host_->rest();
}

// Reads prompts in the time that the step under way is expected to take still, and where it takes much longer; a little
// at a time, since the doorbell may ring earlier than expected. Whether it read and more waits.
bool RoundTrip::read_on_host() {
  const double left_us = policy_.step_us() - clock_.us_since(completed_at_);
  return (left_us > kReadUs || left_us < -0.5 * policy_.step_us()) && host_->work(kReadUs);
}

}  // namespace windlass
