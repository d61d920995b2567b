// What a step with drafts takes. The engine's tables hold the time of the model on the device; a host that is slower
// than its device adds to that, more in a step that verifies drafts, and some in a step that only has them planned.
//
// The model learns from the time between two doorbells. It has no clock. Row counts close to one another form a group,
// since a batch whose requests end one by one has each count for a few steps only.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <unordered_map>
#include <vector>

#include "policy_config.h"
#include "running_mean.h"

namespace windlass {

class StepCostModel {
 public:
  explicit StepCostModel(const PolicyConfig& config) : config_(config) {}

  // Keeps the engine's table for a step of `rows` rows: costs_ms[n] with n drafts.
  void set_table(std::size_t rows, const std::vector<double>& costs_ms) {
    tables_[rows] = costs_ms;
    std::vector<double>& longest = groups_[group_of(rows)].costs_ms;
    if (costs_ms.size() >= longest.size()) longest = costs_ms;
  }

  // The longest table of the group of `rows`; null when no table of the group covers a draft.
  const std::vector<double>* group_table(std::size_t rows) const {
    const auto found = groups_.find(group_of(rows));
    return found == groups_.end() || found->second.costs_ms.size() < 2 ? nullptr : &found->second.costs_ms;
  }

  // The least row count of the group of `rows`.
  std::size_t group_of(std::size_t rows) const {
    return rows - rows % std::max<std::size_t>(1, std::bit_floor(rows) / config_.row_groups);
  }

  // Milliseconds of a step of `rows` rows that verifies n drafts, by the engine's table alone; as step_ms.
  double table_ms(std::size_t rows, std::size_t drafts) const {
    const std::vector<double>* table = group_table(rows);
    return table == nullptr ? 0 : (*table)[std::min(drafts, table->size() - 1)];
  }
  // Milliseconds of a step of `rows` rows that verifies n drafts, by the engine's table and what plain steps were seen
  // to take; 0 where no table covers a draft. More drafts than the table has count as its last.
  double step_ms(std::size_t rows, std::size_t drafts) const {
    const std::vector<double>* table = group_table(rows);
    if (table == nullptr) return 0;
    const RunningMean& plain = groups_.find(group_of(rows))->second.plain;
    const double ms = (*table)[std::min(drafts, table->size() - 1)];
    return ms + (is_known(plain) ? (plain.mean - 1) * (*table)[0] : 0);
  }

  // Learns from a step of `us` µs in which every row got a token; `planned`: the scheduler had planned drafts for it.
  void completed(std::size_t rows, bool planned, std::size_t verified, double us) {
    const auto found = tables_.find(rows);
    const bool is_exact = found != tables_.end() && verified < found->second.size();
    const std::vector<double>* table = is_exact ? &found->second : group_table(rows);
    if (table == nullptr || verified >= table->size()) return;
    const double table_us = 1000 * (*table)[verified];
    Group& group = groups_[group_of(rows)];
    if (planned && is_known(group.plain)) group.verifying.add(verified > 0 ? 1 : 0, config_.memory_steps);
    if (verified == 0) {
      group.plain.add_capped(us / table_us, config_.memory_steps, config_.outlier_times);
      RunningMean& kind = planned ? group.planned : group.unplanned;
      kind.add_capped(us / table_us, config_.planning_memory_steps, config_.outlier_times);
      group.trust +=
          planned ? (1 - group.trust) / config_.planning_memory_steps : -config_.planning_forgotten * group.trust;
      group.extra_us *= config_.extra_kept;
    } else if (is_known(group.plain)) {
      const bool has_baseline = compared_steps(group) >= config_.baseline_steps_min;
      const double expected_us = table_us * (has_baseline ? group.planned : group.plain).mean;
      const double extra_us = std::min(us - expected_us, config_.extra_times_max * expected_us);
      group.extra_us += (extra_us - group.extra_us) / config_.memory_steps;
    }
  }

  // Whether steps of `rows` rows without drafts are still to be seen, so that steps with drafts can be compared with
  // them.
  bool needs_plain_step(std::size_t rows) const {
    const auto found = groups_.find(group_of(rows));
    return found == groups_.end() ||
           (!is_known(found->second.plain) && found->second.asked < config_.plain_steps_patience);
  }
  // The same, and counts the step that goes without drafts for it.
  bool take_plain_step(std::size_t rows) {
    if (!needs_plain_step(rows)) return false;
    groups_[group_of(rows)].asked += 1;
    return true;
  }

  // Milliseconds that a step with drafts takes beyond the engine's table.
  double extra_ms(std::size_t rows) const {
    const auto found = groups_.find(group_of(rows));
    return found == groups_.end() ? 0 : config_.extra_weight * std::max(0.0, found->second.extra_us) / 1000;
  }

  // Milliseconds by which planned drafts prolong steps, for each step that verifies any.
  double planning_ms(std::size_t rows) const {
    const auto found = groups_.find(group_of(rows));
    if (found == groups_.end() || found->second.costs_ms.empty()) return 0;
    const Group& group = found->second;
    if (compared_steps(group) < config_.compared_steps_min) return 0;
    const double longer = std::max(0.0, group.planned.mean / group.unplanned.mean - 1);
    const double share = std::max(config_.verifying_share_min, group.verifying.mean);
    return config_.planning_weight * group.trust * longer * group.costs_ms[0] / share;
  }

 private:
  struct Group {
    RunningMean plain;            // steps that verify none: their time as a multiple of the table's
    RunningMean unplanned;        // those of them without planned drafts
    RunningMean planned;          // those of them with planned drafts
    RunningMean verifying{1, 0};  // of the steps with planned drafts, the share that verifies any
    double trust = 1;  // share of the price of planning that is believed: it fades while no drafts are planned
    double extra_us = 0;
    int asked = 0;  // steps that went without drafts to be seen
    std::vector<double> costs_ms;
  };

  bool is_known(const RunningMean& steps) const { return steps.seen >= config_.plain_steps_min; }
  static double compared_steps(const Group& group) { return std::min(group.unplanned.seen, group.planned.seen); }

  const PolicyConfig config_;
  std::unordered_map<std::size_t, std::vector<double>> tables_;  // by rows
  std::unordered_map<std::size_t, Group> groups_;                // by group_of
};

}  // namespace windlass
