// Threads that go through one task side by side and meet at barriers inside it.
//
// `Threads` hands out rows that do not depend on one another; a pass of a decoder has some hundred short parts that do.
// So these wait for one another by spinning, and sleep when no task came for a while.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "../pause.h"

namespace windlass {

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): words that threads spin on have lines of their own
class Crew {
 public:
  // The calling thread is number 0, so `count` - 1 are started; fewer where the system has no more.
  explicit Crew(int count) {
    try {
      for (int id = 1; id < count; ++id) workers_.emplace_back([this, id] { serve(id); });
    } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): those that started will do
    }
  }
  ~Crew() {
    publish(nullptr);
    for (std::thread& worker : workers_) worker.join();
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls task(0) … task(size() - 1) side by side and returns when all are done. The task must not throw.
  void run(const std::function<void(int)>& task) {
    if (!workers_.empty()) publish(&task);
    task(0);
    meet();
  }
  // Inside a task: nobody goes on before all are here.
  void meet() {
    if (workers_.empty()) return;
    const std::size_t before = meetings_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) == workers_.size()) {
      arrived_.store(0, std::memory_order_relaxed);
      meetings_.store(before + 1, std::memory_order_release);
      return;
    }
    for (int looks = 0; meetings_.load(std::memory_order_acquire) == before; ++looks) {
      if (looks < kLooks) {
        pause();
      } else {
        std::this_thread::yield();  // the missing one may wait for this very processor
      }
    }
  }

 private:
  static constexpr int kLooks = 2000;                            // some 50 us
  static constexpr auto kSpin = std::chrono::microseconds(300);  // the next pass of a chain comes at once

  // A task, or null as the end of all.
  void publish(const std::function<void(int)>* task) {
    bool are_asleep = false;
    {
      const std::lock_guard lock(mutex_);
      task_ = task;
      round_.fetch_add(1, std::memory_order_release);
      are_asleep = sleeping_ > 0;
    }
    if (are_asleep) wake_.notify_all();
  }
  void serve(int id) {
    for (std::size_t seen = 0;; ++seen) {  // nobody misses a round: it ends when all have met
      const auto until = std::chrono::steady_clock::now() + kSpin;
      while (round_.load(std::memory_order_relaxed) == seen && std::chrono::steady_clock::now() < until) pause();
      if (round_.load(std::memory_order_acquire) == seen) {
        std::unique_lock lock(mutex_);
        ++sleeping_;
        wake_.wait(lock, [&] { return round_.load(std::memory_order_acquire) != seen; });
        --sleeping_;
      }
      if (task_ == nullptr) return;
      (*task_)(id);
      meet();
    }
  }

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  const std::function<void(int)>* task_ = nullptr;
  int sleeping_ = 0;
  std::atomic<std::size_t> round_{0};
  alignas(64) std::atomic<std::size_t> arrived_{0};
  alignas(64) std::atomic<std::size_t> meetings_{0};
};

// The part of `count` units that thread `id` of `size` does.
struct Share {
  int from;
  int to;
};
inline Share share(int count, int id, int size) {
  const auto edge = [&](int part) { return static_cast<int>(static_cast<std::int64_t>(count) * part / size); };
  return {edge(id), edge(id + 1)};
}

}  // namespace windlass
