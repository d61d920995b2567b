// Drafts recorded text with a chosen acceptance, in the time that the drafter beneath takes, whose drafts are thrown
// away. For tests and measurements: the curve of a draft model over its acceptance needs no trained model. A text is
// known by its last eight tokens, so no eight tokens may come twice in the texts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "host_drafter.h"

namespace windlass {

class RecordedDrafter : public HostDrafter {
 public:
  // Each token is the recorded one with probability `acceptance`.
  RecordedDrafter(std::shared_ptr<HostDrafter> inner, double acceptance, unsigned seed)
      : inner_(std::move(inner)), is_right_(acceptance), random_(seed) {}

  // What follows a prompt; to be called before its request begins.
  void record(std::vector<Token> prompt, const std::vector<Token>& output) {
    const std::size_t prompt_length = prompt.size();
    std::vector<Token> text = std::move(prompt);
    text.insert(text.end(), output.begin(), output.end());
    for (std::size_t end = prompt_length; end <= text.size(); ++end)
      places_[end_of(std::span(text).first(end))] = {texts_.size(), end};
    texts_.push_back(std::move(text));
  }

  // A text may begin anywhere and end behind the prompt, as where a drafter that rested reads it again.
  void begin(const std::string& key, std::span<const Token> tokens) override {
    const auto found = places_.find(end_of(tokens));
    rows_[key] = found == places_.end() ? Place{kNone, 0} : found->second;
    inner_->begin(key, tokens);
  }
  void append(const std::string& key, std::span<const Token> tokens) override {
    if (const auto found = rows_.find(key); found != rows_.end()) found->second.end += tokens.size();
    inner_->append(key, tokens);
  }
  void finish(const std::string& key) override {
    rows_.erase(key);
    inner_->finish(key);
  }
  bool ready(const std::string& key) const override { return inner_->ready(key); }
  bool work(double budget_us) override { return inner_->work(budget_us); }
  void draft(std::span<const std::string> keys, int k, bool is_trial,
             std::vector<std::vector<Token>>& chains) override {
    inner_->draft(keys, k, is_trial, chains);
    for (std::size_t i = 0; i < keys.size(); ++i) replace(rows_[keys[i]], chains[i]);
  }
  double draft_ms(int rows, int k) const override { return inner_->draft_ms(rows, k); }
  std::size_t rows() const override { return inner_->rows(); }
  int window() const override { return inner_->window(); }

 private:
  struct Place {
    std::size_t text;
    std::size_t end;  // tokens of it that the row has
  };
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t kEnd = 8;  // tokens at its end by which a text is known

  static std::uint64_t end_of(std::span<const Token> tokens) {
    std::uint64_t sum = 0xCBF29CE484222325ULL;
    for (const Token token : tokens.last(std::min(kEnd, tokens.size()))) sum = (sum ^ token) * 0x100000001B3ULL;
    return sum;
  }
  // Token 0 stands for a wrong draft, 1 where 0 is the recorded one.
  void replace(const Place& row, std::vector<Token>& chain) {
    for (std::size_t i = 0; i < chain.size(); ++i) {
      const bool is_known = row.text != kNone && row.end + i < texts_[row.text].size();
      const Token recorded = is_known ? texts_[row.text][row.end + i] : 0;
      chain[i] = is_known && is_right_(random_) ? recorded : recorded == 0;
    }
  }

  std::shared_ptr<HostDrafter> inner_;
  std::bernoulli_distribution is_right_;
  std::mt19937 random_;
  std::vector<std::vector<Token>> texts_;
  std::unordered_map<std::uint64_t, Place> places_;  // by the end of a text
  std::unordered_map<std::string, Place> rows_;
};

}  // namespace windlass
