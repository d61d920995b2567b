// How often a drafted token was accepted where the mixer said p: the last correction, learned from verified drafts
// alone.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace windlass {

class Calibration {
 public:
  Calibration() {
    for (auto& depth : bins_) depth.fill({0, 0, 0});
  }

  // The probability that a token is accepted, given that those before it were.
  float right(float p, int depth) const {
    const Bin& bin = bins_[row(depth)][column(p)];
    const float ratio = (bin.accepted + kTrust) / (bin.expected + kTrust);
    return std::clamp(p * ratio, 0.001F, 0.999F);
  }

  // `together[i]`: the predicted probability of tokens 0..i; `accepted`: how many were.
  void learn(const std::vector<float>& together, std::size_t accepted) {
    float before = 1;
    for (std::size_t i = 0; i < together.size() && i <= accepted; ++i) {
      const float p = together[i] / before;
      before = together[i];
      Bin& bin = bins_[row(static_cast<int>(i))][column(p)];
      bin.expected += p;
      if (i < accepted) bin.accepted += 1;
      if (++bin.seen > kMost) bin = {bin.expected / 2, bin.accepted / 2, bin.seen / 2};
    }
  }

  template <class Visitor>
  void visit(Visitor&& visitor) {
    visitor(bins_);
  }

 private:
  static constexpr float kTrust = 40.0F;  // observations before the correction counts for half
  static constexpr float kMost = 2000.0F;
  static constexpr std::size_t kRows = 5;
  static constexpr std::size_t kColumns = 12;
  struct Bin {
    float expected;
    float accepted;
    float seen;
  };
  static std::size_t row(int depth) { return depth < 3 ? static_cast<std::size_t>(depth) : depth < 8 ? 3 : 4; }
  static std::size_t column(float p) {
    return std::min<std::size_t>(kColumns - 1,
                                 static_cast<std::size_t>(std::max(0.0F, p) * static_cast<float>(kColumns)));
  }
  std::array<std::array<Bin, kColumns>, kRows> bins_;
};

}  // namespace windlass
