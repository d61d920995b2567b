// How many drafts the next step of a batch should verify, when its drafts are not known yet: an engine that schedules ahead
// fixes the number a step before.
//
// A request is expected to be drafted for as it was last; one that is new as new ones were of late. In a small batch that
// misses the drafts that come after a step without any, so what a batch of that size had on average counts, too: whichever
// promises more. The number is then the one with the most tokens for the time, and the time what Pace has seen it to be.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pace.h"

namespace windlass {

class Foresight {
 public:
  explicit Foresight(int most) : most_(static_cast<std::size_t>(most)), typical_(most_) {
    for (std::size_t at = 0; at < most_; ++at) typical_[at] = std::ldexp(kFirst, -static_cast<int>(at));
  }

  // A request's latest draft: for each token the probability that it and all before it are accepted. None is to be expected of
  // a request whose drafts come too late.
  void note(const std::string& id, const std::vector<float>& survivals, bool in_time) {
    const std::lock_guard lock(mutex_);
    std::vector<float>& latest = latest_[id];
    if (latest.empty()) learn(survivals);
    latest.assign(most_, 0.0F);
    if (in_time) std::copy_n(survivals.begin(), std::min(survivals.size(), most_), latest.begin());
  }
  // Tokens that a new request's first draft is expected to save.
  float of_new() {
    const std::lock_guard lock(mutex_);
    return std::accumulate(typical_.begin(), typical_.end(), 0.0F);
  }
  void forget(const std::string& id) {
    const std::lock_guard lock(mutex_);
    latest_.erase(id);
  }

  // A step in which every row got a token, and for which drafts were planned or not.
  void took(std::size_t rows, bool planned, std::size_t verified, double us) {
    const std::lock_guard lock(mutex_);
    pace_.took(rows, planned, verified, us);
  }

  // Drafts to verify in a step of these requests, of which each has so many planned; costs[n] is the time of the step with n
  // drafts, and no more than costs.size() - 1 are verified. `emitting` requests get a token without any; others read prompts.
  // In a `decoding` step each has one token beside its drafts.
  int choose(const std::vector<std::string>& ids, const std::vector<int>& planned, const std::vector<double>& costs, int emitting,
             bool decoding) {
    const std::lock_guard lock(mutex_);
    expect(ids, [&planned](std::size_t i) { return planned[i]; });
    if (decoding && !costs.empty()) pace_.priced(ids.size(), costs);
    const double extra_ms = decoding ? pace_.extra_ms(ids.size()) : 0;
    std::vector<double>* mean = ids.size() <= kSmall ? &means_[{ids.size(), scores_.size()}] : nullptr;
    if (mean != nullptr) mean->resize(scores_.size(), 0.0);
    const Best best = best_of(costs, emitting, extra_ms, mean, static_cast<double>(ids.size()));
    const bool is_small = best.drafts > 0 && best.times < kSure;
    return decoding && is_small && pace_.needs_plain(ids.size()) ? 0 : best.drafts;
  }

  // Whether a decoding step of these requests would verify any of their latest drafts, by what is known of such steps. Where it
  // would not, none need be planned: that alone costs a large batch host's time, which is weighed as far as steps were seen to be
  // longer for it. A small one drafts too rarely to be judged so.
  // Nothing where it is not known what so many drafts cost, which it is once they are planned.
  std::optional<bool> hopes(const std::vector<std::string>& ids) {
    const std::lock_guard lock(mutex_);
    if (ids.size() <= kSmall) return true;
    const std::vector<double>* costs = pace_.costs_of_about(ids.size());
    if (costs == nullptr) return std::nullopt;
    expect(ids, [this](std::size_t) { return static_cast<int>(most_); });
    const auto expected = std::count_if(scores_.begin(), scores_.end(), [](float score) { return score > 0; });
    if (static_cast<std::size_t>(expected) >= costs->size()) return std::nullopt;
    const double rows = static_cast<double>(ids.size());
    const double extra_ms = pace_.extra_ms(ids.size()) + pace_.planning_ms(ids.size());
    const Best best = best_of(*costs, static_cast<int>(ids.size()), extra_ms, nullptr, rows);
    return best.drafts > 0 && (best.times >= kSure || !pace_.lacks_plain(ids.size()));
  }

 private:
  struct Best {
    int drafts = 0;    // to verify
    double times = 1;  // as many tokens for the time as without any
  };

  // Of scores_, the number with the most tokens for the time; `mean` is what batches of the size had on average, or null.
  Best best_of(const std::vector<double>& costs, int emitting, double extra_ms, std::vector<double>* mean, double rows) const {
    const double weight = std::min(1.0, rows / kMemoryRows);
    Best best;
    const double plain_rate = costs.empty() ? 0 : emitting / costs[0];
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
      if (n + 1 >= costs.size()) continue;
      const double rate = (emitting + gain) / (costs[n + 1] + extra_ms);
      if (rate > best_rate) {
        best_rate = rate;
        best = {static_cast<int>(n) + 1, plain_rate > 0 ? rate / plain_rate : kSure};
      }
    }
    return best;
  }

  // Fills scores_ with what may be verified, the likeliest first; planned(i) drafts of the i-th request.
  template <class Planned>
  void expect(const std::vector<std::string>& ids, Planned planned) {
    scores_.clear();
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto found = latest_.find(ids[i]);
      const std::vector<float>& survivals = found == latest_.end() ? typical_ : found->second;
      const std::size_t count = std::min(most_, static_cast<std::size_t>(std::max(0, planned(i))));
      scores_.insert(scores_.end(), survivals.begin(), survivals.begin() + static_cast<std::ptrdiff_t>(count));
    }
    std::sort(scores_.begin(), scores_.end(), std::greater<>());
  }

  static constexpr float kFirst = 0.1F;       // of a new request's first draft, before any was seen; half of it for each one after
  static constexpr float kSlow = 0.05F;       // weight of the newest of them
  static constexpr std::size_t kSmall = 16;   // rows; with more, the average adds nothing (budgets.py)
  static constexpr double kMemoryRows = 16;   // rows that the average looks back
  static constexpr double kSure = 1.5;        // a gain for which steps without drafts need not be seen first

  void learn(const std::vector<float>& survivals) {
    for (std::size_t at = 0; at < most_; ++at) {
      const float seen = at < survivals.size() ? survivals[at] : 0.0F;
      typical_[at] += kSlow * (seen - typical_[at]);
    }
  }

  std::size_t most_;
  std::mutex mutex_;
  std::vector<float> typical_;
  std::unordered_map<std::string, std::vector<float>> latest_;
  std::map<std::pair<std::size_t, std::size_t>, std::vector<double>> means_;  // by rows and planned drafts
  std::vector<float> scores_;
  Pace pace_;
};

}  // namespace windlass
