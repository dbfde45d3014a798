// Lines are formatted into arrays on the stack: the training loop allocates nothing.
#include "trireme/train/metrics.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <numbers>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/output/output_file.h"
#include "runtime/core/require_call.h"
#include "runtime/train/metrics_end.h"

namespace trireme {

using namespace train;

namespace {

/// repair_last_line() looks at what is there, line by line, and says where it is of another kind.
constexpr OutputKind any_text{outputs::metrics.what, "", "", true};

/// A line on the stack; what does not fit is an error, never cut.
class Line {
 public:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    const auto space = text_.size() - length_;
    const auto result =
        fmt::format_to_n(text_.data() + length_, space, format, std::forward<Args>(args)...);
    require(result.size <= space, "a metrics line is longer than ", text_.size(), " bytes");
    length_ += result.size;
  }
  void add_number(std::string_view name, double value) { add_number("", name, value); }
  void add_number(std::string_view prefix, std::string_view name, double value) {
    if (std::isfinite(value))
      add(",\"{}{}\":{}", prefix, name, value);
    else
      add(",\"{}{}\":null", prefix, name);
  }
  std::string_view text() const { return {text_.data(), length_}; }

 private:
  std::array<char, longest_metrics_line> text_;
  std::size_t length_ = 0;
};

/// Of a string. Braces too: lines are flat (metrics_end.cpp).
void add_escaped(Line& line, char c) {
  const bool plain =
      static_cast<unsigned char>(c) >= ' ' && c != '"' && c != '\\' && c != '{' && c != '}';
  if (plain)
    line.add("{}", c);
  else
    line.add("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
}

/// A NaN has a sign, which says nothing.
double without_sign_of_nan(double x) { return std::isnan(x) ? std::abs(x) : x; }

const char* why_skipped(const StepMetrics& m) {
  return std::isfinite(m.loss) && std::isinf(m.grad_norm)
             ? "the gradient norm overflowed, though the loss is finite"
             : "gradients are not finite";
}

struct HoursLeft {
  long long hours, minutes, seconds;
  explicit HoursLeft(double s)
      : hours(static_cast<long long>(s) / 3600),
        minutes(static_cast<long long>(s) / 60 % 60),
        seconds(static_cast<long long>(s) % 60) {}
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
  if (path.empty()) return;
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

Index MetricsFile::go_back_to(Index step) {
  return file_ < 0 ? 0 : remove_lines_after(step, file_, path_);
}

MetricsFile::~MetricsFile() {
  if (file_ >= 0) close(file_);
}

void MetricsFile::append(const StepMetrics& m) {
  if (file_ < 0) return;
  Line line;
  line.add("{{\"step\":{}", m.step);
  line.add_number("loss", m.loss);
  line.add(",\"loss_bits\":\"{:08x}\"", std::bit_cast<std::uint32_t>(static_cast<float>(m.loss)));
  line.add_number("grad_norm", m.grad_norm);
  line.add_number("lr", m.lr);
  line.add_number("step_ms", m.step_ms);
  line.add_number("tokens_per_s", static_cast<double>(m.targets) * 1e3 / m.step_ms);
  line.add(",\"skipped\":{}", m.skipped);
  if (m.loss_spike) line.add(",\"loss_spike\":true");
  for (const Metric& metric : m.metrics) line.add_number(metric.name, metric.value);
  if (m.valid_loss) line.add_number("valid_loss", *m.valid_loss);
  if (m.valid_bits_per_byte) line.add_number("valid_bits_per_byte", *m.valid_bits_per_byte);
  for (const Metric& metric : m.valid_metrics) line.add_number("valid_", metric.name, metric.value);
  line.add("}}\n");
  write(line.text());
}

std::optional<double> bits_per_byte(double loss, std::optional<double> bytes_per_target) {
  if (!bytes_per_target) return std::nullopt;
  return loss / (std::numbers::ln2 * *bytes_per_target);
}

double EvaluationMetrics::perplexity() const { return std::exp(loss); }
std::optional<double> EvaluationMetrics::bits_per_byte() const {
  return trireme::bits_per_byte(loss, bytes_per_target);
}
std::string EvaluationMetrics::describe() const {
  const std::optional<double> bits = bits_per_byte();
  return fmt::format("loss {:.7f}, perplexity {:.6g}{}", loss, perplexity(),
                     bits ? fmt::format(", {:.6g} bits per byte", *bits) : "");
}

void MetricsFile::append(const EvaluationMetrics& m) {
  if (file_ < 0) return;
  Line line;
  line.add("{{\"step\":{},\"evaluated\":\"", m.step);
  for (const char c : m.source) add_escaped(line, c);
  line.add("\",\"targets\":{}", m.targets);
  line.add_number("valid_loss", m.loss);
  line.add_number("perplexity", m.perplexity());
  if (const auto bits = m.bits_per_byte()) line.add_number("bits_per_byte", *bits);
  line.add("}}\n");
  write(line.text());
}

void MetricsFile::write(std::string_view text) {
  ssize_t written = -1;
  do written = ::write(file_, text.data(), text.size());
  while (written < 0 && errno == EINTR);
  require_call(written >= 0, "--metrics ", path_);
  require(written == static_cast<ssize_t>(text.size()), "--metrics ", path_,
          ": the file system is full");
}

std::string_view show_progress(std::span<char> line, int columns, Index step, Index steps,
                               double loss, double seconds_left) {
  const auto size = std::min(line.size(), static_cast<std::size_t>(std::max(columns - 1, 0)));
  std::array<char, 96> text;
  const HoursLeft left(seconds_left);
  const auto end =
      fmt::format_to_n(text.data(), text.size(), "{}/{}  loss {:.4f}  left {}:{:02}:{:02}", step,
                       steps, loss, left.hours, left.minutes, left.seconds);
  const auto words = std::min<std::size_t>(end.size, text.size());
  constexpr std::size_t around = 3, narrowest = 10, widest = 40;  // around: "[] "
  if (size < words + around + narrowest)
    return {line.data(), std::copy_n(text.data(), std::min(words, size), line.data())};
  const std::size_t width = std::min(size - words - around, widest);
  const auto filled = static_cast<std::size_t>(
      static_cast<double>(width) * static_cast<double>(step) / static_cast<double>(steps));
  return {line.data(), fmt::format_to_n(line.data(), size, "[{:=<{}}{: <{}}] {}", "", filled, "",
                                        width - filled, std::string_view(text.data(), words))
                           .out};
}

Reporter::Reporter(const Log& log, ReporterOptions options)
    : log_(log), options_(std::move(options)) {}

void Reporter::begin(double peak_flops) {
  peak_flops_ = peak_flops;
  log_.line("#   step       loss  grad norm         lr    step   tokens  GEMM      left");
  log_.line("#                                            [ms]    [1/s]   [%] [h:mm:ss]");
}

void Reporter::step(const StepMetrics& metrics) {
  ++interval_steps_;
  interval_ms_ += metrics.step_ms;
  interval_targets_ += metrics.targets;
  // The first step warms up caches: the estimate of the remaining time leaves it out.
  if (all_steps_ == 1) all_ms_ = 0;
  ++all_steps_;
  all_ms_ += metrics.step_ms;
  const bool last = metrics.step == options_.train_iters;
  if (metrics.step % options_.log_interval == 0 || last || metrics.skipped || metrics.valid_loss)
    print_line(metrics);
  else if (options_.columns)
    print_progress(metrics);
}

double Reporter::seconds_left(Index step) const {
  const Index timed = all_steps_ > 1 ? all_steps_ - 1 : 1;
  return all_ms_ / 1e3 / static_cast<double>(timed) *
         static_cast<double>(options_.train_iters - step);
}

void Reporter::print_line(const StepMetrics& m) {
  const double seconds = interval_ms_ / 1e3;
  const double rate = seconds > 0 ? static_cast<double>(interval_targets_) / seconds : 0;
  const double flops = static_cast<double>(interval_steps_) * options_.flops_per_step;
  const double share = peak_flops_ > 0 && seconds > 0 ? flops / seconds / peak_flops_ : 0;
  const HoursLeft left(seconds_left(m.step));
  Line line;
  line.add("{:8} {:>10.6f} {:>10.4e} {:10.4e} {:7.1f} {:8.0f} {:5.1f} {:3}:{:02}:{:02}", m.step,
           without_sign_of_nan(m.loss), without_sign_of_nan(m.grad_norm), m.lr,
           interval_ms_ / static_cast<double>(interval_steps_), rate, 100 * share, left.hours,
           left.minutes, left.seconds);
  const auto add_metrics = [&line](std::string_view before, std::span<const Metric> metrics) {
    for (const Metric& metric : metrics)
      line.add("{}{} {:.6g}", before, metric.name, without_sign_of_nan(metric.value));
  };
  add_metrics("  ", m.metrics);
  if (m.skipped) line.add("  skipped: {}", why_skipped(m));
  if (m.valid_loss) line.add("  valid {:.6f}", without_sign_of_nan(*m.valid_loss));
  add_metrics(", ", m.valid_metrics);
  log_.line(line.text());
  interval_steps_ = interval_targets_ = 0;
  interval_ms_ = 0;
}

void Reporter::print_progress(const StepMetrics& m) {
  progress_ms_ += m.step_ms;
  if (progress_ms_ < 100) return;  // ten a second are enough
  progress_ms_ = 0;
  const int columns = options_.columns();
  if (columns <= 0) return;
  std::array<char, 128> line;
  log_.progress(show_progress(line, columns, m.step, options_.train_iters,
                              without_sign_of_nan(m.loss), seconds_left(m.step)));
}

}  // namespace trireme
