// What the files of the Python face share.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <vector>

#include "host_drafter.h"

namespace windlass::bindings {

namespace nb = nanobind;

// Token ids of a list or an array. Throws ValueError for one below 0 or too large.
std::vector<Token> tokens_of(nb::handle ids);

template <class Value>
void take(const nb::dict& values, const char* name, Value& value) {
  value = nb::cast<Value>(values[name]);
}

// A drafter that Python made. One RoundTrip has it at a time, since one thread may call it.
struct OwnedDrafter {
  std::shared_ptr<windlass::HostDrafter> drafter;

  std::shared_ptr<windlass::HostDrafter> take() const {
    if (drafter.use_count() > 1) throw nb::value_error("this drafter is in use already; make another.");
    return drafter;
  }
};

// Adds DraftWeights, DraftModel and the drafters.
void bind_draft_models(nb::module_& module);

}  // namespace windlass::bindings
