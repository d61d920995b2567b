// From what the experts say about a candidate to the probability that it comes next, learned from every token that
// came.
//
// An expert's word is a small state (how often seen, how often something else, how long the match). Each state learns
// its own rate of being right; a logistic mix of these rates, with weights chosen by how well both sources match,
// learns how far to trust each. It is the method of context-mixing compressors (Mahoney, "Adaptive weighing of context
// models", 2005), asked for whole tokens.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace windlass {

constexpr int kRanks = 4;
constexpr int kSources = 2;   // the request itself, the shared cache
constexpr int kPointers = 3;  // longest match in the request, in the shared cache, alignment after a break
constexpr int kVoices = kSources * kRanks + kPointers + 1;  // cells, matches, how common the token is
constexpr int kInputs = kVoices + 1;                        // and a constant
constexpr int kOrders = 16;
constexpr int kCounts = 7;
constexpr int kRests = 6;
constexpr int kCellStates = kSources * kOrders * kCounts * kRests * 2;
constexpr int kLengths = 16;
constexpr int kPointerStates = kPointers * kLengths * 2;
constexpr int kOwnUse = 7;
constexpr int kSharedUse = 8;
constexpr int kUseStates = kOwnUse * kSharedUse;
constexpr int kStates = kCellStates + kPointerStates + kUseStates;
constexpr int kWeightSets = 6 * 6 * 4;
constexpr int kKeys = 1 + kCounts * kRests;

inline float stretch(float p) { return std::log(p / (1.0F - p)); }
inline float squash(float x) { return 1.0F / (1.0F + std::exp(-x)); }

inline int count_bin(std::uint32_t n) { return n <= 3 ? static_cast<int>(n) : n <= 5 ? 4 : n <= 11 ? 5 : 6; }
inline int rest_bin(std::uint32_t n) { return n <= 2 ? static_cast<int>(n) : n <= 5 ? 3 : n <= 12 ? 4 : 5; }
inline int length_bin(std::uint32_t n) {
  if (n <= 8) return static_cast<int>(n);
  return n <= 10 ? 9 : n <= 12 ? 10 : n <= 16 ? 11 : n <= 20 ? 12 : n <= 24 ? 13 : n < 32 ? 14 : 15;
}

inline int cell_state(int source, int order, std::uint32_t count, std::uint32_t rest, bool newest) {
  return (((source * kOrders + order - 1) * kCounts + count_bin(count)) * kRests + rest_bin(rest)) * 2 +
         (newest ? 1 : 0);
}
inline int pointer_state(int pointer, std::uint32_t length, bool agrees) {
  return kCellStates + (pointer * kLengths + length_bin(length)) * 2 + (agrees ? 1 : 0);
}

// How often the token itself was used: by this request, and by all.
inline int use_state(std::uint32_t own, std::uint32_t shared) {
  const int mine = own <= 3 ? static_cast<int>(own) : own <= 6 ? 4 : own <= 15 ? 5 : 6;
  static constexpr std::array<std::uint32_t, kSharedUse - 1> kSteps = {1, 3, 8, 20, 60, 200, 1000};
  const auto all = static_cast<int>(std::upper_bound(kSteps.begin(), kSteps.end(), shared) - kSteps.begin());
  return kCellStates + kPointerStates + mine * kSharedUse + all;
}

// What the experts say about one candidate. State -1: the expert has nothing to say.
struct Evidence {
  std::array<std::int16_t, kVoices> states;
  Evidence() { states.fill(-1); }
};

class Mixer {
 public:
  explicit Mixer(float local_weight) { reset(local_weight); }

  float probability(const Evidence& evidence, int set) const {
    std::array<float, kInputs> inputs;
    read(evidence, inputs);
    return squash(dot(inputs, set, key(evidence, 0), key(evidence, 1)));
  }

  void learn(const Evidence& evidence, int set, bool came) {
    std::array<float, kInputs> inputs;
    read(evidence, inputs);
    const int own = key(evidence, 0);
    const int shared = key(evidence, 1);
    const float error = (came ? 1.0F : 0.0F) - squash(dot(inputs, set, own, shared));
    for (int i = 0; i < kInputs; ++i) {
      const float step = error * inputs[i];
      all_[i] += kAllRate * step;
      sets_[set][i] += kSetRate * step;
      by_own_[own][i] += kKeyRate * step;
      by_shared_[shared][i] += kKeyRate * step;
    }
    for (const std::int16_t state : evidence.states) {
      if (state >= 0) move(states_[state], came);
    }
  }

  template <class Visitor>
  void visit(Visitor&& visitor) {
    visitor(states_), visitor(all_), visitor(sets_), visitor(by_own_), visitor(by_shared_);
  }

 private:
  using Weights = std::array<float, kInputs>;

  static constexpr float kAllRate = 0.002F;
  static constexpr float kSetRate = 0.01F;
  static constexpr float kKeyRate = 0.003F;
  static constexpr float kConstant = 0.3F;
  static constexpr float kFirstSeen = 4.0F;   // what the first guess of a state weighs, in observations
  static constexpr float kMostSeen = 200.0F;  // the memory of a state, in observations

  struct Rate {
    float p;
    float logit;
    float seen;
  };

  void read(const Evidence& evidence, Weights& inputs) const {
    for (int i = 0; i < kVoices; ++i) inputs[i] = evidence.states[i] < 0 ? 0.0F : states_[evidence.states[i]].logit;
    inputs[kVoices] = kConstant;
  }
  float dot(const Weights& inputs, int set, int own, int shared) const {
    float sum = 0;
    for (int i = 0; i < kInputs; ++i) {
      sum += inputs[i] * (all_[i] + sets_[set][i] + by_own_[own][i] + by_shared_[shared][i]);
    }
    return std::clamp(sum, -8.0F, 8.0F);
  }
  // The counts of the longest context of a source; 0: it has none.
  static int key(const Evidence& evidence, int source) {
    const int state = evidence.states[source * kRanks];
    return state < 0 ? 0 : 1 + state / 2 % (kCounts * kRests);
  }
  static void move(Rate& rate, bool came) {
    rate.seen = std::min(rate.seen + 1.0F, kMostSeen);
    rate.p = std::clamp(rate.p + ((came ? 1.0F : 0.0F) - rate.p) / rate.seen, 0.002F, 0.998F);
    rate.logit = stretch(rate.p);
  }
  static void begin(Rate& rate, float p) {
    const float bounded = std::clamp(p, 0.002F, 0.998F);
    rate = {bounded, stretch(bounded), kFirstSeen};
  }

  void reset(float local_weight);
  void reset_cells();
  void reset_matches();

  std::array<Rate, kStates> states_;
  Weights all_;
  std::array<Weights, kWeightSets> sets_;
  std::array<Weights, kKeys> by_own_;
  std::array<Weights, kKeys> by_shared_;
};

// First guesses, by hand: longer contexts and longer matches are right more often. What is seen replaces them soon.
inline void Mixer::reset_cells() {
  static constexpr std::array<float, 8> kDoubt = {4.0F, 2.2F, 1.3F, 0.9F, 0.7F, 0.55F, 0.45F, 0.4F};
  static constexpr std::array<float, kCounts> kCountOf = {0, 1, 2, 3, 4.5F, 8, 16};
  static constexpr std::array<float, kRests> kRestOf = {0, 1, 2, 4, 9, 20};
  for (int at = 0; at < kCellStates; at += 2) {
    const int rest = at / 2 % kRests;
    const int count = at / 2 / kRests % kCounts;
    const int order = at / 2 / kRests / kCounts % kOrders + 1;
    const float doubt = kDoubt[std::min(order, 8) - 1];
    const float total = kCountOf[count] + kRestOf[rest];
    const float p = count == 0 ? 0.2F * doubt / (total + doubt) : kCountOf[count] / (total + doubt);
    begin(states_[at], p * 0.85F);
    begin(states_[at + 1], p);
  }
}

inline void Mixer::reset_matches() {
  static constexpr std::array<float, kLengths> kRightOf = {0.1F,  0.2F, 0.35F, 0.45F, 0.55F, 0.6F,  0.65F, 0.7F,
                                                           0.75F, 0.8F, 0.85F, 0.9F,  0.93F, 0.95F, 0.96F, 0.98F};
  for (int at = 0; at < kPointerStates; at += 2) {
    const float p = kRightOf[at / 2 % kLengths];
    begin(states_[kCellStates + at], (1.0F - p) * 0.3F);
    begin(states_[kCellStates + at + 1], p);
  }
  for (int at = 0; at < kUseStates; ++at) {
    const float p = 0.3F + (at / kSharedUse > 0 ? 0.2F : 0.0F) + 0.02F * static_cast<float>(at % kSharedUse);
    begin(states_[kCellStates + kPointerStates + at], p);
  }
}

inline void Mixer::reset(float local_weight) {
  static constexpr Weights kFirst = {0.45F, 0.2F, 0.1F, 0.1F, 0.45F, 0.2F, 0.1F, 0.1F, 0.3F, 0.3F, 0.2F, 0.2F, 0.0F};
  reset_cells();
  reset_matches();
  all_ = kFirst;
  for (int i = 0; i < kRanks; ++i) all_[i] *= local_weight;
  for (Weights& set : sets_) set.fill(0.0F);
  for (Weights& set : by_own_) set.fill(0.0F);
  for (Weights& set : by_shared_) set.fill(0.0F);
}

}  // namespace windlass
