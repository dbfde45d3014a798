// Implements to_text and to_json (verify.h).
#include <cmath>

#include <fmt/format.h>

#include "launch/verify/verify.h"
#include "runtime/core/json/json.h"
#include "runtime/core/show_bytes.h"

namespace trireme::verify {
namespace {

std::string layout_text(const Report& report) {
  return report.mesh.describe() +
         (report.chunks > 1 ? fmt::format(" of {} virtual stages", report.chunks) : "");
}

std::string depth_text(const Report& report) {
  if (report.depth == 0) return "all of the model";
  return fmt::format("{} of {} blocks", report.depth, report.of_depth);
}

std::string line_of(const Check& check) {
  std::string text = fmt::format("  {:<38}", check.name);
  if (!check.text.empty())
    text += check.text;
  else
    text += fmt::format("{:.1e}, at most {:.1e} ({})", check.value, check.limit, check.worst);
  if (check.fault) text += fmt::format("; {} of {} differ", check.differing, check.compared);
  return text + (check.passed ? "\n" : "   DIFFERENT\n");
}

std::string where(const TensorFault& fault) {
  std::string text;
  if (fault.layer >= 0) text += fmt::format("layer {}", fault.layer);
  if (fault.rank >= 0)
    text += fmt::format("{}rank {} ({})", text.empty() ? "" : ", ", fault.rank, fault.coordinates);
  if (!fault.shard.empty()) {
    text += fmt::format("{}shard {}", text.empty() ? "" : ", ", fault.shard);
    if (fault.shards > 1)
      text += fmt::format(", one of {} shards of {} that differ", fault.shards_apart, fault.shards);
  }
  return text;
}

std::string text_of(const TensorFault& fault) {
  std::string text = fmt::format("first tensor that differs: {}, {}\n", fault.tensor, fault.what);
  if (const std::string place = where(fault); !place.empty()) text += "  " + place + "\n";
  text += fmt::format("  apart by {:.1e}{}{}, at most {:.1e}", fault.apart,
                      fault.unit.empty() ? "" : " of ", fault.unit, fault.limit);
  if (!fault.element.empty())
    text +=
        fmt::format("; most at {}: {} in place of {}", fault.element, fault.found, fault.expected);
  return text + "\n";
}

/// What the pattern of differences says.
std::string hint(const Report& report) {
  for (const Check& check : report.checks)
    if (check.name == loss_check && !check.passed && check.worst == "step 1")
      return "  the loss of step 1 differs as well: the fault is in the forward pass, before any "
             "gradient\n";
  return "";
}

Json number(double x) { return std::isfinite(x) ? Json(x) : Json(); }
Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json json_of(const TensorFault& fault) {
  return Json::Object{
      {"what", fault.what},
      {"tensor", fault.tensor},
      {"layer", fault.layer < 0 ? Json() : Json(fault.layer)},
      {"rank", fault.rank < 0 ? Json() : Json(fault.rank)},
      {"coordinates", text_or_null(fault.coordinates)},
      {"shard", text_or_null(fault.shard)},
      {"shards_that_differ", static_cast<Index>(fault.shards_apart)},
      {"shards", static_cast<Index>(fault.shards)},
      {"unit", text_or_null(fault.unit)},
      {"apart", number(fault.apart)},
      {"limit", number(fault.limit)},
      {"element", text_or_null(fault.element)},
      {"expected", number(static_cast<double>(fault.expected))},
      {"found", number(static_cast<double>(fault.found))},
  };
}

Json json_of(const Check& check) {
  return Json::Object{{"name", check.name},
                      {"passed", check.passed},
                      {"value", number(check.value)},
                      {"limit", number(check.limit)},
                      {"worst", text_or_null(check.worst)},
                      {"differing", check.differing},
                      {"compared", check.compared},
                      {"text", text_or_null(check.text)}};
}

}  // namespace

std::string to_text(const Report& report) {
  std::string text = fmt::format("{}: {}, against one rank; {}, {}, {}, {} steps\n", report.program,
                                 layout_text(report), depth_text(report),
                                 report.bf16 ? "bf16" : "fp32", report.device, steps);
  for (const Check& check : report.checks) text += line_of(check);
  if (const TensorFault* fault = report.fault()) text += text_of(*fault) + hint(report);
  return text + (report.proved() ? "proved: the layout computes what one rank computes\n"
                                 : "not proved: the layout computes something else\n");
}

std::string to_json(const Report& report) {
  Json::Array checks;
  for (const Check& check : report.checks) checks.push_back(json_of(check));
  const TensorFault* fault = report.fault();
  Json::Object all{{"program", report.program}, {"ranks", Index{report.mesh.size()}}};
  for (const auto& [axis, size] : report.mesh.axes()) all.emplace_back(axis.name(), Index{size});
  all.insert(all.end(), {{"virtual_stages", report.chunks},
                         {"depth", report.depth == 0 ? Json() : Json(report.depth)},
                         {"depth_of_model", report.depth == 0 ? Json() : Json(report.of_depth)},
                         {"dtype", report.bf16 ? "bf16" : "f32"},
                         {"device", text_or_null(report.device)},
                         {"steps", steps},
                         {"one_rank_bytes", report.one_rank_bytes},
                         {"proved", report.proved()},
                         {"checks", std::move(checks)},
                         {"first_difference", fault == nullptr ? Json() : json_of(*fault)}});
  return to_text(Json(std::move(all))) + "\n";
}

}  // namespace trireme::verify
