// Memory for a large table on large pages: a look-up at random then misses the address cache far less often.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace windlass {

constexpr std::size_t kLargePage = std::size_t{2} << 20;

template <class T>
struct LargePages {
  using value_type = T;
  LargePages() = default;
  template <class U>
  LargePages(const LargePages<U>&) {}  // NOLINT(misc-explicit-constructor): an allocator converts by itself

  T* allocate(std::size_t count) {
    const std::size_t align = count * sizeof(T) >= 4 * kLargePage ? kLargePage : std::size_t{64};
    const std::size_t bytes = (count * sizeof(T) + align - 1) / align * align;
    void* memory = std::aligned_alloc(align, bytes);
    if (memory == nullptr) throw std::bad_alloc();
#ifdef __linux__
    if (align == kLargePage) madvise(memory, bytes, MADV_HUGEPAGE);  // advice: without it all works as well
#endif
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t) { std::free(memory); }
  friend bool operator==(const LargePages&, const LargePages&) { return true; }
};

}  // namespace windlass
