#include "launch/chaos/signs.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <random>
#include <set>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "launch/supervisor/machine/rank_watch.h"
#include "launch/supervisor/machine/run_directory.h"
#include "runtime/store/file.h"
#include "runtime/store/inspect/inspect.h"

namespace trireme::supervisor {
namespace {

namespace fs = std::filesystem;

constexpr Index most_log_bytes = Index{1} << 30;

/// "pp0 dp1 tp2" -> {"pp0", "dp1", "tp2"}
std::vector<std::string> words_of_place(const std::string& coordinates) {
  std::vector<std::string> words(1);
  for (const char c : coordinates)
    if (c == ' ')
      words.emplace_back();
    else
      words.back() += c;
  return words;
}

/// Files of a directory with their sizes, in the order of their names; empty ones are left out.
std::vector<std::pair<std::string, Index>> files_in(const std::string& directory) {
  std::vector<std::pair<std::string, Index>> files;
  for (const std::string& name : list_directory(directory))
    if (const Index bytes = size_of(directory + "/" + name); bytes > 0)
      files.emplace_back(name, bytes);
  return files;
}

/// Removes a directory when it goes out of scope.
class Removed {
 public:
  explicit Removed(std::string path) : path_(std::move(path)) {}
  ~Removed() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  Removed(const Removed&) = delete;
  Removed& operator=(const Removed&) = delete;

 private:
  std::string path_;
};

/// A run prunes while it trains: a step that vanishes meanwhile is not the newest any more.
std::string copy_newest_step(const std::string& run, const std::string& directory) {
  constexpr int tries = 3;
  for (int left = tries;; --left) {
    const std::vector<Index> steps = durable_steps(run, 1);
    require(!steps.empty(), run, ": there is no durable checkpoint to copy");
    const std::string name = step_name(steps.front());
    std::error_code error;
    fs::remove_all(directory + "/" + name, error);
    fs::copy(run + "/" + name, directory + "/" + name, error);
    if (!error) return name;
    require(left > 1, "--save-chaos ", directory, ": ", name,
            " cannot be copied: ", error.message());
  }
}

/// The number of an open file, or of a path; 0: there is none.
ino_t number_of(int file) {
  struct stat info {};
  return ::fstat(file, &info) == 0 ? info.st_ino : 0;
}
ino_t number_of(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

/// Empty: there is no such file, for an instant while it is rotated.
std::string read_or_empty(const std::string& path) {
  try {
    return read_whole(path, most_log_bytes);
  } catch (const Error&) {
    return "";
  }
}

int open_to_read(const std::string& path) { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC); }

/// The supervisor renames a log that is full to this, in place of the one before.
std::string rotated(const std::string& log) { return log + ".1"; }

}  // namespace

Replicas replicas_of(const std::vector<observe::PageState>& pages) {
  std::map<std::string, Index> stages;
  std::set<std::string> data;
  for (const observe::PageState& page : pages) {
    const std::vector<std::string> words = words_of_place(page.coordinates);
    if (words.size() != 3) return {};
    ++stages[words[0]];
    data.insert(words[1]);
  }
  Replicas found{0, std::ssize(data)};
  for (const auto& [stage, ranks] : stages) found.of_stage = std::max(found.of_stage, ranks);
  return found;
}

Index skipped_step(const std::string& metrics, Index after) {
  constexpr Index newest_bytes = Index{16} << 20;  // of what may be a long run
  const std::string text = read_last_lines(metrics, newest_bytes);
  for (std::size_t at = text.find("\"skipped\":true"); at != std::string::npos;
       at = text.find("\"skipped\":true", at + 1)) {
    const std::size_t begin = text.rfind('\n', at);
    const std::size_t line = begin == std::string::npos ? 0 : begin + 1;
    try {
      const Json json = parse_json(text.substr(line, text.find('\n', at) - line));
      const Json* number = json.find("step");
      const Index* step = number == nullptr ? nullptr : std::get_if<Index>(&number->value);
      if (step != nullptr && *step > after) return *step;
    } catch (const Error&) {  // a line that is being written
    }
  }
  return -1;
}

Index size_of(const std::string& path) {
  std::error_code missing;
  const auto bytes = fs::file_size(path, missing);
  return missing ? 0 : static_cast<Index>(bytes);
}

LogTail::LogTail(std::string log) : log_(std::move(log)), file_(open_to_read(log_)) {
  if (file_ >= 0) ::lseek(file_, 0, SEEK_END);
}

LogTail::~LogTail() {
  if (file_ >= 0) ::close(file_);
}

void LogTail::read_to_end() {
  char buffer[1 << 14];
  for (ssize_t bytes; file_ >= 0 && (bytes = ::read(file_, buffer, sizeof buffer)) > 0;)
    text_.append(buffer, static_cast<std::size_t>(bytes));
}

const std::string& LogTail::read() {
  read_to_end();
  const auto take = [&](const std::string& path) {
    const int next = open_to_read(path);
    if (next < 0) return;
    read_to_end();  // what it has gained before it was renamed
    if (file_ >= 0) ::close(file_);
    file_ = next;
    read_to_end();
  };
  if (number_of(file_) == number_of(log_)) return text_;
  if (number_of(file_) != number_of(rotated(log_))) take(rotated(log_));
  take(log_);
  return text_;
}

std::string failed_save(const std::string& text) {
  const std::size_t at = text.find(" is not saved: ");
  const std::size_t end = text.find('\n', at);
  if (at == std::string::npos || end == std::string::npos) return "";
  const std::size_t begin = text.rfind('\n', at) + 1;  // npos + 1 is 0
  return text.substr(begin, end - begin);
}

Index loaded_step(const std::string& log) { return loaded_step(log, read_or_empty); }

Index loaded_step(const std::string& log, const ReadText& read) {
  const std::string mark = "loaded step ";
  std::string text;
  // The newer one first: what is rotated between the two reads is read twice, not missed.
  for (const std::string& path : {log, rotated(log)}) text.insert(0, read(path));
  const std::size_t at = text.find(mark);
  if (at == std::string::npos) return -1;
  const char* const begin = text.data() + at + mark.size();
  Index step = -1;
  return std::from_chars(begin, text.data() + text.size(), step).ec == std::errc() ? step : -1;
}

std::vector<std::string> suspected_hosts(const std::string& folder) {
  std::vector<std::string> hosts;
  try {
    const Json verdict = parse_json(read_whole(folder + "/" + verdict_file, most_log_bytes));
    const Json* found = verdict.find("hosts");
    const auto* all = found == nullptr ? nullptr : std::get_if<Json::Array>(&found->value);
    for (const Json& each : all == nullptr ? Json::Array() : *all)
      if (const auto* host = std::get_if<std::string>(&each.value)) hosts.push_back(*host);
  } catch (const Error&) {  // there is none
  }
  return hosts;
}

CorruptCopy corrupt_a_copy(const std::string& run, const std::string& directory, Index draw) {
  std::error_code error;
  fs::create_directories(directory, error);
  require(!error && fs::is_empty(directory, error), "--save-chaos ", directory,
          " has to be a new or an empty directory");
  const Removed removed(directory);
  const std::string name = copy_newest_step(run, directory);
  const std::string copy = directory + "/" + name;
  const auto files = files_in(copy);
  require(!files.empty(), copy, " has no files");
  std::mt19937_64 random(static_cast<std::uint64_t>(draw));
  const auto& [file, bytes] = files[random() % files.size()];
  const auto place = static_cast<Index>(random() % static_cast<std::uint64_t>(bytes));
  const File opened = File::open_to_write(copy + "/" + file, Caching::buffered);
  std::byte byte{};
  require(File::open(opened.path(), Caching::buffered).read_at(place, &byte, 1) == 1, opened.path(),
          ": byte ", place, " cannot be read");
  byte ^= std::byte{1} << (random() % 8);
  opened.write_at(place, &byte, 1);
  CorruptCopy result{str(name, "/", file, ", byte ", place), ""};
  try {
    for (const std::string& problem : step_problems(copy, 1))
      if (problem.find(file) != std::string::npos) result.problem = problem;
  } catch (const Error& found) {
    result.problem = found.what();
  }
  return result;
}

}  // namespace trireme::supervisor
