// A metrics line is recognised by how it begins and ends; it is one flat object.
#include "runtime/train/sinks/metrics_end.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string_view>

#include <sys/stat.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/require_call.h"

namespace trireme::train {
namespace {

constexpr std::string_view beginning = "{\"step\":";
constexpr Index chunk = 64 * 1024;

/// Bytes of a file that can be cut; -1 for a device or a pipe.
Index regular_size(int file, const std::string& path) {
  struct stat status = {};
  require_call(fstat(file, &status) == 0, "--metrics ", path);
  return S_ISREG(status.st_mode) ? static_cast<Index>(status.st_size) : -1;
}

void cut(int file, const std::string& path, Index size) {
  require_call(ftruncate(file, size) == 0, "--metrics ", path);
}

/// A line without its newline; `offset`: of its first byte in the file.
struct Line {
  std::string text;
  Index offset = 0;
};

/// The step of a whole line; none when it is not one of ours.
std::optional<Index> step_of(std::string_view line) {
  if (!line.starts_with(beginning) || !line.ends_with('}')) return {};
  const bool flat = line.find('{', 1) == line.npos && line.find('}') == line.size() - 1;
  const bool text =
      std::none_of(line.begin(), line.end(), [](char c) { return c >= 0 && c < ' '; });
  Index step = 0;
  const char* const end = line.data() + line.size();
  const auto [rest, error] = std::from_chars(line.data() + beginning.size(), end, step);
  if (!flat || !text || error != std::errc() || *rest != ',') return {};
  return step;
}

[[noreturn]] void refuse(const std::string& path, const Line& line) {
  std::string shown = line.text.substr(0, 40);
  for (char& c : shown)
    if (c < ' ' || c > '~') c = '?';
  throw Error(str("--metrics ", path, ": what is at byte ", line.offset,
                  " is not a metrics line: '", shown, line.text.size() > shown.size() ? "..." : "",
                  "'; name another file, or remove from this one what is not metrics"));
}

/// Of a job that trained nothing: its step is one that is done.
bool is_evaluation(const Line& line) { return line.text.find(",\"evaluated\":") != line.text.npos; }

Index step_of(const Line& line, const std::string& path) {
  const std::optional<Index> step = step_of(line.text);
  if (!step) refuse(path, line);
  return *step;
}

/// The lines of a file from the last to the first.
class LinesBackwards {
 public:
  LinesBackwards(int file, const std::string& path, Index size)
      : file_(file), path_(path), begin_(size) {}

  /// What follows the last newline: empty in a file of whole lines.
  Line tail() {
    const Index newline = last_newline();
    Line line{unread_.substr(static_cast<std::size_t>(newline + 1)), begin_ + newline + 1};
    unread_.resize(static_cast<std::size_t>(newline + 1));
    return line;
  }
  /// The whole line before; none at the beginning of the file.
  std::optional<Line> next() {
    if (unread_.empty() && begin_ == 0) return {};
    if (unread_.empty()) read_before();
    unread_.pop_back();  // its newline
    return tail();
  }

 private:
  /// Its place in unread_; -1: the beginning of the file is nearer.
  Index last_newline() {
    for (;;) {
      const std::size_t found = unread_.rfind('\n');
      if (found != unread_.npos) return static_cast<Index>(found);
      if (static_cast<Index>(unread_.size()) >= longest_metrics_line)
        refuse(path_, {unread_, begin_});
      if (begin_ == 0) return -1;
      read_before();
    }
  }
  void read_before() {
    const Index count = std::min(chunk, begin_);
    std::string before(static_cast<std::size_t>(count), '\0');
    const ssize_t read = pread(file_, before.data(), before.size(), begin_ - count);
    require_call(read >= 0, "--metrics ", path_);
    require(read == count, "--metrics ", path_, ": became shorter while it was read");
    unread_.insert(0, before);
    begin_ -= count;
  }

  int file_;
  const std::string& path_;
  Index begin_;         // of unread_, in the file
  std::string unread_;  // ends with a newline between two calls
};

}  // namespace

void repair_last_line(int file, const std::string& path) {
  const Index size = regular_size(file, path);
  if (size <= 0) return;
  LinesBackwards lines(file, path, size);
  const Line tail = lines.tail();
  if (const std::optional<Line> last = lines.next()) step_of(*last, path);
  if (tail.text.empty()) return;
  const std::string_view known = std::string_view(tail.text).substr(0, beginning.size());
  if (step_of(tail.text))
    require_call(write(file, "\n", 1) == 1, "--metrics ", path);
  else if (beginning.starts_with(known))
    cut(file, path, tail.offset);
  else
    refuse(path, tail);
}

Index remove_lines_after(Index step, int file, const std::string& path) {
  const Index size = regular_size(file, path);
  if (size <= 0) return 0;
  LinesBackwards lines(file, path, size);
  Index removed = 0, from = size, later = std::numeric_limits<Index>::max();
  while (const std::optional<Line> line = lines.next()) {
    const Index mine = step_of(*line, path);
    if (is_evaluation(*line)) continue;
    if (mine <= step || mine >= later) break;
    later = mine;
    from = line->offset;
    ++removed;
  }
  if (removed > 0) cut(file, path, from);
  return removed;
}

}  // namespace trireme::train
