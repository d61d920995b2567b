// Threads that go through the phases of one task side by side.
//
// `Threads` hands out rows that do not depend on one another; a pass of a decoder has some hundred short phases that
// do. So these wait for one another by spinning, and sleep when no task came for a while. A phase waits for its parts,
// not for threads: one that is put off its processor holds up nobody, unless it has a part in hand.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
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
  explicit Crew(int count) : claims_(static_cast<std::size_t>(std::max(count, 1))) {
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

  // What a task knows of its thread.
  struct Place {
    int id;
    std::uint64_t phase;  // phases that lie behind it, of all tasks
  };

  // Calls the task once on each thread, side by side, and returns when all have left it. It must not throw, and all
  // threads go through the same phases.
  void run(const std::function<void(Place&)>& task) {
    Place place{0, phase_};
    if (!workers_.empty()) publish(&task);
    task(place);
    await([&] { return left_.load(std::memory_order_acquire) == workers_.size(); }, [] {});
    left_.store(0, std::memory_order_relaxed);
    phase_ = place.phase;
  }
  // Inside a task: work(0) … work(size() - 1) are called, each once, and nobody goes on before all are done. A thread
  // does its own part; a part whose thread is late is done by one that waits.
  template <class Work>
  void together(Place& place, const Work& work) {
    const std::uint64_t phase = ++place.phase;
    const std::uint64_t target = phase * static_cast<std::uint64_t>(size());
    const auto is_over = [&] { return done_.load(std::memory_order_acquire) >= target; };
    if (is_over()) return;
    take(place.id, phase, work);
    await(is_over, [&] {
      for (int part = 0; part < size(); ++part) take(part, phase, work);
    });
  }

 private:
  static constexpr int kPatience = 64;                           // looks, some 2 us, before a thread helps others
  static constexpr int kLooks = 2000;                            // some 50 us
  static constexpr auto kSpin = std::chrono::microseconds(300);  // the next pass of a chain comes at once

  struct alignas(64) Claim {
    std::atomic<std::uint64_t> phase{0};  // the last one in which somebody took this part
  };

  template <class Over, class Help>
  static void await(const Over& is_over, const Help& help) {
    for (int looks = 1; !is_over(); ++looks) {
      if (looks % kPatience == 0) help();
      if (looks < kLooks) {
        pause();
      } else {
        std::this_thread::yield();  // the missing one may wait for this very processor
      }
    }
  }
  template <class Work>
  void take(int part, std::uint64_t phase, const Work& work) {
    std::atomic<std::uint64_t>& claim = claims_[static_cast<std::size_t>(part)].phase;
    std::uint64_t last = claim.load(std::memory_order_relaxed);
    if (last >= phase || !claim.compare_exchange_strong(last, phase, std::memory_order_acq_rel)) return;
    work(part);
    done_.fetch_add(1, std::memory_order_acq_rel);
  }
  // A task, or null as the end of all.
  void publish(const std::function<void(Place&)>* task) {
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
    for (std::size_t seen = 0;; ++seen) {  // nobody misses a round: it ends when all have left
      const auto until = std::chrono::steady_clock::now() + kSpin;
      while (round_.load(std::memory_order_relaxed) == seen && std::chrono::steady_clock::now() < until) pause();
      if (round_.load(std::memory_order_acquire) == seen) {
        std::unique_lock lock(mutex_);
        ++sleeping_;
        wake_.wait(lock, [&] { return round_.load(std::memory_order_acquire) != seen; });
        --sleeping_;
      }
      if (task_ == nullptr) return;
      Place place{id, phase_};
      (*task_)(place);
      left_.fetch_add(1, std::memory_order_release);
    }
  }

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  const std::function<void(Place&)>* task_ = nullptr;
  std::uint64_t phase_ = 0;  // phases of all tasks that ended
  int sleeping_ = 0;
  std::atomic<std::size_t> round_{0};
  std::vector<Claim> claims_;                       // of each part
  alignas(64) std::atomic<std::uint64_t> done_{0};  // parts of all phases
  alignas(64) std::atomic<std::size_t> left_{0};    // workers that are out of the task
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
