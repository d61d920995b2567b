// What verifying drafts really adds to a step. An engine's own tables hold the time of the model on the device; a host that is
// slower than its device adds to that, and by more in a step with drafts. Measured from ring to ring while requests are served.
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

  // A step in which every row got a token.
  void took(std::size_t rows, std::size_t verified, double us) {
    const auto found = priced_.find(rows);
    const bool is_exact = found != priced_.end() && verified < found->second.size();
    const std::vector<double>* figures = is_exact ? &found->second : costs_of_about(rows);
    if (figures == nullptr || verified >= figures->size()) return;
    const double priced_us = 1000 * (*figures)[verified];
    Kind& kind = kinds_[kind_of(rows)];
    if (verified == 0) {
      kind.plain += 1;
      kind.slower += (us / priced_us - kind.slower) / std::min(kind.plain, kMemory);
      kind.extra_us *= kFade;
    } else if (known(kind)) {
      const double expected_us = kind.slower * priced_us;
      kind.extra_us += (std::min(us - expected_us, expected_us) - kind.extra_us) / kMemory;
    }
  }

  // Whether a step of so many rows should do without drafts, so that those with drafts can be compared with it.
  bool lacks_plain(std::size_t rows) const {
    const auto found = kinds_.find(kind_of(rows));
    return found == kinds_.end() || (!known(found->second) && found->second.asked < kPatience);
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

 private:
  struct Kind {
    double slower = 0;  // than the engine's figures, times
    double plain = 0;   // steps
    double extra_us = 0;
    int asked = 0;
    std::vector<double> costs;
  };

  static constexpr double kEnough = 8;
  static constexpr int kPatience = 64;     // where every other step reads a prompt, none is ever seen
  static constexpr double kMemory = 20;   // steps that a mean looks back
  static constexpr double kFade = 0.998;  // of the extra, each step without drafts: a host may become faster again

  static bool known(const Kind& kind) { return kind.plain >= kEnough; }

  // Numbers of rows that are within an eighth of one another: a batch whose requests end one by one has each only for a while.
  static std::size_t kind_of(std::size_t rows) { return rows - rows % std::max<std::size_t>(1, std::bit_floor(rows) / 8); }

  std::unordered_map<std::size_t, std::vector<double>> priced_;  // by rows
  std::unordered_map<std::size_t, Kind> kinds_;
};

}  // namespace windlass
