// A few threads that share the rows of one batch. Rows do not depend on one another, so the outcome is that of one
// thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "pause.h"

namespace windlass {

class Threads {
 public:
  static constexpr double kFirstUs = 10;  // of a row, before one was timed

  // The calling thread works too, so `count` - 1 are started.
  explicit Threads(int count) {
    try {
      for (int i = 1; i < count; ++i) workers_.emplace_back([this] { serve(); });
    } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): no more threads are to be had
    }
  }
  ~Threads() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  // Calls work(0) … work(rows - 1), each once, and returns when all are done. Throws what the first of them threw.
  // `row_us` is what a row takes, kept up here: no more threads are woken than that is worth, and one that wakes up too
  // late to help is not waited for.
  void each(std::size_t rows, double& row_us, const std::function<void(std::size_t)>& work) {
    const auto helpers =
        std::min(workers_.size(), static_cast<std::size_t>(static_cast<double>(rows) * row_us / kWorthWakingUs));
    {
      const std::lock_guard lock(mutex_);
      work_ = &work;
      rows_ = rows;
      taken_.store(0);
      open_ = true;
      ++round_;
    }
    for (std::size_t i = 0; i < helpers; ++i) wake_.notify_one();
    const auto begun = std::chrono::steady_clock::now();
    const std::size_t done = take();
    const double took_us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begun).count();
    if (done > 0) row_us += kSlow * (std::min(took_us / static_cast<double>(done), kLongUs) - row_us);
    {
      const std::lock_guard lock(mutex_);
      open_ = false;
    }
    for (int looks = 0; active_.load(std::memory_order_acquire) != 0; ++looks) {  // each has at most a few rows left
      if (looks < kLooks) {
        pause();
      } else {
        std::this_thread::yield();  // it may wait for this very processor
      }
    }
    if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
  }

 private:
  static constexpr std::size_t kRowsAtOnce = 2;
  static constexpr double kWorthWakingUs = 50;  // of work for each thread: waking one takes some of it
  static constexpr double kSlow = 0.2;          // weight of the newest figure in the running mean
  static constexpr double kLongUs = 100;        // no longer row is counted: its thread was put off its processor
  static constexpr int kLooks = 1000;
  static constexpr auto kSpin = std::chrono::microseconds(20);  // the next call often comes at once

  // Rows that the calling thread did.
  std::size_t take() {
    std::size_t done = 0;
    for (std::size_t first = taken_.fetch_add(kRowsAtOnce); first < rows_; first = taken_.fetch_add(kRowsAtOnce)) {
      for (std::size_t row = first; row < rows_ && row < first + kRowsAtOnce; ++row) {
        try {
          (*work_)(row);
        } catch (...) {
          const std::lock_guard lock(mutex_);
          if (!thrown_) thrown_ = std::current_exception();
        }
        ++done;
      }
    }
    return done;
  }
  void serve() {
    for (std::size_t seen = 0;;) {
      const auto until = std::chrono::steady_clock::now() + kSpin;
      while (round_.load(std::memory_order_relaxed) == seen && std::chrono::steady_clock::now() < until) pause();
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return stopping_ || (open_ && round_ != seen); });
        if (stopping_) return;
        seen = round_;
        active_.fetch_add(1);
      }
      take();
      active_.fetch_sub(1, std::memory_order_release);
    }
  }

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  const std::function<void(std::size_t)>* work_ = nullptr;
  std::size_t rows_ = 0;
  std::exception_ptr thrown_;
  bool open_ = false;
  bool stopping_ = false;
  std::atomic<std::size_t> round_{0};
  std::atomic<std::size_t> active_{0};
  std::atomic<std::size_t> taken_{0};
};

}  // namespace windlass
