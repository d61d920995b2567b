// What verifying drafts really adds to a step. An engine's own tables hold the time of the model on the device; a host that is
// slower than its device adds to that, and by more in a step with drafts. Measured from ring to ring while requests are served.
#pragma once

#include <algorithm>
#include <cstddef>
#include <unordered_map>
#include <vector>

namespace windlass {

class Pace {
 public:
  // The engine's figures for a step of so many rows: costs[n] in milliseconds with n drafts.
  void priced(std::size_t rows, const std::vector<double>& costs) { kinds_[rows].costs = costs; }

  // A step in which every row got a token.
  void took(std::size_t rows, std::size_t verified, double us) {
    Kind& kind = kinds_[rows];
    if (verified == 0) {
      kind.plain += 1;
      kind.plain_us += (us - kind.plain_us) / std::min(kind.plain, kMemory);
      kind.extra_us *= kFade;
    } else if (known(kind) && verified < kind.costs.size()) {
      const double expected_us = kind.plain_us * kind.costs[verified] / kind.costs[0];
      kind.extra_us += (std::min(us - expected_us, expected_us) - kind.extra_us) / kMemory;
    }
  }

  // Whether a step of so many rows should do without drafts, so that those with drafts can be compared with it.
  bool needs_plain(std::size_t rows) {
    Kind& kind = kinds_[rows];
    return !known(kind) && kind.asked++ < kPatience;
  }

  // Milliseconds to add to a step of so many rows with drafts.
  double extra_ms(std::size_t rows) const {
    const auto found = kinds_.find(rows);
    return found == kinds_.end() ? 0 : std::max(0.0, found->second.extra_us) / 1000;
  }

 private:
  struct Kind {
    std::vector<double> costs;
    double plain_us = 0;
    double plain = 0;  // steps
    double extra_us = 0;
    int asked = 0;
  };

  static constexpr double kEnough = 8;
  static constexpr int kPatience = 64;     // where every other step reads a prompt, none is ever seen
  static constexpr double kMemory = 20;   // steps that a mean looks back
  static constexpr double kFade = 0.998;  // of the extra, each step without drafts: a host may become faster again

  static bool known(const Kind& kind) { return kind.plain >= kEnough && !kind.costs.empty(); }

  std::unordered_map<std::size_t, Kind> kinds_;
};

}  // namespace windlass
