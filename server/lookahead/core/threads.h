// A few threads that share the rows of one batch. Rows do not depend on one another, so the outcome is that of one thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace windlass {

class Threads {
 public:
  // The calling thread works too, so `count` - 1 are started.
  explicit Threads(int count) {
    for (int i = 1; i < count; ++i) workers_.emplace_back([this] { serve(); });
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

  // Calls work(0) … work(rows - 1), each once, and returns when all are done. `work` must not throw.
  void each(std::size_t rows, const std::function<void(std::size_t)>& work) {
    {
      const std::lock_guard lock(mutex_);
      work_ = &work;
      rows_ = rows;
      taken_.store(0);
      busy_ = workers_.size();
      ++round_;
    }
    wake_.notify_all();
    take();
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return busy_ == 0; });
  }

 private:
  static constexpr std::size_t kRowsAtOnce = 4;

  void take() {
    for (std::size_t first = taken_.fetch_add(kRowsAtOnce); first < rows_; first = taken_.fetch_add(kRowsAtOnce)) {
      for (std::size_t row = first; row < rows_ && row < first + kRowsAtOnce; ++row) (*work_)(row);
    }
  }
  void serve() {
    std::size_t seen = 0;
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return stopping_ || round_ != seen; });
        if (stopping_) return;
        seen = round_;
      }
      take();
      const std::lock_guard lock(mutex_);
      if (--busy_ == 0) done_.notify_one();
    }
  }

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  const std::function<void(std::size_t)>* work_ = nullptr;
  std::size_t rows_ = 0;
  std::size_t busy_ = 0;
  std::size_t round_ = 0;
  bool stopping_ = false;
  std::atomic<std::size_t> taken_{0};
};

}  // namespace windlass
