#include "launch/supervisor/machine/progress.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <vector>

#include <sys/stat.h>

#include "trireme/core/error.h"
#include "trireme/options/command_line.h"

#include "launch/supervisor/machine/run_directory.h"
#include "runtime/core/median.h"
#include "runtime/store/steps.h"

namespace trireme::supervisor {
namespace {

constexpr Index most_read_bytes = Index{1} << 20;  // of one look

std::string bytes_at(const std::string& path, Index begin, Index end) {
  std::ifstream in(path, std::ios::binary);
  in.seekg(begin);
  std::string text(static_cast<std::size_t>(end - begin), '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  return text;
}

/// 0 where there is no such number.
double real_in(const Json& json, const char* name) {
  const Json* found = json.find(name);
  if (found != nullptr && std::holds_alternative<double>(found->value))
    return std::get<double>(found->value);
  if (found != nullptr && std::holds_alternative<Index>(found->value))
    return static_cast<double>(std::get<Index>(found->value));
  return 0;
}

/// Nothing when the line is no metrics line.
std::vector<Step> parse_line(const std::string& line) {
  try {
    const Json json = parse_json(line);
    const Json* step = json.find("step");
    const Index* number = step == nullptr ? nullptr : std::get_if<Index>(&step->value);
    if (number == nullptr || *number < 0 || *number > most_count) return {};
    Step found{*number, real_in(json, "step_ms") / 1e3};
    const Json* spike = json.find("loss_spike");
    const bool* spikes = spike == nullptr ? nullptr : std::get_if<bool>(&spike->value);
    found.spike = spikes != nullptr && *spikes;
    if (found.spike) found.loss = real_in(json, "loss");
    return {found};
  } catch (const Error&) {
    return {};
  }
}

std::vector<Step> parse_lines(const std::string& text) {
  std::vector<Step> steps;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    for (const Step& step : parse_line(text.substr(begin, end - begin))) steps.push_back(step);
  return steps;
}

/// Those of its last lines.
std::vector<Step> last_steps_in(const std::string& metrics) {
  std::error_code missing;
  const auto bytes = std::filesystem::file_size(metrics, missing);
  if (missing) return {};
  constexpr Index last_bytes = 4096;
  const auto end = static_cast<Index>(bytes);
  return parse_lines(bytes_at(metrics, std::max<Index>(0, end - last_bytes), end));
}

}  // namespace

MetricsTail::MetricsTail(std::string path) : path_(std::move(path)) { at_ = size(); }

Index MetricsTail::size() const {
  if (path_.empty()) return 0;
  std::error_code missing;
  const auto bytes = std::filesystem::file_size(path_, missing);
  return missing ? 0 : static_cast<Index>(bytes);
}

std::vector<Step> MetricsTail::read() {
  const Index end = size();
  if (end < at_) at_ = end;  // cut off
  if (end == at_) return {};
  std::string text = bytes_at(path_, at_, std::min(end, at_ + most_read_bytes));
  text.resize(text.rfind('\n') + 1);  // npos + 1 is 0
  at_ += static_cast<Index>(text.size());
  return parse_lines(text);
}

Index last_step_in(const std::string& metrics) {
  const std::vector<Step> steps = last_steps_in(metrics);
  return steps.empty() ? 0 : steps.back().number;
}

StepRate step_rate_in(const std::string& metrics) {
  const std::vector<Step> steps = last_steps_in(metrics);
  if (steps.empty()) return {};
  std::vector<double> seconds;
  for (const Step& step : steps) seconds.push_back(step.seconds);
  std::error_code missing;
  const std::chrono::duration<double> age = std::filesystem::file_time_type::clock::now() -
                                            std::filesystem::last_write_time(metrics, missing);
  return {median(std::move(seconds)), missing ? 0 : std::max(0.0, age.count())};
}

namespace {

constexpr double check_s = 2;

}  // namespace

Index DurableWatch::newest(double now) {
  struct stat info {};
  if (::stat(run_.c_str(), &info) != 0) return newest_;
  // A commit renames in the directory.
  const Index changed_ns = Index{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
  if (changed_ns == changed_ns_ && now - checked_ < check_s) return newest_;
  changed_ns_ = changed_ns;
  checked_ = now;
  const std::vector<CommittedStep> steps = list_steps(run_);
  if (!steps.empty() && steps.front().step == newest_) return newest_;
  const std::vector<Index> durable = durable_steps(run_, 1);
  newest_ = durable.empty() ? 0 : durable.front();
  return newest_;
}

}  // namespace trireme::supervisor
