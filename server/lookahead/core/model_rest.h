// When a draft model or a head beside the cache rests: it neither reads what was accepted nor drafts.
//
// Reading takes time in each step, also where nothing is drafted. So a model that cannot win makes all steps longer. It
// rests while a batch would have more tokens for the time without it, even if the cache had no draft. Steps as they
// were timed decide; where none were, the engine's table does.
// A step in which it rests is a hole in its own key-value cache: those requests have no drafts of it any more. So it is
// tried again where a request begins, at longer and longer intervals.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "policy_config.h"
#include "running_mean.h"

namespace windlass {

// A batch's next step: milliseconds by the engine's tables, and tokens that the model's drafts of a row save.
struct ModelPrices {
  std::vector<double> steps_ms;  // with 0, 1, … drafts of each row to verify
  std::vector<float> tokens;     // that 1, 2, … drafts save
  double model_ms;               // that the model takes for all drafts of all rows
};

class ModelRest {
 public:
  static constexpr int kRested = -1;  // in the place of a number of drafts

  explicit ModelRest(const PolicyConfig& config) : config_(config), trial_after_us_(config.model_trial_us) {}

  bool is_resting() const { return is_resting_; }
  // Whether it woke to be tried.
  bool is_trying() const { return is_trying_; }
  // Whether it has read all text of the request.
  bool has_read(const std::string& id) const { return !unread_.contains(id); }
  // The rows of those that it has not.
  std::vector<int> unread(const std::vector<std::string>& ids) const;
  void finish(const std::string& id) { unread_.erase(id); }

  // Before it would read a step of these requests. Whether it wakes to be tried.
  bool begin_step(const std::vector<std::string>& ids);
  // A decoding step of a group of row counts took `ms`, `table_ms` by the engine's table. The model had made so many
  // drafts of each row for it, or rested.
  void completed(std::size_t group, int made, double ms, double table_ms);
  // After that: whether it goes on as it does. Decided by many steps.
  void judge(std::size_t group, const ModelPrices& prices);

 private:
  enum Kind : std::size_t { kRestedKind, kReadKind, kFirstKind, kAllKind, kKinds };
  using Beyond = std::array<RunningMean, kKinds>;  // milliseconds of steps beyond the engine's table

  static Kind kind_of(int made) {
    return made < 0 ? kRestedKind : made == 0 ? kReadKind : made == 1 ? kFirstKind : kAllKind;
  }
  double mean_or(const RunningMean& steps, double expected_ms) const {
    return steps.seen >= config_.plain_steps_min ? steps.mean : expected_ms;
  }
  double rested_rate(const Beyond& beyond, const ModelPrices& prices) const;
  double awake_rate(const Beyond& beyond, const ModelPrices& prices) const;
  void rest();
  void wake(bool is_trial);

  const PolicyConfig config_;
  std::unordered_map<std::size_t, Beyond> groups_;
  RunningMean rested_;  // of all groups
  std::unordered_set<std::string> unread_;
  bool is_resting_ = false;
  bool is_trying_ = false;
  int against_ = 0;        // steps in a row that speak against going on
  int awake_steps_ = 0;    // since it woke
  double rested_us_ = 0;   // since it began to rest
  double trial_after_us_;  // of rest
};

}  // namespace windlass
