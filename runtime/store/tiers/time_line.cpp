#include "runtime/store/tiers/time_line.h"

#include <algorithm>
#include <utility>

#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/json/json_record.h"
#include "runtime/store/checksum.h"
#include "runtime/store/file.h"

namespace trireme::store {
namespace {

constexpr std::size_t most_parts = 100;  // what older jobs have left is of no use
constexpr Index most_bytes = Index{1} << 20;

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

void describe(RecordOf<TimeLine::Part> auto& part, auto& member) {
  member("job", part.job);
  member.when(part.until != TimeLine::no_end, "until", part.until);
}

/// A friend of TimeLine, of which only a reader changes members.
struct TimeLineMembers {
  static void describe(RecordOf<TimeLine> auto& line, auto& member) {
    member.constant("what", std::string("trireme time line"));
    member.constant("format", 1);
    member("attempt", line.start_.attempt);
    member("step", line.start_.step);
    member("tier", line.start_.tier);
    member("jobs", line.parts_);
    member.when(!line.disks_.empty(), "disks", line.disks_);
  }
};

void describe(RecordOf<TimeLine> auto& line, auto& member) {
  TimeLineMembers::describe(line, member);
}

std::string to_text(const TimeLine& line) {
  return with_checksum(trireme::to_text(to_json(line)) + "\n");
}

TimeLine parse_time_line(const std::string& text) {
  const Json json = parse_json(checked_line(text, "the time line"));
  auto line = from_json<TimeLine>(json, "the time line");
  if (const Json* disk = json.find("disk"))  // written by older versions
    if (const auto* directory = std::get_if<std::string>(&disk->value)) line.add_disk(*directory);
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
