// What verifying drafts really adds to a step. An engine's own tables hold the time of the model on the device; a host that is
// slower than its device adds to that, and by more in a step with drafts; one that only has them planned may be longer, too.
// Measured from ring to ring while requests are served.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <unordered_map>
#include <vector>

namespace windlass {

class Pace {
 public:
  // The engine's figures for a step of so many rows: costs[n] in milliseconds with n drafts.
  void priced(std::size_t rows, const std::vector<double>& costs) {
    priced_[rows] = costs;
    std::vector<double>& about = kinds_[kind_of(rows)].costs;
    if (costs.size() >= about.size()) about = costs;
  }

  // Figures of a step of about so many rows, those that go furthest; null where there are none.
  const std::vector<double>* costs_of_about(std::size_t rows) const {
    const auto found = kinds_.find(kind_of(rows));
    return found == kinds_.end() || found->second.costs.size() < 2 ? nullptr : &found->second.costs;
  }

  // A step in which every row got a token, and for which drafts were planned or not.
  void took(std::size_t rows, bool planned, std::size_t verified, double us) {
    const auto found = priced_.find(rows);
    const bool is_exact = found != priced_.end() && verified < found->second.size();
    const std::vector<double>* figures = is_exact ? &found->second : costs_of_about(rows);
    if (figures == nullptr || verified >= figures->size()) return;
    const double priced_us = 1000 * (*figures)[verified];
    Kind& kind = kinds_[kind_of(rows)];
    if (planned && known(kind.plain)) kind.verifying.add(verified > 0 ? 1 : 0, kMemory);
    if (verified == 0) {
      kind.plain.add_usual(us / priced_us, kMemory);
      (planned ? kind.planned : kind.bare).add_usual(us / priced_us, kShort);
      kind.trust += planned ? (1 - kind.trust) / kShort : -kForget * kind.trust;
      kind.extra_us *= kFade;
    } else if (known(kind.plain)) {
      const double expected_us = priced_us * (compared(kind) ? kind.planned : kind.plain).mean;
      kind.extra_us += (std::min(us - expected_us, expected_us) - kind.extra_us) / kMemory;
    }
  }

  // Whether a step of so many rows should do without drafts, so that those with drafts can be compared with it.
  bool lacks_plain(std::size_t rows) const {
    const auto found = kinds_.find(kind_of(rows));
    return found == kinds_.end() || (!known(found->second.plain) && found->second.asked < kPatience);
  }
  // The same, of a step that will.
  bool needs_plain(std::size_t rows) {
    if (!lacks_plain(rows)) return false;
    kinds_[kind_of(rows)].asked += 1;
    return true;
  }

  // Milliseconds to add to a step of so many rows with drafts.
  double extra_ms(std::size_t rows) const {
    const auto found = kinds_.find(kind_of(rows));
    return found == kinds_.end() ? 0 : std::max(0.0, found->second.extra_us) / 1000;
  }

  // What planning drafts adds to steps of so many rows, for each of them that verifies any: in the engine's milliseconds.
  double planning_ms(std::size_t rows) const {
    const auto found = kinds_.find(kind_of(rows));
    if (found == kinds_.end() || found->second.costs.empty()) return 0;
    const Kind& kind = found->second;
    if (!compared(kind)) return 0;
    const double longer = std::max(0.0, kind.planned.mean / kind.bare.mean - 1);
    return kind.trust * longer * kind.costs[0] / std::max(kSeldom, kind.verifying.mean);
  }

 private:
  // A running mean.
  struct Mean {
    double mean = 0;
    double seen = 0;

    void add(double value, double memory) {
      seen += 1;
      mean += (value - mean) / std::min(seen, memory);
    }
    // No value counts more than twice what is usual: a thread is put off its processor now and then.
    void add_usual(double value, double memory) { add(seen > 0 ? std::min(value, 2 * mean) : value, memory); }
  };
  struct Kind {
    Mean plain;            // steps that verify none: times as long as the engine's figures
    Mean bare;             // those of them without planned drafts,
    Mean planned;          // and those with
    Mean verifying{1, 0};  // of the steps with planned drafts, the share that verifies any
    double trust = 1;      // in what planning was seen to cost: a host may become faster again while none is
    double extra_us = 0;
    int asked = 0;
    std::vector<double> costs;
  };

  static constexpr double kEnough = 8;
  static constexpr int kPatience = 64;     // where every other step reads a prompt, none is ever seen
  static constexpr double kMemory = 20;    // steps that a mean looks back
  static constexpr double kFade = 0.998;   // of what is extra, each step that verifies none: a host may become faster again
  static constexpr double kFew = 3;        // steps with and without planned drafts by which their price is known
  static constexpr double kSeldom = 0.33;  // no smaller share of verifying steps is reckoned with
  static constexpr double kShort = 8;      // steps that their means look back: planning is tried now and then, for a few
  static constexpr double kForget = 0.01;  // of that trust, each step that verifies none and has none planned

  static bool known(const Mean& steps) { return steps.seen >= kEnough; }
  static bool compared(const Kind& kind) { return std::min(kind.bare.seen, kind.planned.seen) >= kFew; }

  // Numbers of rows that are within an eighth of one another: a batch whose requests end one by one has each only for a while.
  static std::size_t kind_of(std::size_t rows) { return rows - rows % std::max<std::size_t>(1, std::bit_floor(rows) / 8); }

  std::unordered_map<std::size_t, std::vector<double>> priced_;  // by rows
  std::unordered_map<std::size_t, Kind> kinds_;
};

}  // namespace windlass
