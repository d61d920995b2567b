// The Python face of draft models on the host's cores.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "draft_model/draft_model.h"
#include "model_drafter.h"
#include "recorded_drafter.h"
#include "simulated_model.h"

namespace windlass::bindings {

namespace {

windlass::DecoderConfig decoder_config_of(const nb::dict& values) {
  windlass::DecoderConfig config;
  take(values, "layers", config.layers);
  take(values, "hidden", config.hidden);
  take(values, "heads", config.heads);
  take(values, "kv_heads", config.kv_heads);
  take(values, "head_dim", config.head_dim);
  take(values, "intermediate", config.intermediate);
  take(values, "vocabulary", config.vocabulary);
  take(values, "norm_epsilon", config.norm_epsilon);
  take(values, "rope_frequencies", config.rope_frequencies);
  take(values, "has_qkv_bias", config.has_qkv_bias);
  take(values, "has_output_bias", config.has_output_bias);
  take(values, "has_qk_norm", config.has_qk_norm);
  take(values, "is_tied", config.is_tied);
  take(values, "window", config.window);
  take(values, "body_bits", config.body_bits);
  take(values, "head_bits", config.head_bits);
  take(values, "threads", config.threads);
  config.path = static_cast<windlass::Path>(nb::cast<int>(values["path"]));
  return config;
}

using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Weights come one by one; a complete decoder becomes a DraftModel and is empty from then on.
struct Weights {
  std::unique_ptr<windlass::Decoder> decoder;

  windlass::Decoder& get() const {
    if (!decoder) throw nb::value_error("these weights belong to a draft model already.");
    return *decoder;
  }
  void add(const std::string& name, const Bytes& data, const std::string& kind,
           const std::vector<std::int64_t>& shape) const {
    const bool is_wide = kind == "F32";
    if (!is_wide && kind != "F16" && kind != "BF16")
      throw nb::value_error(("tensor \"" + name + "\" is of type " + kind + "; F32, F16 and BF16 are known.").c_str());
    std::size_t count = is_wide ? 4 : 2;
    for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
    if (data.size() != count)
      throw nb::value_error(("tensor \"" + name + "\" has not as many bytes as its shape says.").c_str());
    const windlass::Kind number = is_wide         ? windlass::Kind::kFloat32
                                  : kind == "F16" ? windlass::Kind::kFloat16
                                                  : windlass::Kind::kBfloat16;
    const nb::gil_scoped_release free;
    get().add(name, data.data(), number, shape);
  }
};

std::vector<std::vector<Token>> drafted(windlass::DraftModel& model, const std::vector<std::string>& keys, int k,
                                        bool is_trial) {
  std::vector<std::vector<Token>> chains;
  model.draft(keys, k, is_trial, chains);
  return chains;
}

// Each call of the decoder takes one look at a simulated time.
windlass::Clock clock_of(std::shared_ptr<windlass::SimulatedTime> time, int look_us) {
  return windlass::Clock(std::move(time), std::chrono::microseconds(look_us));
}

void bind_draft_model(const nb::module_& module) {
  using windlass::DraftModel;
  nb::class_<Weights>(module, "DraftWeights")
      .def("__init__",
           [](Weights* self, const nb::dict& config) {
             new (self) Weights{std::make_unique<windlass::Decoder>(decoder_config_of(config))};
           })
      .def("add", &Weights::add)
      .def("shape", [](const Weights& weights, const std::string& name) { return weights.get().shape(name); })
      .def_prop_ro("missing", [](const Weights& weights) { return weights.get().missing(); });
  nb::class_<DraftModel>(module, "DraftModel")
      .def(
          "__init__",
          [](DraftModel* self, Weights& weights, int rows_max, std::shared_ptr<windlass::SimulatedTime> time,
             int look_us) {
            weights.get();
            const nb::gil_scoped_release free;
            new (self) DraftModel(std::move(weights.decoder), rows_max, clock_of(std::move(time), look_us));
          },
          nb::arg("weights"), nb::arg("rows_max"), nb::arg("time") = nb::none(), nb::arg("look_us") = 5)
      .def("begin", [](DraftModel& model, const std::string& key, nb::handle ids) { model.begin(key, tokens_of(ids)); })
      .def("append",
           [](DraftModel& model, const std::string& key, nb::handle ids) { model.append(key, tokens_of(ids)); })
      .def("finish", &DraftModel::finish)
      .def("ready", &DraftModel::ready)
      .def("work", &DraftModel::work, nb::call_guard<nb::gil_scoped_release>())
      .def("draft", &drafted, nb::arg("keys"), nb::arg("k"), nb::arg("is_trial") = false,
           nb::call_guard<nb::gil_scoped_release>())
      .def("draft_ms", &DraftModel::draft_ms)
      .def("logits", &DraftModel::logits, nb::call_guard<nb::gil_scoped_release>())
      .def("bytes", &DraftModel::bytes)
      .def_prop_ro("prompt_token_us", &DraftModel::prompt_token_us)
      .def_prop_ro("waiting", &DraftModel::waiting)
      .def_prop_ro("window", [](const DraftModel& model) { return model.decoder().config().window; })
      .def_prop_ro("vocabulary", [](const DraftModel& model) { return model.decoder().config().vocabulary; })
      .def_prop_ro("threads", [](const DraftModel& model) { return model.decoder().threads(); })
      .def_prop_ro("path", [](const DraftModel& model) { return std::string(model.decoder().kernels().name); });
}

void bind_draft_time(const nb::module_& module) {
  using windlass::DraftTime;
  nb::class_<DraftTime>(module, "DraftTime")
      .def("__init__", [](DraftTime* self, double one, double four, double sixteen,
                          double sixty_four) { new (self) DraftTime({one, four, sixteen, sixty_four}); })
      .def("draft_ms", &DraftTime::draft_ms)
      .def("took", &DraftTime::took)
      .def("tried", &DraftTime::tried);
}

void bind_drafters(nb::module_& module) {
  using windlass::ModelTimes;
  nb::class_<OwnedDrafter>(module, "HostDrafter")
      .def_prop_ro("is_in_use", [](const OwnedDrafter& owned) { return owned.drafter.use_count() > 1; })
      .def("draft_ms", [](const OwnedDrafter& owned, int rows, int k) { return owned.drafter->draft_ms(rows, k); });
  module.def(
      "model_drafter",
      [](Weights& weights, int rows_max, std::shared_ptr<windlass::SimulatedTime> time, int look_us) {
        weights.get();
        const nb::gil_scoped_release free;
        auto model = std::make_unique<windlass::DraftModel>(std::move(weights.decoder), rows_max,
                                                            clock_of(std::move(time), look_us));
        return OwnedDrafter{std::make_shared<windlass::ModelDrafter>(std::move(model))};
      },
      nb::arg("weights"), nb::arg("rows_max"), nb::arg("time") = nb::none(), nb::arg("look_us") = 5);
  nb::class_<ModelTimes>(module, "ModelTimes")
      .def(nb::init<double, double>(), nb::arg("token_us"), nb::arg("pass_us"))
      .def_rw("token_us", &ModelTimes::token_us)
      .def_rw("pass_us", &ModelTimes::pass_us)
      .def_ro("spent_us", &ModelTimes::spent_us);
  module.def("simulated_model",
             [](std::shared_ptr<windlass::SimulatedTime> time, std::shared_ptr<ModelTimes> times, std::size_t rows) {
               return OwnedDrafter{std::make_shared<windlass::SimulatedModel>(windlass::Clock(std::move(time)),
                                                                              std::move(times), rows)};
             });
  module.def(
      "recorded_drafter",
      [](const OwnedDrafter& inner, double acceptance, unsigned seed, const nb::list& texts) {
        auto made = std::make_shared<windlass::RecordedDrafter>(inner.take(), acceptance, seed);
        for (const nb::handle one : texts) {
          const auto pair = nb::cast<std::pair<nb::object, nb::object>>(one);
          made->record(tokens_of(pair.first), tokens_of(pair.second));
        }
        return OwnedDrafter{std::move(made)};
      },
      nb::arg("inner"), nb::arg("acceptance"), nb::arg("seed"), nb::arg("texts"));
}

}  // namespace

void bind_draft_models(nb::module_& module) {
  bind_drafters(module);
  bind_draft_time(module);
  bind_draft_model(module);
}

}  // namespace windlass::bindings
