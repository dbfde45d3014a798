#include "runtime/train/sinks/sinks.h"

#include <algorithm>

#include "runtime/core/text/exception_text.h"
#include "runtime/train/sinks/metrics_file.h"
#include "runtime/train/sinks/reporter.h"

namespace trireme::train {
namespace {

constexpr const char* metrics_name = "--metrics";

}  // namespace

void Sinks::add(std::string name, std::unique_ptr<Sink> sink, OnFailure on_failure) {
  if (log_.rank() == 0) entries_.push_back({std::move(name), std::move(sink), on_failure});
}

bool Sinks::has(std::string_view name) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const Entry& entry) { return entry.name == name; });
}

void Sinks::for_each(FunctionRef<void(Sink&)> hand_over) {
  for (std::size_t i = 0; i < entries_.size();) {
    try {
      hand_over(*entries_[i].sink);
      ++i;
    } catch (...) {
      if (entries_[i].on_failure == OnFailure::throw_on) throw;
      log_.warning(entries_[i].name +
                   " has failed and gets no more records of this job: " + current_exception_text());
      entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
}

Sinks make_sinks(const Context& context) {
  Sinks sinks(context.log());
  sinks.add("the console",
            std::make_unique<Reporter>(context.log(), context.options().log_interval));
  return sinks;
}

void open_metrics(const Context& context, Sinks& sinks, std::optional<Index> resumed_after) {
  const std::string& path = context.options().metrics;
  Index removed = 0;
  Problems problems;
  if (context.host().rank() == 0 && !path.empty() && !sinks.has(metrics_name))
    problems.collect([&] {
      auto file = std::make_unique<MetricsFile>(path);
      if (resumed_after) removed = file->go_back_to(*resumed_after);
      sinks.add(metrics_name, std::move(file), Sinks::OnFailure::throw_on);
    });
  agree_on(context.host(), problems);
  if (removed > 0)
    context.log().info(str("--metrics ", path, ": ", removed, " lines after step ", *resumed_after,
                           " are removed; these steps are done again"));
}

}  // namespace trireme::train
