#include "model_rest.h"

#include <algorithm>

namespace windlass {

bool ModelRest::has_read_any(const std::vector<std::string>& ids) const {
  return unread_.empty() || std::any_of(ids.begin(), ids.end(), [this](const auto& id) { return has_read(id); });
}

std::vector<int> ModelRest::unread(const std::vector<std::string>& ids) const {
  std::vector<int> rows;
  if (unread_.empty()) return rows;
  for (std::size_t row = 0; row < ids.size(); ++row) {
    if (!has_read(ids[row])) rows.push_back(static_cast<int>(row));
  }
  return rows;
}

bool ModelRest::begin_step(const std::vector<std::string>& ids) {
  if (!is_resting_) {
    const auto unread = static_cast<double>(this->unread(ids).size());
    readable_ = ids.empty() ? 1 : 1 - unread / static_cast<double>(ids.size());
    return false;
  }
  if (rested_us_ >= trial_after_us_ && has_read_any(ids)) {
    wake(true);
    return true;
  }
  unread_.insert(ids.begin(), ids.end());
  return false;
}

void ModelRest::took(std::size_t group, int made, double ms, double model_ms) {
  const Kind kind = kind_of(made);
  const double expected = expected_ms(kind, model_ms);
  if (expected <= 0) return;
  groups_[group].own[kind].add_capped(ms, config_.memory_steps, config_.outlier_times);
  times_.add_capped(ms / expected, config_.memory_steps, config_.outlier_times);
}

void ModelRest::passed(double us) {
  if (is_resting_) {
    rested_us_ += us;
    return;
  }
  awake_steps_ += 1;
  awake_us_ += us;
  if (is_trying_ && awake_steps_ >= config_.model_trial_steps) {
    is_trying_ = false;
    if (judged_ < config_.model_trial_rows) rest();
  }
  if (is_resting_ || awake_us_ < config_.model_trial_us) return;
  was_tried_ = false;
  trial_after_us_ = config_.model_trial_us;
}

void ModelRest::completed(std::size_t group, int made, double ms, double table_ms, double model_ms) {
  if (!is_known(times_)) return;
  Group& known = groups_[group];
  const double own = made == kRested ? 0 : own_ms(known, kind_of(made), model_ms);
  const double expected = table_ms + own + std::max(0.0, known.beyond.mean);
  const double capped = known.beyond.seen > 0 ? std::min(ms, config_.outlier_times * expected) : ms;
  known.beyond.add(capped - own - table_ms, config_.memory_steps);
}

// What the model's work takes is known by then, or nothing is decided.
void ModelRest::judge(std::size_t group, const ModelPrices& prices) {
  const Group& known = groups_[group];
  if (!is_known(times_) || !is_known(known.beyond)) return;
  const double awake = awake_rate(known, prices);
  const double rested = 1 / (prices.steps_ms[0] + std::max(0.0, known.beyond.mean));
  const double gain = config_.model_rest_gain;
  against_ = (is_resting_ ? awake > gain * rested : rested > gain * awake) ? against_ + 1 : 0;
  if (against_ < config_.model_rest_steps) return;
  if (is_resting_) {
    wake(false);
  } else {
    rest();
  }
}

// Of a row, with the best number of drafts. Once a number was timed in the group, one that was not counts no more:
// where reading takes most of the time, the table has no idea of it. While it has not been awake for long all rows
// count as read, since those that were not end by and by.
double ModelRest::awake_rate(const Group& group, const ModelPrices& prices) const {
  const double share = is_resting_ || awake_steps_ < config_.model_trial_steps ? 1 : readable_;
  const bool is_first_known = is_known(group.own[kFirst]);
  const bool is_all_known = is_known(group.own[kAll]);
  const auto rate = [&](std::size_t drafts, double own) {
    const double ms = prices.steps_ms[drafts] + group.beyond.mean + own;
    return (1 + share * prices.tokens[drafts - 1]) / std::max(ms, prices.steps_ms[0] / 2);
  };
  double best = 0;
  if (is_first_known || !is_all_known) best = rate(1, own_ms(group, kFirst, prices.model_ms));
  if (is_first_known && !is_all_known) return best;
  const double all_ms = own_ms(group, kAll, prices.model_ms);
  for (std::size_t drafts = 1; drafts <= most_; ++drafts) best = std::max(best, rate(drafts, all_ms));
  return best;
}

std::optional<double> ModelRest::after_first_ms(std::size_t group) const {
  const auto found = groups_.find(group);
  if (found == groups_.end()) return std::nullopt;
  const auto& own = found->second.own;
  if (!is_known(own[kFirst]) || !is_known(own[kAll])) return std::nullopt;
  return std::max(0.0, own[kAll].mean - own[kFirst].mean);
}

// By the engine's table: what it reads takes a part of a pass, the first draft the rest of it.
double ModelRest::expected_ms(Kind kind, double model_ms) const {
  const double pass_ms = model_ms / static_cast<double>(most_);
  return kind == kAll ? model_ms : kind == kFirst ? pass_ms : (1 - config_.model_first_share) * pass_ms;
}

double ModelRest::own_ms(const Group& group, Kind kind, double model_ms) const {
  const RunningMean& own = group.own[kind];
  return is_known(own) ? own.mean : times_.mean * expected_ms(kind, model_ms);
}

void ModelRest::rest() {
  if (was_tried_) trial_after_us_ = std::min(2 * trial_after_us_, config_.model_trial_us_max);
  is_resting_ = true;
  is_trying_ = false;
  was_tried_ = false;
  against_ = 0;
  rested_us_ = 0;
}

void ModelRest::wake(bool is_trial) {
  is_resting_ = false;
  is_trying_ = is_trial;
  was_tried_ = is_trial;
  against_ = 0;
  awake_steps_ = 0;
  awake_us_ = 0;
  judged_ = 0;
}

}  // namespace windlass
