// What a draft of a decoder is expected to take. Passes that were timed at the start foretell it, and drafts correct
// them: other work of the machine, keys and values of long texts, cores that were asleep. What corrects drafts of few
// rows says nothing about many, so each timed count of rows has a correction of its own.
//
// It has no clock.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace windlass {

class DraftTime {
 public:
  static constexpr std::array<int, 4> kKnots = {1, 4, 16, 64};  // tokens of the passes that are timed at the start

  explicit DraftTime(const std::array<double, kKnots.size()>& knots_ms) : knots_ms_(knots_ms) {}

  // Milliseconds of chains of k tokens for `rows` rows that are drafted for in each step.
  double draft_ms(int rows, int k) const {
    if (rows < 1 || k < 1) return 0;
    return correction(rows) * foretold_ms(rows, rows * newest_, k);
  }

  // Such a draft took so many ms, and its first pass read `read` tokens. One moves a correction by 4 % at most.
  void took(int rows, std::size_t read, int k, double ms) {
    const double tokens = static_cast<double>(read);
    const double off = std::clamp(ms / (correction(rows) * foretold_ms(rows, tokens, k)), 1 / kMostOff, kMostOff);
    const Place place = place_of(rows);
    corrections_[place.left] *= std::pow(off, kWeight * (1 - place.share));
    corrections_[place.left + 1] *= std::pow(off, kWeight * place.share);
    if (tokens <= rows * (k + 1.0)) newest_ += kWeight * (tokens / rows - newest_);
  }

 private:
  static constexpr double kWeight = 0.1;   // of the newest draft
  static constexpr double kMostOff = 1.5;  // times what was expected; beyond it the machine did something else

  // Between two knots: the left one, and how far to the next. Beyond the last the share is 1.
  struct Place {
    std::size_t left;
    double share;
  };
  static Place place_of(double tokens) {
    std::size_t left = 0;
    while (left + 2 < kKnots.size() && tokens > kKnots[left + 1]) ++left;
    const double share = (tokens - kKnots[left]) / (kKnots[left + 1] - kKnots[left]);
    return {left, std::clamp(share, 0.0, 1.0)};
  }
  double correction(int rows) const {
    const Place place = place_of(rows);
    return (1 - place.share) * corrections_[place.left] + place.share * corrections_[place.left + 1];
  }

  // On a line between the passes that were timed, and beyond the last of them.
  double pass_ms(double tokens) const {
    const std::size_t left = place_of(tokens).left;
    const double slope = (knots_ms_[left + 1] - knots_ms_[left]) / (kKnots[left + 1] - kKnots[left]);
    return knots_ms_[left] + std::max(slope, 0.0) * (tokens - kKnots[left]);
  }
  double foretold_ms(int rows, double read, int k) const { return pass_ms(read) + (k - 1) * pass_ms(rows); }

  std::array<double, kKnots.size()> knots_ms_;
  std::array<double, kKnots.size()> corrections_ = {1, 1, 1, 1};
  // Tokens of a row that came since its last draft, of rows that are drafted for in each step. The first value is the
  // engine's own token and one accepted draft.
  double newest_ = 2;
};

}  // namespace windlass
