// The time that decisions go by: the steady clock or, in tests, a simulated time.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <thread>
#include <utility>

namespace windlass {

// A time that passes only where one thread says so. An hour of the clock is over when it begins.
class SimulatedTime {
 public:
  using Point = std::chrono::steady_clock::time_point;
  using Span = std::chrono::steady_clock::duration;

  Point now() const { return now_; }
  void pass(Span span) {
    now_ += span;
    for (auto due = words_.begin(); due != words_.end() && due->first <= now_; due = words_.erase(due))
      __atomic_store_n(due->second.first, due->second.second, __ATOMIC_RELEASE);
  }
  // Writes a word of memory at a point in time, as a device does; at once where that is over.
  void write_at(Point when, std::uint32_t* word, std::uint32_t value) {
    words_.emplace(when, std::pair(word, value));
    pass({});
  }
  void sleep(Span span) {
    slept_ += span;
    pass(span);
  }
  // The part of the time that was slept.
  Span slept() const { return slept_; }

 private:
  Point now_{std::chrono::hours(1)};
  Span slept_{};
  std::multimap<Point, std::pair<std::uint32_t*, std::uint32_t>> words_;
};

class Clock {
 public:
  using Point = SimulatedTime::Point;
  using Span = SimulatedTime::Span;

  Clock() = default;
  // Reading it takes `look` of a simulated time, so that a loop which looks at it ends. Null is the steady clock.
  explicit Clock(std::shared_ptr<SimulatedTime> time, Span look = std::chrono::microseconds(5))
      : time_(std::move(time)), look_(look) {}

  Point now() const {
    if (time_ == nullptr) return std::chrono::steady_clock::now();
    time_->pass(look_);
    return time_->now();
  }
  double us_since(Point then) const { return std::chrono::duration<double, std::micro>(now() - then).count(); }
  void sleep(Span span) const {
    if (time_ == nullptr) {
      std::this_thread::sleep_for(span);
    } else {
      time_->sleep(span);
    }
  }

 private:
  std::shared_ptr<SimulatedTime> time_;
  Span look_{};
};

}  // namespace windlass
