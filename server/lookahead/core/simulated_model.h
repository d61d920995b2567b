// A draft model of tests: it computes nothing, and its work takes the time that the test states.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "clock.h"
#include "draft_model/draft_time.h"
#include "host_drafter.h"

namespace windlass {

// Times of a processor, which may become faster or slower meanwhile.
struct ModelTimes {
  ModelTimes(double token_us, double pass_us) : token_us(token_us), pass_us(pass_us) {}

  double token_us;      // to read a token of a text
  double pass_us;       // to draft a token of each row
  double spent_us = 0;  // of all work until now
};

class SimulatedModel : public HostDrafter {
 public:
  // Texts of `rows` rows have a key-value cache at a time.
  SimulatedModel(Clock clock, std::shared_ptr<ModelTimes> times, std::size_t rows)
      : clock_(std::move(clock)), times_(std::move(times)), rows_max_(rows), time_(passes_ms(*times_)) {}

  void begin(const std::string& key, std::span<const Token> tokens) override { rows_[key] = {tokens.size(), 0, false}; }
  void append(const std::string& key, std::span<const Token> tokens) override {
    if (const auto found = rows_.find(key); found != rows_.end()) found->second.length += tokens.size();
  }
  void finish(const std::string& key) override { rows_.erase(key); }
  bool ready(const std::string& key) const override {
    const auto found = rows_.find(key);
    return found != rows_.end() && found->second.length > 0 && pending(found->second) <= kNewest &&
           has_room(found->second);
  }
  bool work(double budget_us) override {
    double spent_us = 0;
    for (auto& [key, row] : rows_) {
      while (pending(row) > kNewest && has_room(row)) {
        const double slice_us = kSlice * times_->token_us;
        if (spent_us > 0 && spent_us + slice_us > budget_us) return true;
        spend(slice_us);
        spent_us += slice_us;
        row.is_cached = true;
        row.read += kSlice;
      }
    }
    return false;
  }
  void draft(std::span<const std::string> keys, int k, bool is_trial,
             std::vector<std::vector<Token>>& chains) override {
    chains.assign(keys.size(), {});
    std::size_t read = 0;
    int rows = 0;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (!ready(keys[i])) continue;
      Row& row = rows_.at(keys[i]);
      read += std::max<std::size_t>(1, pending(row));
      row.read = row.length;
      row.is_cached = true;
      chains[i].resize(static_cast<std::size_t>(k));
      rows += 1;
    }
    if (rows == 0) return;
    const double took_us = k * times_->pass_us;
    spend(took_us);
    if (is_trial) {
      time_.tried(read, k, took_us / kUsInMs);
    } else {
      time_.took(rows, read, k, took_us / kUsInMs);
    }
  }
  double draft_ms(int rows, int k) const override { return time_.draft_ms(rows, k); }
  std::size_t rows() const override { return rows_max_; }
  int window() const override { return kWindow; }

 private:
  struct Row {
    std::size_t length;
    std::size_t read;
    bool is_cached;
  };
  static constexpr double kUsInMs = 1000;
  static constexpr std::size_t kNewest = 16;  // tokens that a draft reads at most, as DraftModel's
  static constexpr std::size_t kSlice = 4;    // tokens that are read at once; a layer of DraftModel's takes as long
  static constexpr int kWindow = 1024;

  static std::size_t pending(const Row& row) { return row.length - row.read; }
  static std::array<double, DraftTime::kKnots.size()> passes_ms(const ModelTimes& times) {
    std::array<double, DraftTime::kKnots.size()> knots_ms{};
    knots_ms.fill(times.pass_us / kUsInMs);
    return knots_ms;
  }
  bool has_room(const Row& row) const {
    const auto cached = std::count_if(rows_.begin(), rows_.end(), [](const auto& one) { return one.second.is_cached; });
    return row.is_cached || static_cast<std::size_t>(cached) < rows_max_;
  }
  void spend(double us) {
    times_->spent_us += us;
    clock_.sleep(std::chrono::duration_cast<Clock::Span>(std::chrono::duration<double, std::micro>(us)));
  }

  Clock clock_;
  std::shared_ptr<ModelTimes> times_;
  std::size_t rows_max_;
  DraftTime time_;
  std::map<std::string, Row> rows_;
};

}  // namespace windlass
