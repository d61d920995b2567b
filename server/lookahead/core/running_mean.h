// A mean that looks back over so many values.
#pragma once

#include <algorithm>

namespace windlass {

struct RunningMean {
  double mean = 0;
  double seen = 0;  // values

  void add(double value, double memory) {
    seen += 1;
    mean += (value - mean) / std::min(seen, memory);
  }
  // A value counts as `times` the mean at most.
  void add_capped(double value, double memory, double times) {
    add(seen > 0 ? std::min(value, times * mean) : value, memory);
  }
};

}  // namespace windlass
