// When a draft model or a head beside the cache rests: it neither reads what was accepted nor drafts.
//
// Reading takes time in each step, also where nothing is drafted. So a model that cannot win makes all steps longer. It
// rests while a batch would have more tokens for the time without it, even if the cache had no draft. Both rates come
// from steps and from the model's own work as they were timed, so that a long context or a slow host counts in both.
// A step in which it rests is a hole in its own key-value cache: those requests have no drafts of it any more. So it is
// tried again where a request begins, at longer and longer intervals.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
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

  ModelRest(std::size_t most, const PolicyConfig& config)
      : most_(most), config_(config), trial_after_us_(config.model_trial_us) {}

  bool is_resting() const { return is_resting_; }
  // Whether it woke to be tried.
  bool is_trying() const { return is_trying_; }
  // Whether it has read all text of the request, or of any of them.
  bool has_read(const std::string& id) const { return !unread_.contains(id); }
  bool has_read_any(const std::vector<std::string>& ids) const;
  // The rows of those that it has not.
  std::vector<int> unread(const std::vector<std::string>& ids) const;
  void finish(const std::string& id) { unread_.erase(id); }

  // Whether both numbers of drafts were timed in the group; then the milliseconds that all take beyond the first.
  std::optional<double> after_first_ms(std::size_t group) const;

  // Before it would read a step of these requests. Whether it wakes to be tried.
  bool begin_step(const std::vector<std::string>& ids);
  // Its work after a decoding step of a group of row counts took `ms`: it made so many drafts of each row. By the
  // engine's table all of them take `model_ms`.
  void took(std::size_t group, int made, double ms, double model_ms);
  // A row's drafts of it were judged.
  void judged() { judged_ += 1; }
  // A step ended `us` after the one before, whatever it was.
  void passed(double us);
  // A decoding step of the group took `ms`, and `table_ms` by the engine's table, which has no time of the model. The
  // model had made so many drafts of each row for it, or rested.
  void completed(std::size_t group, int made, double ms, double table_ms, double model_ms);
  // After that: whether it goes on as it does. Decided by many steps.
  void judge(std::size_t group, const ModelPrices& prices);

 private:
  enum Kind : std::size_t { kRead, kFirst, kAll, kKinds };
  struct Group {
    RunningMean beyond;                   // milliseconds of steps beyond the engine's table and the model's work
    std::array<RunningMean, kKinds> own;  // milliseconds of that work
  };

  static Kind kind_of(int made) { return made <= 0 ? kRead : made == 1 ? kFirst : kAll; }
  bool is_known(const RunningMean& mean) const { return mean.seen >= config_.plain_steps_min; }
  double expected_ms(Kind kind, double model_ms) const;
  double own_ms(const Group& group, Kind kind, double model_ms) const;
  double awake_rate(const Group& group, const ModelPrices& prices) const;
  void rest();
  void wake(bool is_trial);

  const std::size_t most_;
  const PolicyConfig config_;
  std::unordered_map<std::size_t, Group> groups_;
  RunningMean times_;  // of its work in all groups, as a multiple of what the table says
  std::unordered_set<std::string> unread_;
  bool is_resting_ = false;
  bool is_trying_ = false;
  bool was_tried_ = false;  // it woke to be tried, and has not been awake for long since
  double readable_ = 1;     // share of the last batch whose text it has read
  int against_ = 0;         // steps in a row that speak against going on
  int awake_steps_ = 0;     // since it woke
  int judged_ = 0;          // rows since then
  double awake_us_ = 0;
  double rested_us_ = 0;   // since it began to rest
  double trial_after_us_;  // of rest
};

}  // namespace windlass
