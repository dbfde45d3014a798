#include "runtime/checkpoint/tiers/time_line.h"

#include <filesystem>
#include <optional>

#include "runtime/checkpoint/messages.h"

namespace trireme::checkpoint {
namespace {

const std::string& directory_of(const Context& context) {
  return context.options().checkpoint.save;
}

}  // namespace

store::TimeLine agree_on_time_line(const Context& context) {
  std::string text;
  const std::string failure = on_root(context.host(), [&] {
    if (const auto line = store::read_time_line(directory_of(context))) text = to_text(*line);
  });
  if (!failure.empty() && context.host().rank() == 0)
    context.log().warning(failure + "; no snapshot of an earlier job is used");
  text = broadcast_text(context.host(), text);
  return text.empty() ? store::TimeLine() : store::parse_time_line(text);
}

void begin_time_line(const Context& context, const std::string& job, const store::StartOfJob& start,
                     bool resumes) {
  const CheckpointOptions& options = context.options().checkpoint;
  const std::string& directory = options.save;
  const std::string failure = on_root(context.host(), [&] {
    std::optional<store::TimeLine> line;
    bool there = true;
    try {
      line = store::read_time_line(directory);
      there = line.has_value();
    } catch (const store::DamagedTimeLine&) {  // it is begun anew
    }
    if (!there && options.save_memory_interval == 0) return;
    store::TimeLine next = line.value_or(store::TimeLine());
    next.begin(job, start, resumes);
    if (!options.save_local.empty())
      next.add_disk(std::filesystem::absolute(options.save_local).lexically_normal().string());
    store::write_time_line(directory, next);
  });
  if (!failure.empty()) throw JobError("--save " + directory + ": " + failure);
}

}  // namespace trireme::checkpoint
