// The Python face of the core. Lists and arrays of token ids come in, lists go out; the interpreter lock is free
// meanwhile.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "cache.h"
#include "clock.h"
#include "round_trip.h"

namespace nb = nanobind;
using windlass::Cache;
using windlass::Counts;
using windlass::Draft;
using windlass::Options;
using windlass::Token;
using windlass::bindings::OwnedDrafter;
using windlass::bindings::take;
using windlass::bindings::tokens_of;

namespace {

template <class Integer>
using Ids = nb::ndarray<const Integer, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

[[noreturn]] void refuse(std::size_t index) {
  throw nb::value_error(("the token id at index " + std::to_string(index) + " is not an integer from 0 up.").c_str());
}

template <class Integer>
std::vector<Token> from_array(const Ids<Integer>& ids) {
  std::vector<Token> tokens(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto id = static_cast<std::int64_t>(ids.data()[i]);
    if (id < 0 || id >= windlass::kNoToken) refuse(i);
    tokens[i] = static_cast<Token>(id);
  }
  return tokens;
}

}  // namespace

std::vector<Token> windlass::bindings::tokens_of(nb::handle ids) {
  Ids<std::int32_t> narrow;
  if (nb::try_cast(ids, narrow, false)) return from_array(narrow);
  Ids<std::int64_t> wide;
  if (nb::try_cast(ids, wide, false)) return from_array(wide);
  std::vector<Token> tokens;
  for (const nb::handle item : ids) {
    std::int64_t id = 0;
    if (!nb::try_cast(item, id, false) || id < 0 || id >= windlass::kNoToken) refuse(tokens.size());
    tokens.push_back(static_cast<Token>(id));
  }
  return tokens;
}

namespace {

Options options_of(const nb::dict& values) {
  Options options;
  options.mode = static_cast<windlass::Mode>(nb::cast<int>(values["cache_mode"]));
  take(values, "cache_size", options.cache_size);
  take(values, "copy_length", options.copy_length);
  take(values, "match_length", options.match_length);
  take(values, "turbo_match_length", options.turbo_match_length);
  take(values, "min_match_length", options.min_match_length);
  take(values, "cell_max_size", options.cell_max_size);
  take(values, "voc_size", options.voc_size);
  take(values, "max_seq_len", options.max_seq_len);
  take(values, "eos_token_id", options.eos_token_id);
  take(values, "top_k", options.top_k);
  take(values, "threshold", options.threshold);
  take(values, "decay", options.decay);
  take(values, "is_hybrid", options.is_hybrid);
  take(values, "target_parallelism", options.target_parallelism);
  take(values, "top_k_in_cell", options.top_k_in_cell);
  take(values, "token_paths_top_k", options.token_paths_top_k);
  take(values, "start_freq", options.start_freq);
  take(values, "num_threads", options.num_threads);
  take(values, "global_cache_switch", options.global_cache_switch);
  take(values, "ignore_prompt", options.ignore_prompt);
  take(values, "min_gain", options.min_gain);
  return options;
}

nb::tuple counts_of(const Counts& counts) {
  return nb::make_tuple(counts.num_iters, counts.hit_iters, counts.hit_len, counts.lookahead_len);
}

std::vector<std::pair<std::vector<Token>, std::vector<float>>> propose(Cache& cache,
                                                                       const std::vector<std::string>& ids,
                                                                       const std::vector<int>& most, float min_gain) {
  if (ids.size() != most.size()) throw nb::value_error("propose needs one limit for each request.");
  std::vector<Draft> drafts;
  {
    const nb::gil_scoped_release free;
    drafts = cache.propose(ids, most, min_gain);
  }
  std::vector<std::pair<std::vector<Token>, std::vector<float>>> rows;
  rows.reserve(drafts.size());
  for (Draft& draft : drafts) rows.emplace_back(std::move(draft.tokens), std::move(draft.probabilities));
  return rows;
}

void accept(Cache& cache, const std::vector<std::string>& ids, const nb::list& rows, const std::vector<int>& verified) {
  if (ids.size() != rows.size()) throw nb::value_error("accept needs one list of tokens for each request.");
  if (!verified.empty() && ids.size() != verified.size())
    throw nb::value_error("accept needs one number of verified drafts for each request.");
  std::vector<std::vector<Token>> tokens;
  tokens.reserve(ids.size());
  for (const nb::handle row : rows) tokens.push_back(tokens_of(row));
  const nb::gil_scoped_release free;
  cache.accept(ids, tokens, verified);
}

template <class Value>
Value* at(std::uintptr_t address) {
  return reinterpret_cast<Value*>(address);  // NOLINT(performance-no-int-to-ptr): pinned memory of the caller
}

void submit(windlass::RoundTrip& trip, std::uint32_t number, std::vector<std::string> finished, const nb::list& begun,
            std::vector<std::string> rows, bool wanted, int modelled) {
  windlass::Step step{number, std::move(finished), {}, std::move(rows), wanted, modelled};
  for (const nb::handle one : begun) {
    const auto pair = nb::cast<std::pair<std::string, nb::object>>(one);
    step.begun.emplace_back(pair.first, tokens_of(pair.second));
  }
  const nb::gil_scoped_release free;
  trip.submit(std::move(step));
}

int choose(windlass::RoundTrip& trip, const std::vector<std::string>& ids, const std::vector<int>& planned,
           const nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>& costs, int emitting,
           bool decoding) {
  if (ids.size() != planned.size())
    throw nb::value_error("choose needs one number of planned drafts for each request.");
  const std::vector<double> ms(costs.data(), costs.data() + costs.shape(0));
  return trip.choose(ids, planned, ms, emitting, decoding);
}

windlass::PolicyConfig policy_config_of(const nb::dict& values) {
  windlass::PolicyConfig config;
  std::size_t known = 0;
  windlass::visit_policy(config, [&](const char* name, auto& value) {
    if (!values.contains(name)) return;
    known += 1;
    take(values, name, value);
  });
  if (known != values.size()) throw nb::value_error("a number of the speculation policy has another name.");
  return config;
}

nb::dict policy_defaults() {
  nb::dict values;
  windlass::PolicyConfig config;
  windlass::visit_policy(config, [&](const char* name, const auto& value) { values[name] = value; });
  return values;
}

int drafts_to_verify(windlass::SpeculationPolicy& policy, const std::vector<std::string>& ids,
                     const std::vector<int>& planned, const std::vector<double>& costs_ms, int emitting,
                     bool is_decoding, int steps_behind) {
  if (ids.size() != planned.size()) throw nb::value_error("one number of planned drafts for each request is needed.");
  return policy.drafts_to_verify({ids, planned, costs_ms, emitting, is_decoding, steps_behind});
}

void bind_policy(nb::module_& module) {
  using windlass::SpeculationPolicy;
  module.def("policy_defaults", &policy_defaults);
  nb::class_<SpeculationPolicy>(module, "SpeculationPolicy")
      .def("__init__",
           [](SpeculationPolicy* self, int max_drafts, const nb::dict& config) {
             new (self) SpeculationPolicy(max_drafts, policy_config_of(config));
           })
      .def("doorbell", &SpeculationPolicy::doorbell)
      .def(
          "completed",
          [](SpeculationPolicy& policy, std::size_t rows, bool is_decoding, bool is_awaited, std::size_t verified,
             int modelled) { policy.completed({rows, is_decoding, is_awaited, verified, modelled}); },
          nb::arg("rows"), nb::arg("is_decoding"), nb::arg("is_awaited"), nb::arg("verified"), nb::arg("modelled") = 0)
      .def("update_planning", &SpeculationPolicy::update_planning)
      .def("new_request_tokens", &SpeculationPolicy::new_request_tokens)
      .def("expected_tokens", &SpeculationPolicy::expected_tokens)
      .def("is_awaited", &SpeculationPolicy::is_awaited)
      .def("draft_budget", &SpeculationPolicy::draft_budget)
      .def("drafted", &SpeculationPolicy::drafted)
      .def("abandon", &SpeculationPolicy::abandon)
      .def("finish", &SpeculationPolicy::finish)
      .def("drafts_to_verify", &drafts_to_verify)
      .def("add_model", &SpeculationPolicy::add_model)
      .def("model_judged", &SpeculationPolicy::model_judged)
      .def("model_tokens", &SpeculationPolicy::model_tokens)
      .def("model_drafts", &SpeculationPolicy::model_drafts, nb::arg("ids"), nb::arg("model_ms"),
           nb::arg("is_wanted") = true)
      .def("unread", &SpeculationPolicy::unread)
      .def("model_took", &SpeculationPolicy::model_took)
      .def("add_host_model", &SpeculationPolicy::add_host_model)
      .def("host_reads", &SpeculationPolicy::host_reads)
      .def("host_drafts", &SpeculationPolicy::host_drafts)
      .def("host_would_draft", &SpeculationPolicy::host_would_draft)
      .def("awaits_host", &SpeculationPolicy::awaits_host)
      .def("host_wait_us", &SpeculationPolicy::host_wait_us)
      .def_prop_ro("step_us", &SpeculationPolicy::step_us);
}

// Microseconds since the clock began.
double us_of(windlass::Clock::Point point) {
  return std::chrono::duration<double, std::micro>(point.time_since_epoch()).count();
}

void bind_simulated_time(const nb::module_& module) {
  using windlass::Clock;
  using windlass::SimulatedTime;
  const auto point_of = [](double us) {
    return Clock::Point(std::chrono::duration_cast<Clock::Span>(std::chrono::duration<double, std::micro>(us)));
  };
  nb::class_<SimulatedTime>(module, "SimulatedTime")
      .def(nb::init<>())
      .def_prop_ro("us", [](const SimulatedTime& time) { return us_of(time.now()); })
      .def_prop_ro("slept_us", [](const SimulatedTime& time) { return us_of(Clock::Point(time.slept())); })
      .def("write_at", [point_of](SimulatedTime& time, double us, std::uintptr_t word, std::uint32_t value) {
        time.write_at(point_of(us), at<std::uint32_t>(word), value);
      });
}

nb::tuple trip_counts(const windlass::RoundTrip& trip) {
  const windlass::TripCounts counts = trip.counts();
  return nb::make_tuple(counts.steps, counts.in_time, counts.later, counts.missed, counts.models, counts.lost,
                        counts.released, counts.wait_us, counts.step_us, counts.hosted, counts.host_us,
                        counts.host.rests, counts.host.wakes, counts.host.trials, counts.host.outrun, counts.rested);
}

}  // namespace

NB_MODULE(_core, module) {
  bind_policy(module);
  bind_simulated_time(module);
  windlass::bindings::bind_draft_models(module);
  nb::class_<Cache>(module, "Core")
      .def("__init__", [](Cache* self, const nb::dict& options) { new (self) Cache(options_of(options)); })
      .def("begin",
           [](Cache& cache, const std::string& id, nb::handle prompt) {
             const std::vector<Token> tokens = tokens_of(prompt);
             const nb::gil_scoped_release free;
             cache.begin(id, tokens);
           })
      .def("propose", &propose)
      .def("accept", &accept, nb::arg("ids"), nb::arg("rows"), nb::arg("verified") = std::vector<int>())
      .def("finish", &Cache::finish, nb::call_guard<nb::gil_scoped_release>())
      .def("teach",
           [](Cache& cache, nb::handle prompt, nb::handle output) {
             const std::vector<Token> prompt_ids = tokens_of(prompt);
             const std::vector<Token> output_ids = tokens_of(output);
             const nb::gil_scoped_release free;
             cache.teach(prompt_ids, output_ids);
           })
      .def("knows", &Cache::knows)
      .def("counts", [](const Cache& cache, const std::string& id) { return counts_of(cache.counts(id)); })
      .def("totals", [](const Cache& cache) { return counts_of(cache.totals()); })
      .def_prop_ro("requests_seen", &Cache::requests_seen)
      .def_prop_ro("active", &Cache::active)
      .def_prop_ro("entries", &Cache::entries)
      .def_prop_ro("bytes", &Cache::bytes)
      .def("save", &Cache::save, nb::call_guard<nb::gil_scoped_release>())
      .def("load", &Cache::load, nb::call_guard<nb::gil_scoped_release>());
  nb::class_<windlass::RoundTrip>(module, "RoundTrip")
      .def(
          "__init__",
          [](windlass::RoundTrip* self, Cache& cache, const std::vector<std::uintptr_t>& places, int rows, int most,
             int span, int patience_ms, const nb::dict& policy, std::shared_ptr<windlass::SimulatedTime> time) {
            if (places.size() != 7) throw nb::value_error("a round trip has seven places in memory.");
            const windlass::Shared shared{at<const std::int32_t>(places[0]),
                                          at<std::int64_t>(places[1]),
                                          at<float>(places[2]),
                                          at<std::uint32_t>(places[3]),
                                          at<std::uint32_t>(places[4]),
                                          at<std::uint8_t>(places[5]),
                                          at<float>(places[6]),
                                          rows,
                                          most,
                                          span};
            new (self) windlass::RoundTrip(cache, shared, patience_ms, policy_config_of(policy),
                                           windlass::Clock(std::move(time)));
          },
          nb::keep_alive<1, 2>(), nb::arg("cache"), nb::arg("places"), nb::arg("rows"), nb::arg("most"),
          nb::arg("span"), nb::arg("patience_ms"), nb::arg("policy"), nb::arg("time").none())
      .def("start", &windlass::RoundTrip::start)
      .def("serve_next", &windlass::RoundTrip::serve_next, nb::call_guard<nb::gil_scoped_release>())
      .def("completed_us", [](const windlass::RoundTrip& trip) { return us_of(trip.completed_at()); })
      .def("submit", &submit)
      .def("choose", &choose)
      .def("add_model", &windlass::RoundTrip::add_model)
      .def("model_drafts", &windlass::RoundTrip::model_drafts)
      .def("unread", &windlass::RoundTrip::unread)
      .def("model_took", &windlass::RoundTrip::model_took)
      .def("add_host_model", [](windlass::RoundTrip& trip, const OwnedDrafter& drafter, int most,
                                Token vocabulary) { trip.add_host_model(drafter.take(), most, vocabulary); })
      .def("begin_wait", &windlass::RoundTrip::begin_wait)
      .def("awaited", &windlass::RoundTrip::awaited)
      .def("counts", &trip_counts);
}
