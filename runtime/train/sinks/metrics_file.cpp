#include "runtime/train/sinks/metrics_file.h"

#include <cerrno>
#include <cmath>

#include <unistd.h>

#include "runtime/core/output/output_file.h"
#include "runtime/core/require_call.h"
#include "runtime/train/sinks/fixed_line.h"
#include "runtime/train/sinks/records.h"

namespace trireme::train {
namespace {

/// repair_last_line() looks at what is there, line by line, and says where it is of another kind.
constexpr OutputKind any_text{outputs::metrics.what, "", "", true};

/// The line of a record whose members describe() visits.
class JsonLine {
 public:
  void operator()(std::string_view name, Index value) { add("", name), line_.add("{}", value); }
  void operator()(std::string_view name, bool value) { add("", name), line_.add("{}", value); }
  void operator()(std::string_view name, double value) { (*this)("", name, value); }
  void operator()(std::string_view prefix, std::string_view name, double value) {
    add(prefix, name);
    std::isfinite(value) ? line_.add("{}", value) : line_.add("null");
  }
  void operator()(std::string_view name, std::string_view text) {
    add("", name);
    line_.add("\"");
    for (const char c : text) add_escaped(c);
    line_.add("\"");
  }
  std::string_view end() {
    line_.add("}}\n");
    return line_.text();
  }

 private:
  void add(std::string_view prefix, std::string_view name) {
    line_.add("{}\"{}{}\":", line_.text().empty() ? '{' : ',', prefix, name);
  }
  /// Braces too: lines are flat (metrics_end.cpp).
  void add_escaped(char c) {
    const bool plain =
        static_cast<unsigned char>(c) >= ' ' && c != '"' && c != '\\' && c != '{' && c != '}';
    if (plain)
      line_.add("{}", c);
    else
      line_.add("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
  }

  FixedLine line_;
};

}  // namespace

void check_metric_name(const std::string& name) {
  // "evaluated" tells lines of evaluations apart (metrics_end.cpp).
  constexpr const char* taken[] = {"step",       "loss",      "loss_bits",    "grad_norm",
                                   "lr",         "step_ms",   "tokens_per_s", "skipped",
                                   "loss_spike", "evaluated", "bits_per_byte"};
  for (const char* other : taken)
    require(name != other, "metric '", name,
            "' has the name of a field of lines of --metrics: use another name");
  require(!name.starts_with("valid_"), "metric '", name,
          "': the metrics of evaluations begin with 'valid_', so a name cannot");
}

MetricsFile::MetricsFile(const std::string& path) : path_(path) {
  try {
    file_ = open_output(path, any_text);
  } catch (const Error& error) {
    throw Error(str("--metrics ", error.what()));
  }
  try {
    repair_last_line(file_, path);
  } catch (...) {
    close(file_);
    throw;
  }
}

MetricsFile::~MetricsFile() { close(file_); }

Index MetricsFile::go_back_to(Index step) { return remove_lines_after(step, file_, path_); }

template <class Record>
void MetricsFile::append(const Record& record) {
  JsonLine line;
  describe(record, line);
  write(line.end());
}
template void MetricsFile::append(const StepRecord&);
template void MetricsFile::append(const EvaluationRecord&);

void MetricsFile::write(std::string_view text) {
  ssize_t written = -1;
  do written = ::write(file_, text.data(), text.size());
  while (written < 0 && errno == EINTR);
  require_call(written >= 0, "--metrics ", path_);
  require(written == static_cast<ssize_t>(text.size()), "--metrics ", path_,
          ": the file system is full");
}

}  // namespace trireme::train
