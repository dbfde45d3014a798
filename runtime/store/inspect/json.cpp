// Implements to_json (inspect.h).
// What inspect.h finds, for programs: the same content as the text.
#include "trireme/core/error.h"

#include "runtime/store/inspect/inspect.h"

namespace trireme {
namespace {

Json json_of(const std::optional<Index>& number) { return number ? Json(*number) : Json(); }
Json json_of(const std::optional<std::string>& text) { return text ? Json(*text) : Json(); }
Json null_if_empty(const std::string& text) { return text.empty() ? Json() : Json(text); }

template <class T>
Json json_of(const std::vector<T>& items) {
  return Json::Array(items.begin(), items.end());
}
Json json_of(const Shape& shape) { return Json::Array(shape.begin(), shape.end()); }

Json json_of(const KeyValues& facts) {
  Json::Object object;
  for (const auto& [name, value] : facts) object.emplace_back(name, value);
  return object;
}

Json json_of(const std::optional<Writer>& writer) {
  if (!writer) return {};
  return Json::Object{{"host", writer->host},
                      {"pid", writer->pid},
                      {"run", writer->run},
                      {"since", writer->since},
                      {"gone", writer->gone}};
}

Json json_of(const OpenedStep& step) {
  return Json::Object{{"path", step.directory},
                      {"step", step.manifest.step},
                      {"layout", step.manifest.layout},
                      {"run", step.manifest.run}};
}

Json json_of(const TensorDifference& t) {
  const char* const kinds[] = {"only in a", "only in b", "form", "contents"};
  Json::Object object{{"name", t.name},
                      {"difference", kinds[static_cast<int>(t.kind)]},
                      {"form_a", null_if_empty(t.form_a)},
                      {"form_b", null_if_empty(t.form_b)}};
  if (t.kind != TensorDifference::Kind::contents) return object;
  const bool has_distance = t.not_finite < t.differing;
  object.emplace_back("elements", t.elements);
  object.emplace_back("differing", t.differing);
  object.emplace_back("not_finite", t.not_finite);
  object.emplace_back("largest_distance", has_distance ? Json(t.largest_distance) : Json());
  object.emplace_back("first", Json::Object{{"index", json_of(t.first)},
                                            {"a", t.a.value},
                                            {"b", t.b.value},
                                            {"a_bits", t.a.bits},
                                            {"b_bits", t.b.bits}});
  object.emplace_back("beyond", t.beyond);
  const TensorDifference::Largest& at = t.largest;
  object.emplace_back("largest", has_distance ? Json(Json::Object{{"difference", at.difference},
                                                                  {"index", json_of(at.index)},
                                                                  {"a", at.a.value},
                                                                  {"b", at.b.value}})
                                              : Json());
  return object;
}

}  // namespace

Json to_json(const RunSummary& run, Index now) {
  Json::Array steps;
  for (const StepSummary& s : run.steps)
    steps.emplace_back(Json::Object{{"step", s.step},
                                    {"path", s.path},
                                    {"created", null_if_empty(s.created)},
                                    {"age_s", json_of(age_s(s.created, now))},
                                    {"bytes", s.bytes},
                                    {"shards", s.shards},
                                    {"layout", null_if_empty(s.layout)},
                                    {"run", null_if_empty(s.run)},
                                    {"verified", null_if_empty(s.verified)},
                                    {"problem", null_if_empty(s.problem)}});
  return Json::Object{{"directory", run.root},
                      {"bytes", run.bytes()},
                      {"steps", std::move(steps)},
                      {"unfinished", json_of(run.unfinished)},
                      {"set_aside", json_of(run.set_aside)},
                      {"cut_off", json_of(run.cut_off)},
                      {"lease", json_of(run.writer)}};
}

Json to_json(const OpenedStep& step, Index now) {
  const Manifest& m = step.manifest;
  Json::Array tensors, files;
  for (const Manifest::Tensor& t : m.tensors)
    tensors.emplace_back(Json::Object{{"name", t.name},
                                      {"dtype", name(t.dtype)},
                                      {"shape", json_of(t.global)},
                                      {"bytes", t.global.count() * size_bytes(t.dtype)},
                                      {"pieces", static_cast<Index>(t.pieces.size())}});
  Json::Object totals;
  for (const TensorTotal& total : totals_of(m))
    totals.emplace_back(total.group, Json::Object{{"tensors", total.tensors},
                                                  {"elements", total.elements},
                                                  {"bytes", total.bytes}});
  for (const Manifest::File& file : m.files)
    files.emplace_back(Json::Object{{"name", file.name},
                                    {"bytes", file.bytes},
                                    {"blocks", static_cast<Index>(file.blocks.size())}});
  return Json::Object{{"path", step.directory},
                      {"step", m.step},
                      {"run", m.run},
                      {"created", m.created},
                      {"age_s", json_of(age_s(m.created, now))},
                      {"layout", m.layout},
                      {"verified", null_if_empty(m.verified)},
                      {"tensors", std::move(tensors)},
                      {"totals", std::move(totals)},
                      {"identity", json_of(m.identity)},
                      {"positions", json_of(m.positions)},
                      {"versions", json_of(m.versions)},
                      {"options", json_of(m.options)},
                      {"files", std::move(files)}};
}

Json to_json(const VerifiedStep& verified) {
  return Json::Object{{"step", verified.step.step},
                      {"path", verified.step.path},
                      {"problems", json_of(verified.problems)}};
}

Json to_json(const StepDiff& diff, const OpenedStep& a, const OpenedStep& b) {
  Json::Array facts, tensors;
  for (const FactDifference& fact : diff.facts)
    facts.emplace_back(Json::Object{{"group", fact.group},
                                    {"name", fact.name},
                                    {"a", json_of(fact.a)},
                                    {"b", json_of(fact.b)}});
  for (const TensorDifference& tensor : diff.tensors) tensors.push_back(json_of(tensor));
  return Json::Object{{"a", json_of(a)},
                      {"b", json_of(b)},
                      {"equal", diff.equal()},
                      {"tolerance", diff.tolerance},
                      {"within_tolerance", diff.beyond() == 0},
                      {"facts", std::move(facts)},
                      {"tensors", std::move(tensors)},
                      {"tensors_compared", diff.tensors_compared},
                      {"bytes_compared", diff.bytes_compared}};
}

Json to_json(const PrunePlan& plan, Tense tense) {
  return Json::Object{{"done", tense == Tense::done},     {"deleted", json_of(plan.deleted)},
                      {"kept", json_of(plan.kept)},       {"bytes", plan.bytes},
                      {"damaged", json_of(plan.damaged)}, {"leftovers", json_of(plan.leftovers)}};
}

}  // namespace trireme
