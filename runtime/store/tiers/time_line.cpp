#include "runtime/store/tiers/time_line.h"

#include <algorithm>
#include <utility>

#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/json.h"
#include "runtime/store/checked_text.h"
#include "runtime/store/file.h"

namespace trireme::store {
namespace {

constexpr const char* title = "trireme time line";
constexpr int version = 1;
constexpr std::size_t most_parts = 100;  // what older jobs have left is of no use
constexpr Index most_bytes = Index{1} << 20;

/// Null: there is none of this type.
template <class T>
const T* find(const Json& json, const char* name) {
  const Json* found = json.find(name);
  return found == nullptr ? nullptr : std::get_if<T>(&found->value);
}

template <class T>
const T& required(const Json& json, const char* name) {
  const T* value = find<T>(json, name);
  require(value != nullptr, "the time line has no ", name, ", or it has another type");
  return *value;
}

}  // namespace

bool TimeLine::has(Index step, const std::string& job) const {
  return std::any_of(parts_.begin(), parts_.end(),
                     [&](const Part& part) { return part.job == job && step <= part.until; });
}

void TimeLine::begin(const std::string& job, const StartOfJob& start, bool resumes) {
  start_ = start;
  if (!resumes) parts_.clear();
  for (Part& part : parts_) part.until = std::min(part.until, start.step);
  std::erase_if(parts_, [](const Part& part) { return part.until <= 0; });
  parts_.push_back({job, no_end});
  if (parts_.size() > most_parts) parts_.erase(parts_.begin());
}

void TimeLine::add_disk(const std::string& directory) {
  if (std::find(disks_.begin(), disks_.end(), directory) == disks_.end())
    disks_.push_back(directory);
}

std::string to_text(const TimeLine& line) {
  Json::Array jobs;
  for (const TimeLine::Part& part : line.parts()) {
    Json::Object job{{"job", part.job}};
    if (part.until != TimeLine::no_end) job.emplace_back("until", part.until);
    jobs.emplace_back(std::move(job));
  }
  const StartOfJob& start = line.start();
  Json::Object all{{"what", title},      {"format", version},  {"attempt", start.attempt},
                   {"step", start.step}, {"tier", start.tier}, {"jobs", std::move(jobs)}};
  Json::Array disks;
  for (const std::string& disk : line.disks()) disks.emplace_back(disk);
  if (!disks.empty()) all.emplace_back("disks", std::move(disks));
  return with_checksum(trireme::to_text(Json(std::move(all))) + "\n");
}

TimeLine parse_time_line(const std::string& text) {
  const Json json = parse_json(checked_line(text, "the time line"));
  require(required<std::string>(json, "what") == title, "it is no time line of a trireme run");
  const Index format = required<Index>(json, "format");
  require(format == version, "the time line has format ", format,
          ", but this version of trireme reads ", version);
  TimeLine line;
  line.start_ = {required<Index>(json, "attempt"), required<Index>(json, "step"),
                 required<std::string>(json, "tier")};
  if (const std::string* disk = find<std::string>(json, "disk")) line.add_disk(*disk);
  if (const Json::Array* disks = find<Json::Array>(json, "disks"))
    for (const Json& each : *disks) {
      const auto* disk = std::get_if<std::string>(&each.value);
      require(disk != nullptr, "the time line has a directory of another type");
      line.add_disk(*disk);
    }
  for (const Json& job : required<Json::Array>(json, "jobs")) {
    const Index* until = find<Index>(job, "until");
    line.parts_.push_back(
        {required<std::string>(job, "job"), until == nullptr ? TimeLine::no_end : *until});
  }
  return line;
}

std::optional<TimeLine> read_time_line(const std::string& directory) {
  const std::string path = directory + "/" + time_line_name;
  if (::access(path.c_str(), F_OK) != 0) return std::nullopt;
  const std::string text = read_whole(path, most_bytes);
  try {
    return parse_time_line(text);
  } catch (const Error& error) {
    throw DamagedTimeLine(str(path, ": ", error.what()));
  }
}

void write_time_line(const std::string& directory, const TimeLine& line) {
  const std::string path = directory + "/" + time_line_name, fresh = path + ".new";
  remove_file(fresh);
  write_whole(fresh, to_text(line));
  rename_path(fresh, path);
  sync_directory(directory);
}

}  // namespace trireme::store
