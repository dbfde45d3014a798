#include "runtime/cost/profile.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <tuple>

#include "trireme/core/error.h"

#include "runtime/core/json/json_record.h"
#include "runtime/cost/units.h"

namespace trireme::cost {

const char* name(Grade grade) {
  switch (grade) {
    case Grade::data_sheet:
      return "data sheet";
    case Grade::calibrated:
      return "calibrated";
    case Grade::shapes:
      return "calibrated with the model's shapes";
    case Grade::tried:
      return "tried";
  }
  return "unknown";
}

double Profile::loop_rate(std::string_view op, bool backward) const {
  for (const MeasuredLoop& known : loops)
    if (known.op == op && known.backward == backward) return known.bytes_per_s;
  return bytes_per_s;
}

// A profile as a file, and back: each member is described once, with the units that people read.

namespace {

// Quotients and products of some numbers stay finite, and sums of bytes stay an Index.
constexpr double least_number = 1e-30, most_number = 1e30;
constexpr Index most_bytes = Index{1} << 50;
constexpr int most_int = std::numeric_limits<int>::max();

constexpr DType dtypes[] = {DType::bf16, DType::f32};
constexpr Grade grades[] = {Grade::data_sheet, Grade::calibrated, Grade::shapes};
constexpr InstructionSet instruction_sets[] = {InstructionSet::portable, InstructionSet::avx2,
                                               InstructionSet::avx512};
constexpr CollectiveWork::Kind collectives[] = {CollectiveWork::Kind::all_reduce,
                                                CollectiveWork::Kind::reduce_scatter,
                                                CollectiveWork::Kind::all_gather};

const std::string grades_text = str("'", name(Grade::data_sheet), "', '", name(Grade::calibrated),
                                    "' or '", name(Grade::shapes), "'");

auto positive(auto& number) { return within(number, least_number, most_number); }
auto not_negative(auto& number) { return within(number, 0, most_number); }
auto size(auto& number) { return within(number, 1, std::numeric_limits<Index>::max()); }
auto dtype(auto& value) { return named(value, dtypes, "bf16 or f32"); }

/// A number above 0, or from 0 on, that is written in another unit.
auto in_unit(double unit, auto& number, double least = least_number) {
  return converted(
      number, [unit](double value) { return value / unit; },
      [unit, least](double written) {
        const bool fits = least <= written && written <= most_number;
        return fits ? std::optional(written * unit) : std::nullopt;
      },
      least > 0 ? "a number from 1e-30 to 1e+30" : "a number from 0 to 1e+30");
}

/// One of two words: the first where the value is false.
auto either(auto& value, const char* no, const char* yes, const char* expected) {
  return converted(
      value, [no, yes](bool is) { return std::string(is ? yes : no); },
      [no, yes](const std::string& text) -> std::optional<bool> {
        if (text != no && text != yes) return std::nullopt;
        return text == yes;
      },
      expected);
}
auto direction(auto& backward) {
  return either(backward, "forward", "backward", "forward or backward");
}

/// A link as it is written, for all collectives ("any") or for one.
struct LinkRow {
  bool across = false;
  std::string op = "any";
  int size = 2;
  Link link;
};

void describe(RecordOf<LinkRow> auto& row, auto& member) {
  member("group", either(row.across, "node", "network", "node or network"));
  member("op", row.op);
  member.optional("size", within(row.size, 2, most_int));
  member("alpha_us", in_unit(micro, row.link.latency, 0));
  member("beta_gbs", in_unit(giga, row.link.bytes_per_s));
  member.end();
}

std::vector<LinkRow> links_of(const Profile& profile) {
  std::vector<LinkRow> rows;
  if (profile.node.bytes_per_s > 0) rows.push_back({false, "any", 2, profile.node});
  if (profile.across.bytes_per_s > 0) rows.push_back({true, "any", 2, profile.across});
  for (const MeasuredCollective& each : profile.collectives)
    rows.push_back({each.across, name(each.kind), each.ranks, each.link});
  return rows;
}

void take_links(const std::vector<LinkRow>& rows, const JsonReader& file, Profile& profile) {
  for (const LinkRow& row : rows) {
    const auto* kind = std::find_if(std::begin(collectives), std::end(collectives),
                                    [&](auto one) { return row.op == name(one); });
    if (row.op == "any")
      (row.across ? profile.across : profile.node) = row.link;
    else if (kind != std::end(collectives))
      profile.collectives.push_back({*kind, row.across, row.size, row.link});
    else
      file.fail("links: op '", row.op,
                "' is not 'any', 'all_reduce', 'reduce_scatter' or 'all_gather'");
  }
  if (profile.node.bytes_per_s == 0 && profile.ranks_per_node != 1)
    file.fail("links lacks the entry with group 'node' and op 'any'");
}

/// The vector code that a CPU was measured with: plans depend on it.
void describe_cpu(auto& device, auto& member) {
  member.optional("threads", within(device.threads, 1, most_int));
  member.optional("instruction_set",
                  named(device.instruction_set, instruction_sets, "portable, avx2 or avx512"));
  member.optional("native_bf16",
                  converted(
                      device.native_bf16, [](bool is) { return is ? 1 : 0; },
                      [](int number) { return std::optional(number != 0); }, "0 or 1"));
}

/// A GPU of a known model, or its numbers.
void describe_gpu(auto& device, auto& member) {
  std::string model;
  member.when(false, "gpu", model);
  int capability = device.capability, multiprocessors = device.multiprocessors;
  Index shared_bytes = device.shared_bytes;
  if (model.empty()) {
    member("capability", within(capability, 1, most_int));
    member("sms", within(multiprocessors, 1, most_int));
    member("shared_bytes", within(shared_bytes, 1, most_bytes));
  }
  if constexpr (reads<decltype(member)>) try {
      device =
          model.empty() ? gpu_traits(capability, multiprocessors, shared_bytes) : gpu_traits(model);
    } catch (const Error& error) {
      member.fail("gpu: ", error.what());
    }
}

void describe_device(auto& profile, auto& member) {
  member("name", profile.name);
  member.when(!profile.names.empty(), "names", profile.names);
  member.when(profile.watts > 0, "watts", not_negative(profile.watts));
  bool is_cpu = profile.is_cpu();
  if constexpr (reads<decltype(member)>) is_cpu = false;
  member.when(is_cpu, "kind", either(is_cpu, "gpu", "cpu", "cpu or gpu"));
  if (is_cpu)
    describe_cpu(profile.device, member);
  else
    describe_gpu(profile.device, member);
  if constexpr (reads<decltype(member)>) profile.queues = !is_cpu;
  member("memory", within(profile.memory, 1, most_bytes));
  member("peak", nested([&](auto& peak) {
           peak("bf16", positive(profile.peak_bf16));
           peak("f32", positive(profile.peak_f32));
           peak.end();
         }));
  member.end();
}

}  // namespace

auto row_of(RecordOf<MeasuredProduct> auto& p) {
  return std::make_tuple(size(p.m), size(p.n), size(p.k), std::ref(p.kind), dtype(p.dtype),
                         in_unit(tera, p.flops_per_s));
}
auto row_of(RecordOf<MeasuredAttention> auto& a) {
  return std::make_tuple(size(a.sequence), size(a.head_dim), direction(a.backward), dtype(a.dtype),
                         in_unit(tera, a.flops_per_s));
}
auto row_of(RecordOf<MeasuredLoop> auto& l) {
  return std::make_tuple(std::ref(l.op), direction(l.backward), in_unit(giga, l.bytes_per_s));
}

void describe(RecordOf<Profile> auto& profile, auto& member) {
  member.constant("format", 1);
  member("device", nested([&](auto& device) { describe_device(profile, device); }));
  member.optional("grade", named(profile.grade, grades, grades_text.c_str()));
  member("product_model", nested([&](auto& model) {
           model("efficiency", positive(profile.efficiency));
           model("half_k", not_negative(profile.half_k));
           model.end();
         }));
  member.optional("products", profile.products);
  member("attention", nested([&](auto& attention) {
           attention("forward", positive(profile.attention_forward));
           attention("backward", positive(profile.attention_backward));
           attention.end();
         }));
  member.optional("attentions", profile.attentions);
  member("bytes_per_s", positive(profile.bytes_per_s));
  member.optional("loops", profile.loops);
  member("op_us", in_unit(micro, profile.op_seconds, 0));
  std::vector<LinkRow> links = links_of(profile);
  member.optional("links", links);
  member("port_efficiency", positive(profile.port_efficiency));
  member("collective_us", in_unit(micro, profile.collective_seconds, 0));
  member("contention", not_negative(profile.contention));
  member("context_bytes", within(profile.context_bytes, 0, most_bytes));
  member("nccl_bytes", within(profile.communicator_bytes, 0, most_bytes));
  member("spread", not_negative(profile.spread));
  member.when(profile.ranks_per_node > 0, "ranks_per_node",
              within(profile.ranks_per_node, 1, most_int));
  member.when(profile.compared_runs > 0, "compared_runs",
              within(profile.compared_runs, 0, most_int));
  member.when(!profile.cannot_run.empty(), "cannot_run", profile.cannot_run);
  if constexpr (reads<decltype(member)>) take_links(links, member, profile);
  member.end({"when", "sources"});
}

Profile parse_profile(std::string_view text, const std::string& source) {
  Json json;
  try {
    json = parse_json(text, {.text_bytes = Index{16} << 20});
  } catch (const Error& error) {
    throw Error(str(source, ": ", error.what()));
  }
  Profile profile;
  profile.grade = Grade::calibrated;  // of a file that does not say it
  JsonReader reader(json, source);
  describe(profile, reader);
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

std::string text_of(const Profile& profile, const std::string& when) {
  auto members = std::get<Json::Object>(to_json(profile).value);
  members.emplace_back("when", when);
  std::string text;
  for (const auto& [name, value] : members)
    text += (text.empty() ? "{" : ",\n ") + to_text(Json(name)) + ": " + to_text(value);
  return text + "}\n";
}

}  // namespace trireme::cost
