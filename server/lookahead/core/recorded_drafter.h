// Drafts recorded text with a chosen acceptance, in the time that another drafter takes. For tests and measurements:
// the curve of a draft model over its acceptance needs no trained model.
#pragma once

#include <chrono>
#include <memory>
#include <random>
#include <thread>
#include <unordered_map>
#include <utility>

#include "host_drafter.h"

namespace windlass {

class RecordedDrafter : public HostDrafter {
 public:
  // Each token is the recorded one with probability `acceptance`. Without an `inner` drafter a pass over the rows takes
  // `pass_ms`; with one its drafts are made and thrown away.
  RecordedDrafter(std::shared_ptr<HostDrafter> inner, double acceptance, double pass_ms, unsigned seed)
      : inner_(std::move(inner)), is_right_(acceptance), pass_ms_(pass_ms), random_(seed) {}

  // What follows a prompt; to be called before its request begins.
  void record(const std::vector<Token>& prompt, std::vector<Token> output) {
    outputs_[hash_of(prompt)] = std::move(output);
  }

  void begin(const std::string& key, std::span<const Token> tokens) override {
    const auto found = outputs_.find(hash_of(tokens));
    rows_[key] = {found == outputs_.end() ? nullptr : &found->second, 0};
    if (inner_) inner_->begin(key, tokens);
  }
  void append(const std::string& key, std::span<const Token> tokens) override {
    if (const auto found = rows_.find(key); found != rows_.end()) found->second.at += tokens.size();
    if (inner_) inner_->append(key, tokens);
  }
  void finish(const std::string& key) override {
    rows_.erase(key);
    if (inner_) inner_->finish(key);
  }
  bool ready(const std::string& key) const override { return inner_ ? inner_->ready(key) : rows_.contains(key); }
  bool work(double budget_us) override { return inner_ && inner_->work(budget_us); }
  void draft(std::span<const std::string> keys, int k, std::vector<std::vector<Token>>& chains) override {
    if (inner_) {
      inner_->draft(keys, k, chains);
    } else {
      std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(pass_ms_ * k));
      chains.assign(keys.size(), std::vector<Token>(static_cast<std::size_t>(k)));
    }
    for (std::size_t i = 0; i < keys.size(); ++i) replace(rows_[keys[i]], chains[i]);
  }
  double draft_ms(int rows, int k) const override { return inner_ ? inner_->draft_ms(rows, k) : pass_ms_ * k; }
  int window() const override { return inner_ ? inner_->window() : 1024; }

 private:
  struct Row {
    const std::vector<Token>* output = nullptr;
    std::size_t at = 0;  // tokens of it that the text has
  };

  static std::uint64_t hash_of(std::span<const Token> tokens) {
    std::uint64_t sum = 0xCBF29CE484222325ULL;
    for (const Token token : tokens) sum = (sum ^ token) * 0x100000001B3ULL;
    return sum;
  }
  // Token 0 stands for a wrong draft, 1 where 0 is the recorded one.
  void replace(const Row& row, std::vector<Token>& chain) {
    for (std::size_t i = 0; i < chain.size(); ++i) {
      const bool is_known = row.output != nullptr && row.at + i < row.output->size();
      const Token recorded = is_known ? (*row.output)[row.at + i] : 0;
      chain[i] = is_known && is_right_(random_) ? recorded : recorded == 0;
    }
  }

  std::shared_ptr<HostDrafter> inner_;
  std::bernoulli_distribution is_right_;
  double pass_ms_;
  std::mt19937 random_;
  std::unordered_map<std::uint64_t, std::vector<Token>> outputs_;  // by the hash of the prompt
  std::unordered_map<std::string, Row> rows_;
};

}  // namespace windlass
