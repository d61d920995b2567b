#include "model_rest.h"

#include <algorithm>

namespace windlass {

std::vector<int> ModelRest::unread(const std::vector<std::string>& ids) const {
  std::vector<int> rows;
  if (unread_.empty()) return rows;
  for (std::size_t row = 0; row < ids.size(); ++row) {
    if (!has_read(ids[row])) rows.push_back(static_cast<int>(row));
  }
  return rows;
}

bool ModelRest::begin_step(const std::vector<std::string>& ids) {
  if (!is_resting_) return false;
  const bool has_new = std::any_of(ids.begin(), ids.end(), [this](const auto& id) { return has_read(id); });
  if (has_new && rested_us_ >= trial_after_us_) {
    wake(true);
    return true;
  }
  unread_.insert(ids.begin(), ids.end());
  return false;
}

void ModelRest::completed(std::size_t group, int made, double ms, double table_ms) {
  const Kind kind = kind_of(made);
  const auto learn = [&](RunningMean& beyond) {
    const double most_ms = config_.outlier_times * (table_ms + std::max(0.0, beyond.mean));
    beyond.add((beyond.seen > 0 ? std::min(ms, most_ms) : ms) - table_ms, config_.memory_steps);
  };
  learn(groups_[group][kind]);
  if (kind == kRestedKind) {
    learn(rested_);
    rested_us_ += 1000 * ms;
    return;
  }
  awake_steps_ += 1;
  if (awake_steps_ < config_.model_trial_steps) return;
  is_trying_ = false;
  trial_after_us_ = config_.model_trial_us;
}

void ModelRest::judge(std::size_t group, const ModelPrices& prices) {
  const double rested = rested_rate(groups_[group], prices);
  const double awake = awake_rate(groups_[group], prices);
  const double gain = config_.model_rest_gain;
  against_ = (is_resting_ ? awake > gain * rested : rested > gain * awake) ? against_ + 1 : 0;
  if (against_ < config_.model_rest_steps) return;
  if (is_resting_) {
    wake(false);
  } else {
    rest();
  }
}

double ModelRest::rested_rate(const Beyond& beyond, const ModelPrices& prices) const {
  return 1 / (prices.steps_ms[0] + mean_or(beyond[kRestedKind], mean_or(rested_, 0)));
}

// Of a row, with the best number of drafts. What was not timed takes as much longer as the model's time says.
double ModelRest::awake_rate(const Beyond& beyond, const ModelPrices& prices) const {
  const double pass_ms = prices.model_ms / static_cast<double>(prices.tokens.size());
  const double first_ms = config_.model_first_share * pass_ms;
  const double read = mean_or(beyond[kReadKind], pass_ms - first_ms);
  const double first = mean_or(beyond[kFirstKind], read + first_ms);
  const double all = mean_or(beyond[kAllKind], first + prices.model_ms - pass_ms);
  double best = (1 + prices.tokens[0]) / (prices.steps_ms[1] + first);
  for (std::size_t k = 0; k < prices.tokens.size(); ++k) {
    best = std::max(best, (1 + prices.tokens[k]) / (prices.steps_ms[k + 1] + all));
  }
  return best;
}

void ModelRest::rest() {
  if (is_trying_) trial_after_us_ = std::min(2 * trial_after_us_, config_.model_trial_us_max);
  is_resting_ = true;
  is_trying_ = false;
  against_ = 0;
  rested_us_ = 0;
}

void ModelRest::wake(bool is_trial) {
  is_resting_ = false;
  is_trying_ = is_trial;
  against_ = 0;
  awake_steps_ = 0;
}

}  // namespace windlass
