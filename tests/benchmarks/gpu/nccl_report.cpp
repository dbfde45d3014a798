#include "tests/benchmarks/gpu/nccl_report.h"

#include <cstdio>
#include <fstream>

#include <fmt/format.h>

namespace trireme::test {
namespace {

using Json = nlohmann::ordered_json;

double gb_per_s(const Size& size, double us) {
  return static_cast<double>(size.bytes()) / us * 1e-3;
}

Json json_of(const Size& size, const std::optional<Measured>& measured) {
  if (!measured) return nullptr;
  const Times& us = measured->us;
  const double rate = gb_per_s(size, us.median);
  return {{"us", {{"median", us.median}, {"min", us.least}, {"max", us.most}}},
          {"repeats", us.repeats},
          {"host_us", us.host},
          {"algbw_gb_per_s", rate},
          {"busbw_gb_per_s", rate * bus_factor(size.operation, size.ranks)},
          {"wrong", measured->wrong}};
}

std::string text_of(const Size& size, const std::optional<Measured>& measured) {
  if (!measured)
    return fmt::format("{:>10} {:>10} {:>10} {:>8} {:>8} {:>8} {:>6}", "n/a", "", "", "", "", "",
                       "n/a");
  const Times& us = measured->us;
  const double rate = gb_per_s(size, us.median);
  return fmt::format("{:>10.2f} {:>10.2f} {:>10.2f} {:>8.2f} {:>8.2f} {:>8.2f} {:>6}", us.median,
                     us.least, us.most, us.host, rate,
                     rate * bus_factor(size.operation, size.ranks), measured->wrong);
}

std::string head(const char* a, const char* b, const char* c, const char* d, const char* e,
                 const char* f, const char* g) {
  return fmt::format("{:>10} {:>10} {:>10} {:>8} {:>8} {:>8} {:>6}", a, b, c, d, e, f, g);
}

void print_head() {
  const std::string names = head("time", "min", "max", "host", "algbw", "busbw", "#wrong");
  const std::string units = head("us", "us", "us", "us", "GB/s", "GB/s", "");
  fmt::print(stderr, "# {:>14} {:>12} {:>12} {:>5} {:>5}  {:<66}  {}\n", "", "", "", "", "",
             "out of place", "in place");
  fmt::print(stderr, "# {:>14} {:>12} {:>12} {:>5} {:>5} {} {}\n", "operation", "size", "count",
             "type", "redop", names, names);
  fmt::print(stderr, "# {:>14} {:>12} {:>12} {:>5} {:>5} {} {}\n", "", "B", "elements", "", "",
             units, units);
}

}  // namespace

NcclReport::NcclReport(int rank, Json header, std::string file)
    : rank_(rank), content_(std::move(header)), file_(std::move(file)) {
  if (rank_ != 0) return;
  fmt::print("{}\n", content_.dump());
  fmt::print(stderr, "# {}\n# {}, group {} of {} ranks\n", content_["device"].get<std::string>(),
             content_["collectives"].get<std::string>(), content_["group"].get<std::string>(),
             content_["ranks"].get<int>());
  if (content_["ranks"] == 1)
    fmt::print(stderr,
               "# one rank: no NCCL; out of place a copy on the GPU, in place an event alone\n");
  print_head();
  content_["status"] = "cut off";  // as long as this file is not replaced
  content_["rows"] = Json::array();
  write();
}

void NcclReport::row(const Size& size, const std::optional<Measured>& out_of_place,
                     const std::optional<Measured>& in_place) {
  if (rank_ != 0) return;
  const Json row = {{"operation", name(size.operation)},
                    {"bytes", size.bytes()},
                    {"count", size.count},
                    {"type", trireme::name(size.dtype)},
                    {"redop", reduction_of(size.operation)},
                    {"out_of_place", json_of(size, out_of_place)},
                    {"in_place", json_of(size, in_place)}};
  fmt::print("{}\n", row.dump());
  std::fflush(stdout);
  fmt::print(stderr, "  {:>14} {:>12} {:>12} {:>5} {:>5} {} {}\n", name(size.operation),
             size.bytes(), size.count, trireme::name(size.dtype), reduction_of(size.operation),
             text_of(size, out_of_place), text_of(size, in_place));
  content_["rows"].push_back(row);
  write();
}

void NcclReport::end(const std::string& stopped, Index wrong) {
  if (rank_ != 0) return;
  const Json last = {{"status", stopped.empty() ? "measured" : "stopped"},
                     {"stopped", stopped.empty() ? Json(nullptr) : Json(stopped)},
                     {"wrong", wrong}};
  fmt::print("{}\n", last.dump());
  std::fflush(stdout);
  fmt::print(stderr, "# {} wrong elements{}{}\n", wrong, stopped.empty() ? "" : "; stopped ",
             stopped);
  content_.update(last);
  write();
}

void NcclReport::write() const {
  if (file_.empty()) return;
  const std::string part = file_ + ".part";
  std::ofstream out(part);
  out << content_.dump(1) << '\n';
  out.close();
  require(!out.fail() && std::rename(part.c_str(), file_.c_str()) == 0, "--json ", file_,
          ": it cannot be written; name a file in a directory that exists, on a disk with space");
}

}  // namespace trireme::test
