#include "speculation_policy.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <numeric>

namespace windlass {

SpeculationPolicy::SpeculationPolicy(int max_drafts, const PolicyConfig& config)
    : config_(config),
      max_drafts_(static_cast<std::size_t>(max_drafts)),
      step_us_(config.first_step_us),
      new_request_(max_drafts_),
      known_step_us_(config.first_step_us),
      model_made_(max_drafts_),
      rest_(max_drafts_, config),
      costs_(config) {
  for (std::size_t at = 0; at < max_drafts_; ++at) {
    new_request_[at] = std::ldexp(config_.new_request_survival, -static_cast<int>(at));
  }
}

void SpeculationPolicy::doorbell(double period_us, bool is_late, std::size_t rows) {
  was_late_ = is_late_;
  is_late_ = is_late;
  period_us_ = period_us;
  rows_ = static_cast<double>(rows);
  if (period_us < config_.idle_us)
    step_us_ += config_.step_weight * (std::min(period_us, config_.step_us_max) - step_us_);
}

// The step before counts, too: after a prompt the host is ahead of the device, and its own time is hidden.
void SpeculationPolicy::completed(const CompletedStep& step) {
  const bool is_timed = step.is_decoding && was_decoding_ && !is_late_ && !was_late_;
  if (is_timed && period_us_ < config_.step_us_max)
    costs_.completed(step.rows, was_awaited_, step.verified, period_us_);
  if (period_us_ < config_.idle_us && is_beside()) {
    rest_.passed(period_us_);
    if (is_timed) judge_rest(step);
  }
  was_decoding_ = step.is_decoding;
  was_awaited_ = step.is_awaited;
  known_step_us_ = step_us_;
  model_worth_ = is_out_ ? 0 : model_tokens_;
}

// Where prompts are read, drafts cost little beside them, so a step that is not decoding always plans.
bool SpeculationPolicy::update_planning(const std::vector<std::string>& ids, bool is_decoding) {
  const std::optional<bool> worthy = is_decoding ? would_verify(ids) : std::nullopt;
  if (worthy) unworthy_ = *worthy ? 0 : unworthy_ + 1;
  // A step without planned drafts is a try to see a plain one, though it may be too late or too long to be timed.
  if (is_decoding && !is_planning_) costs_.take_plain_step(ids.size());
  const bool is_planning = !worthy || unworthy_ < config_.unworthy_steps;
  return std::exchange(is_planning_, is_planning) != is_planning;
}

float SpeculationPolicy::new_request_tokens() const {
  return std::accumulate(new_request_.begin(), new_request_.end(), 0.0F);
}

float SpeculationPolicy::expected_tokens(float before, const std::vector<float>& survivals) const {
  float tokens = 0;
  for (const float survival : survivals) tokens += survival;
  return std::max(tokens, config_.expectation_kept * before);
}

int SpeculationPolicy::draft_budget(float tokens) const {
  const int limit = std::min(static_cast<int>(max_drafts_), kBudgetMax);
  tokens = std::max(tokens, host_most_ > 0 ? host_tokens() : model_worth_);
  const float drafts = std::ceil(config_.drafts_per_token * tokens - config_.tokens_ignored);
  return is_planning_ && is_awaited(tokens) ? 1 + std::clamp(static_cast<int>(drafts), 0, limit) : 0;
}

void SpeculationPolicy::drafted(const std::string& id, const std::vector<float>& survivals, float tokens) {
  keep(id, survivals, is_awaited(tokens));
}

void SpeculationPolicy::keep(const std::string& id, const std::vector<float>& survivals, bool is_awaited) {
  std::vector<float>& latest = latest_[id];
  for (std::size_t at = 0; at < max_drafts_ && latest.empty(); ++at) {
    const float seen = at < survivals.size() ? survivals[at] : 0.0F;
    new_request_[at] += config_.new_request_weight * (seen - new_request_[at]);
  }
  latest.assign(max_drafts_, 0.0F);
  if (is_awaited) std::copy_n(survivals.begin(), std::min(survivals.size(), max_drafts_), latest.begin());
}

void SpeculationPolicy::add_model() {
  forget_acceptance();
  model_worth_ = model_tokens_;
}

void SpeculationPolicy::forget_acceptance() {
  model_accepted_.assign(max_drafts_, config_.model_acceptance);
  accumulate_acceptance();
}

void SpeculationPolicy::model_judged(std::size_t verified, std::size_t accepted) {
  for (std::size_t at = 0; at < std::min({verified, accepted + 1, model_accepted_.size()}); ++at) {
    const float seen = at < accepted ? 1.0F : 0.0F;
    model_accepted_[at] += config_.model_weight * (seen - model_accepted_[at]);
  }
  for (std::size_t at = std::max<std::size_t>(1, verified); at < model_accepted_.size(); ++at) {
    model_accepted_[at] += config_.model_forgotten * (model_accepted_[at - 1] - model_accepted_[at]);
  }
  accumulate_acceptance();
  rest_.judged();
  model_worth_ = is_out_ ? 0 : model_tokens_;
}

void SpeculationPolicy::accumulate_acceptance() {
  model_survivals_.resize(model_accepted_.size());
  std::partial_sum(model_accepted_.begin(), model_accepted_.end(), model_survivals_.begin(), std::multiplies<>());
  model_tokens_ = std::accumulate(model_survivals_.begin(), model_survivals_.end(), 0.0F);
}

// The engine's tables have the model's time in each of their entries.
void SpeculationPolicy::judge_rest(const CompletedStep& step) {
  const auto ms = [&](std::size_t drafts) { return costs_.table_ms(step.rows, drafts) - model_ms_; };
  if (ms(0) <= 0) return;
  const std::size_t group = costs_.group_of(step.rows);
  rest_.completed(group, step.modelled, period_us_ / 1000, ms(step.verified), model_ms_);
  ModelPrices prices{{ms(0)}, std::vector<float>(max_drafts_), model_ms_};
  for (std::size_t k = 1; k <= max_drafts_; ++k) prices.steps_ms.push_back(ms(k * step.rows));
  std::partial_sum(model_survivals_.begin(), model_survivals_.end(), prices.tokens.begin());
  const std::size_t covered = costs_.group_table(step.rows)->size() - 1;  // drafts that a step may verify at most
  for (std::size_t k = 1; k <= max_drafts_; ++k) {
    const double share = static_cast<double>(covered) / static_cast<double>(k * step.rows);
    prices.tokens[k - 1] *= static_cast<float>(std::min(1.0, share));
  }
  rest_.judge(group, prices);
}

// The number with the highest rate of tokens. A row's gain is what they save beyond the cache's latest drafts.
int SpeculationPolicy::model_drafts(const std::vector<std::string>& ids, double model_ms, bool is_wanted) {
  if (model_survivals_.empty()) return 0;
  model_ms_ = model_ms;
  if (rest_.begin_step(ids)) forget_acceptance();
  is_out_ = rest_.is_resting() || !rest_.has_read_any(ids);  // a batch with holes alone gets no more of them
  if (is_out_) model_made_ = 0;
  if (is_out_ || !is_wanted) return is_out_ ? ModelRest::kRested : 0;
  double tokens = 0;
  double first = 0;
  double all = 0;
  for (const std::string& id : ids) {
    const std::vector<float>& survivals = cache_survivals(id);
    const float cache = std::accumulate(survivals.begin(), survivals.end(), 0.0F);
    tokens += 1 + cache;
    if (!rest_.has_read(id)) continue;
    first += std::max(0.0F, model_survivals_[0] - cache);
    all += std::max(0.0F, model_tokens_ - cache);
  }
  const double step_ms = known_step_us_ / 1000;
  const double pass_ms = model_ms / static_cast<double>(max_drafts_);
  const double first_ms = config_.model_first_share * pass_ms;
  const double none_rate = tokens / step_ms;
  const double first_rate = (tokens + first) / (step_ms + first_ms);
  const double after_first_ms = rest_.after_first_ms(costs_.group_of(ids.size())).value_or(model_ms - pass_ms);
  const double all_rate = (tokens + all) / (step_ms + first_ms + after_first_ms);
  model_made_ = all_rate > std::max(none_rate, first_rate) ? max_drafts_ : first_rate > none_rate ? 1 : 0;
  if (rest_.is_trying()) model_made_ = 1;  // enough to learn from
  return static_cast<int>(model_made_);
}

const std::vector<float>& SpeculationPolicy::cache_survivals(const std::string& id) const {
  const auto found = latest_.find(id);
  return found == latest_.end() ? new_request_ : found->second;
}

void SpeculationPolicy::add_host_model(std::size_t most) {
  add_model();
  host_most_ = std::min(most, max_drafts_);
  model_made_ = 0;
}

void SpeculationPolicy::host_reads(const std::string& id, bool is_ready) {
  if (is_ready) {
    host_ready_.insert(id);
  } else {
    host_ready_.erase(id);
  }
}

int SpeculationPolicy::host_drafts(const std::vector<std::string>& ids, const HostCosts& ms) {
  std::vector<std::string> read;
  std::copy_if(ids.begin(), ids.end(), std::back_inserter(read),
               [this](const auto& id) { return host_ready_.contains(id); });
  const HostChoice choice = best_of_host(ids, read, ms);
  model_made_ = choice.drafts;
  host_ms_ = choice.ms;
  could_host_ = choice.could;
  return static_cast<int>(choice.drafts);
}

int SpeculationPolicy::host_would_draft(const std::vector<std::string>& ids, const std::vector<std::string>& readable,
                                        const HostCosts& ms) const {
  return static_cast<int>(best_of_host(ids, readable, ms).drafts);
}

float SpeculationPolicy::host_tokens() const {
  const auto made = static_cast<std::ptrdiff_t>(std::min(model_made_, model_survivals_.size()));
  return std::accumulate(model_survivals_.begin(), model_survivals_.begin() + made, 0.0F);
}

// A row's gain is what the model's drafts save beyond the cache's latest. What the cache's drafts add to the step is
// left out on both sides.
SpeculationPolicy::HostChoice SpeculationPolicy::best_of_host(const std::vector<std::string>& ids,
                                                              const std::vector<std::string>& read,
                                                              const HostCosts& ms) const {
  const auto expected = [this](const std::string& id) {
    const std::vector<float>& survivals = cache_survivals(id);
    return std::accumulate(survivals.begin(), survivals.end(), 0.0F);
  };
  HostChoice best;
  double tokens = 0;
  std::vector<float> cached;
  for (const std::string& id : ids) tokens += 1 + expected(id);
  cached.reserve(read.size());
  std::transform(read.begin(), read.end(), std::back_inserter(cached), expected);
  best.could = !cached.empty();
  const double table_ms = costs_.step_ms(ids.size(), 0);
  const double plain_ms = table_ms > 0 ? table_ms : known_step_us_ / 1000;
  double best_rate = config_.host_gain_min * tokens / plain_ms;
  float worth = 0;
  for (std::size_t k = 1; k <= host_most_; ++k) {
    worth += model_survivals_[k - 1];
    double gain = 0;
    std::size_t rows = 0;
    for (const float cache : cached) {
      if (cache >= worth) continue;
      gain += worth - cache;
      rows += 1;
    }
    if (rows == 0) continue;
    const double draft_ms = ms(rows, static_cast<int>(k));
    if (1000 * draft_ms > config_.host_wait_us_max) break;
    const double step_ms = table_ms > 0 ? costs_.step_ms(ids.size(), rows * k) : plain_ms;
    const double rate = (tokens + gain) / (step_ms + draft_ms);
    if (rate <= best_rate) continue;
    best_rate = rate;
    best.drafts = k;
    best.ms = draft_ms;
  }
  return best;
}

// The step waits for the model's drafts where they make the rate higher than the cache's alone. A row that the model
// has not read has the cache's.
SpeculationPolicy::Best SpeculationPolicy::best_beside_host(const NextStep& step, Best cache, double extra_ms) {
  awaits_host_ = false;
  if (model_made_ == 0) return cache;
  collect_scores(step.ids, [&step](std::size_t i) { return step.planned[i]; }, model_made_, false);
  const auto rows = static_cast<double>(step.ids.size());
  const Best best = best_of(step.costs_ms, step.emitting, extra_ms + host_ms_, nullptr, rows);
  if (best.drafts == 0 || best.times <= cache.times) return cache;
  awaits_host_ = true;
  const double spare_ms = best.ms * (best.times / cache.times - 1);
  host_wait_us_ = std::min(1000 * (host_ms_ + spare_ms), host_usual_wait_us());
  return best;
}

int SpeculationPolicy::drafts_to_verify(const NextStep& step) {
  const bool is_late = step.steps_behind > config_.steps_behind_max;
  const bool has_host = host_most_ > 0;
  awaits_host_ = false;
  const std::size_t made = has_host || model_survivals_.empty() ? 0 : model_made_;
  if (is_late && made == 0) return 0;
  const std::vector<double>& costs_ms = is_out_ ? without_model(step.costs_ms) : step.costs_ms;
  collect_scores(step.ids, [&step](std::size_t i) { return step.planned[i]; }, made, is_late);
  const std::size_t rows = step.ids.size();
  if (step.is_decoding && !step.costs_ms.empty()) costs_.set_table(rows, step.costs_ms);
  const double extra_ms = step.is_decoding ? costs_.extra_ms(rows) : 0;
  const bool has_mean = static_cast<int>(rows) <= config_.mean_rows_max;
  std::vector<double>* mean = has_mean ? &means_[{rows, scores_.size()}] : nullptr;
  if (mean != nullptr) mean->resize(scores_.size(), 0.0);
  const Best cache = best_of(costs_ms, step.emitting, extra_ms, mean, static_cast<double>(rows));
  const Best best = has_host ? best_beside_host(step, cache, extra_ms) : cache;
  const bool is_small = best.drafts > 0 && best.times < config_.sure_gain;
  if (!step.is_decoding || !is_small || !costs_.take_plain_step(rows)) return best.drafts;
  awaits_host_ = false;
  return 0;
}

// A model that does nothing takes no time.
const std::vector<double>& SpeculationPolicy::without_model(const std::vector<double>& costs_ms) {
  rested_costs_ms_.resize(costs_ms.size());
  std::transform(costs_ms.begin(), costs_ms.end(), rested_costs_ms_.begin(),
                 [this](double ms) { return std::max(0.0, ms - model_ms_); });
  return rested_costs_ms_;
}

std::optional<bool> SpeculationPolicy::would_verify(const std::vector<std::string>& ids) {
  const std::size_t rows = ids.size();
  if (static_cast<int>(rows) <= config_.always_planned_rows) return true;
  const std::vector<double>* costs_ms = costs_.group_table(rows);
  if (costs_ms == nullptr) return std::nullopt;
  const std::size_t made = host_most_ > 0 || is_out_ ? model_made_ : max_drafts_;
  if (is_out_) costs_ms = &without_model(*costs_ms);
  collect_scores(ids, [this](std::size_t) { return static_cast<int>(max_drafts_); }, made, false);
  const auto likely = std::count_if(scores_.begin(), scores_.end(), [](float score) { return score > 0; });
  if (static_cast<std::size_t>(likely) >= costs_ms->size()) return std::nullopt;
  const double extra_ms = costs_.extra_ms(rows) + costs_.planning_ms(rows) + (made > 0 ? host_ms_ : 0);
  const bool has_mean = static_cast<int>(rows) <= config_.mean_rows_max && (host_most_ == 0 || made == 0);
  std::vector<double>* mean = has_mean ? &planned_means_[rows] : nullptr;
  if (mean != nullptr) mean->resize(scores_.size(), 0.0);
  const Best best = best_of(*costs_ms, static_cast<int>(rows), extra_ms, mean, static_cast<double>(rows));
  return best.drafts > 0 && (best.times >= config_.sure_gain || !costs_.needs_plain_step(rows));
}

// Of scores_, the number with the most tokens for the time; `mean` holds what batches of the size had on average, or is
// null.
SpeculationPolicy::Best SpeculationPolicy::best_of(const std::vector<double>& costs_ms, int emitting, double extra_ms,
                                                   std::vector<double>* mean, double rows) const {
  const double weight = rows / config_.mean_rows_max;
  Best best;
  const double plain_rate = costs_ms.empty() ? 0 : emitting / costs_ms[0];
  double best_rate = plain_rate;
  double saved = 0;
  for (std::size_t n = 0; n < scores_.size(); ++n) {
    saved += scores_[n];
    double gain = saved;
    if (mean != nullptr) {
      double& average = (*mean)[n];
      average += weight * (saved / rows - average);
      gain = std::max(gain, average * rows);
    }
    if (n + 1 >= costs_ms.size()) continue;
    const double rate = (emitting + gain) / (costs_ms[n + 1] + extra_ms);
    if (rate > best_rate) {
      best_rate = rate;
      const double times = plain_rate > 0 ? rate / plain_rate : config_.sure_gain;
      best = {static_cast<int>(n) + 1, times, costs_ms[n + 1] + extra_ms};
    }
  }
  return best;
}

// Of a model each row has the first `made` drafts, of one on the host if it has read the row; of a late host none has
// drafts of the cache.
template <class Planned>
void SpeculationPolicy::collect_scores(const std::vector<std::string>& ids, Planned planned, std::size_t made,
                                       bool is_late) {
  scores_.clear();
  std::vector<float> models = model_survivals_;
  std::fill(models.begin() + static_cast<std::ptrdiff_t>(std::min(made, models.size())), models.end(), 0.0F);
  const std::vector<float> none(max_drafts_);
  const float models_tokens = std::accumulate(models.begin(), models.end(), 0.0F);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::vector<float>& cached = cache_survivals(ids[i]);
    const float cached_tokens = std::accumulate(cached.begin(), cached.end(), 0.0F);
    const bool is_models = is_read(ids[i]) && (is_late || cached_tokens < models_tokens);
    const std::vector<float>& survivals = is_models ? models : is_late ? none : cached;
    const std::size_t count = std::min(max_drafts_, static_cast<std::size_t>(std::max(0, planned(i))));
    scores_.insert(scores_.end(), survivals.begin(), survivals.begin() + static_cast<std::ptrdiff_t>(count));
  }
  std::sort(scores_.begin(), scores_.end(), std::greater<>());
}

}  // namespace windlass
