#include "runtime/planner/profile_json.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>

#include "trireme/core/error.h"

#include "runtime/planner/json_fields.h"
#include "runtime/planner/units.h"

namespace trireme::planner {
namespace {

DType dtype_of(const Fields& fields, std::string_view name) {
  if (name == "bf16") return DType::bf16;
  if (name == "f32") return DType::f32;
  fields.fail("type '", name, "' is not 'bf16' or 'f32'");
}

Grade grade_of(const Fields& fields) {
  const std::string text = fields.text("grade", name(Grade::calibrated));
  for (const Grade grade : {Grade::data_sheet, Grade::calibrated, Grade::shapes})
    if (text == name(grade)) return grade;
  fields.fail("grade '", text, "' is not '", name(Grade::data_sheet), "', '",
              name(Grade::calibrated), "' or '", name(Grade::shapes), "'");
}

/// The vector code that a CPU was measured with: plans depend on it.
void take_cpu(const Fields& device, Profile& profile) {
  profile.queues = false;
  profile.device.threads = device.count("threads", 1, 1);
  const std::string set = device.text("instruction_set", name(InstructionSet::portable));
  for (const auto known : {InstructionSet::portable, InstructionSet::avx2, InstructionSet::avx512})
    if (set == name(known)) profile.device.instruction_set = known;
  if (set != name(profile.device.instruction_set))
    device.fail("instruction_set '", set, "' is not 'portable', 'avx2' or 'avx512'");
  profile.device.native_bf16 = device.whole("native_bf16", 0, 0) != 0;
}

void take_device(const Fields& device, Profile& profile) {
  profile.name = device.text("name");
  for (const Json& name : device.array("names")) {
    const auto* text = std::get_if<std::string>(&name.value);
    if (text == nullptr) device.fail("an entry of names is no text: ", to_text(name));
    profile.names.push_back(*text);
  }
  profile.watts = device.not_negative("watts", 0);
  const std::string kind = device.text("kind", "gpu");
  if (kind != "cpu" && kind != "gpu") device.fail("kind '", kind, "' is not 'cpu' or 'gpu'");
  if (kind == "cpu") {
    take_cpu(device, profile);
  } else if (const std::string gpu = device.text("gpu", ""); !gpu.empty()) {
    try {
      profile.device = gpu_traits(gpu);
    } catch (const Error& error) {
      device.fail(error.what());
    }
  } else {
    profile.device = gpu_traits(device.count("capability", 1), device.count("sms", 1),
                                device.bytes("shared_bytes", 1));
  }
  profile.memory = device.bytes("memory", 1);
  const Fields peak = device.object("peak");
  profile.peak_bf16 = peak.positive("bf16");
  profile.peak_f32 = peak.positive("f32");
  peak.end();
  device.end();
}

/// The cells of a row of a table.
class Cells {
 public:
  /// `form`: "[m, n, k, kind, type, TFLOP/s]".
  Cells(const Fields& root, const Json& row, const char* what, const char* form)
      : root_(root), row_(row), what_(what) {
    const auto* cells = std::get_if<Json::Array>(&row.value);
    const auto count =
        static_cast<std::size_t>(1 + std::count(form, form + std::strlen(form), ','));
    if (cells == nullptr || cells->size() != count)
      root.fail("an entry of ", what, "s is not ", form, ": ", to_text(row));
    cells_ = cells;
  }
  Index size(std::size_t i) const {
    const auto* value = std::get_if<Index>(&(*cells_)[i].value);
    if (value == nullptr || *value < 1)
      root_.fail("the sizes of a ", what_, " are at least 1: ", to_text(row_));
    return *value;
  }
  const std::string& text(std::size_t i, const char* which) const {
    const auto* text = std::get_if<std::string>(&(*cells_)[i].value);
    if (text == nullptr) root_.fail("the ", which, " of a ", what_, " is a text: ", to_text(row_));
    return *text;
  }
  bool backward(std::size_t i) const {
    const std::string& call = text(i, "direction");
    if (call != "forward" && call != "backward")
      root_.fail("the direction of a ", what_, " is 'forward' or 'backward': ", to_text(row_));
    return call == "backward";
  }
  double rate(std::size_t i) const {
    const std::optional<double> rate = number_in((*cells_)[i]);
    if (!rate || !(*rate > 0)) root_.fail("the rate of a ", what_, " is above 0: ", to_text(row_));
    if (*rate < least_number || *rate > most_number)
      root_.fail("the rate of a ", what_, " is from ", least_number, " to ", most_number, ": ",
                 to_text(row_));
    return *rate;
  }

 private:
  const Fields& root_;
  const Json& row_;
  const char* what_;
  const Json::Array* cells_ = nullptr;
};

void take_products(const Fields& root, Profile& profile) {
  for (const Json& row : root.array("products")) {
    const Cells cells(root, row, "product", "[m, n, k, kind, type, TFLOP/s]");
    profile.products.push_back({cells.size(0), cells.size(1), cells.size(2),
                                dtype_of(root, cells.text(4, "type")), cells.rate(5) * tera,
                                cells.text(3, "kind")});
  }
  for (const Json& row : root.array("attentions")) {
    const Cells cells(root, row, "attention",
                      "[sequence, size of a head, direction, type, TFLOP/s]");
    profile.attentions.push_back({cells.size(0), cells.size(1), cells.backward(2),
                                  dtype_of(root, cells.text(3, "type")), cells.rate(4) * tera});
  }
  for (const Json& row : root.array("loops")) {
    const Cells cells(root, row, "loop", "[op, direction, GB/s]");
    profile.loops.push_back({cells.text(0, "op"), cells.backward(1), cells.rate(2) * giga});
  }
}

void take_links(const Fields& root, Profile& profile) {
  for (const Json& entry : root.array("links")) {
    const Fields link(entry, root.where() + ": links");
    const std::string group = link.text("group"), op = link.text("op");
    if (group != "node" && group != "network")
      link.fail("group '", group, "' is not 'node' or 'network'");
    const Link speed{link.not_negative("alpha_us") * micro, link.positive("beta_gbs") * giga};
    const int size = link.count("size", 2, 2);
    link.end();
    using Kind = CollectiveWork::Kind;
    const Kind kinds[] = {Kind::all_reduce, Kind::reduce_scatter, Kind::all_gather};
    const auto* kind =
        std::find_if(std::begin(kinds), std::end(kinds), [&](Kind one) { return op == name(one); });
    if (op == "any")
      (group == "node" ? profile.node : profile.across) = speed;
    else if (kind != std::end(kinds))
      profile.collectives.push_back({*kind, group == "network", size, speed});
    else
      link.fail("op '", op, "' is not 'any', 'all_reduce', 'reduce_scatter' or 'all_gather'");
  }
  if (profile.node.bytes_per_s == 0 && profile.ranks_per_node != 1)
    root.fail("links lacks the entry with group 'node' and op 'any'");
}

void take_rates(const Fields& root, Profile& profile) {
  const Fields model = root.object("product_model");
  profile.efficiency = model.positive("efficiency");
  profile.half_k = model.not_negative("half_k");
  model.end();
  const Fields attention = root.object("attention");
  profile.attention_forward = attention.positive("forward");
  profile.attention_backward = attention.positive("backward");
  attention.end();
  profile.bytes_per_s = root.positive("bytes_per_s");
  profile.op_seconds = root.not_negative("op_us") * micro;
  profile.port_efficiency = root.positive("port_efficiency");
  profile.collective_seconds = root.not_negative("collective_us") * micro;
  profile.contention = root.not_negative("contention");
  profile.context_bytes = root.bytes("context_bytes", 0);
  profile.communicator_bytes = root.bytes("nccl_bytes", 0);
  profile.spread = root.not_negative("spread");
}

}  // namespace

Profile parse_profile(std::string_view text, const std::string& source) {
  Json json;
  try {
    json = parse_json(text, {.text_bytes = Index{16} << 20});
  } catch (const Error& error) {
    throw Error(str(source, ": ", error.what()));
  }
  const Fields root(json, source);
  const Index format = root.whole("format", 1);
  if (format != 1) root.fail("format ", format, " is not known: this program reads format 1");
  Profile profile;
  profile.grade = grade_of(root);
  profile.ranks_per_node = root.count("ranks_per_node", 1, 0);
  profile.compared_runs = root.count("compared_runs", 0, 0);
  profile.cannot_run = root.text("cannot_run", "");
  take_device(root.object("device"), profile);
  take_products(root, profile);
  take_links(root, profile);
  take_rates(root, profile);
  root.ignore({"when", "sources"});
  root.end();
  return profile;
}

Profile read_profile(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  require(in.good(), file.string(),
          ": cannot be read: expected a profile such as `trireme plan "
          "--calibrate` writes");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  return parse_profile(text, file.string());
}

}  // namespace trireme::planner
