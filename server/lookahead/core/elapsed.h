// Microseconds since a point in time.
#pragma once

#include <chrono>

namespace windlass {

inline double us_since(std::chrono::steady_clock::time_point then) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - then).count();
}

}  // namespace windlass
