// What a draft of a decoder is expected to take. Passes that were timed at the start foretell it, and drafts correct
// them: other work of the machine, keys and values of long texts, cores that were asleep. What drafts of many rows took
// says nothing about one row, so the timed numbers of rows have a correction each; a number between two has of both.
//
// A model that rests tries single rows alone. Then the other corrections follow that of one row slowly, so that it does
// not rest for good after batches that were slow for a while.
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
    return correction(rows) * foretold_ms(rows, rows * std::min(newest_, k + 1.0), k);
  }

  // A draft of that many rows took so many ms, and its first pass read `read` tokens.
  void took(int rows, std::size_t read, int k, double ms) {
    if (rows < 1 || k < 1) return;
    correct(rows, read, k, ms);
    const double each = static_cast<double>(read) / rows;
    newest_ += kWeight * (std::min(each, k + 1.0) - newest_);
  }

  // The same of one row while the model rests: the first pass reads all tokens that came since the last trial.
  void tried(std::size_t read, int k, double ms) {
    if (k < 1) return;
    correct(1, read, k, ms);
    for (double& one : corrections_) one *= std::pow(corrections_[0] / one, kFollowed);
  }

 private:
  static constexpr double kWeight = 0.1;   // of the newest draft; guess
  static constexpr double kMostOff = 1.5;  // times what was expected that a draft counts at most: threads stall; guess
  static constexpr double kFollowed = 0.02;  // of the way to the correction of one row, by each trial; guess

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
  // A number of rows between two knots moves both, so that its own correction moves by the whole weight.
  void correct(int rows, std::size_t read, int k, double ms) {
    const double off = ms / (correction(rows) * foretold_ms(rows, static_cast<double>(read), k));
    const double step = kWeight * std::log(std::clamp(off, 1 / kMostOff, kMostOff));
    const auto [left, share] = place_of(rows);
    const double whole = (1 - share) * (1 - share) + share * share;
    corrections_[left] *= std::exp(step * (1 - share) / whole);
    corrections_[left + 1] *= std::exp(step * share / whole);
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
  // Tokens of a row that came since its last draft. The first value is the engine's own token and one accepted draft.
  double newest_ = 2;
};

}  // namespace windlass
