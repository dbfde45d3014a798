// How the status pages of an attempt reach this process.
#include <filesystem>

#include "trireme/core/error.h"

#include "launch/supervisor/machine/machine.h"

namespace trireme::supervisor {

/// Begins to watch the ranks of an attempt. Returns the variables that they get for it.
Words Machine::watch_ranks(const AttemptPlan& plan) {
  const std::string pages = own_.pages();
  RankWatch::Options options{pages, paths_.attempt(plan.attempt), static_cast<int>(plan.ranks),
                             options_.hang_s};
  if (plan.hosts.empty()) {
    rank_watch_ = std::make_unique<RankWatch>(options);
    return {"TRIREME_PAGES=" + pages, "TRIREME_PAGES_TO=", "TRIREME_PAGES_AGENT="};
  }
  options.pages = own_.copies();
  options.hosts = plan.hosts;
  options.ranks_of_each =
      plan.slots > 0 ? plan.slots : plan.ranks / static_cast<Index>(plan.hosts.size());
  std::string address;
  try {
    auto collector = std::make_unique<PageCollector>(options.pages, options.ranks);
    address = observe::to_text(collector->address());
    rank_watch_ = std::make_unique<RankWatch>(options, std::move(collector));
  } catch (const Error& error) {
    rank_watch_.reset();
    log(str("warning: no status pages of other machines: ", error.what()));
  }
  // Without an address the first rank of each host still ends what earlier attempts have left.
  std::error_code unknown;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", unknown);
  return {"TRIREME_PAGES=" + pages, "TRIREME_PAGES_TO=" + address,
          "TRIREME_PAGES_AGENT=" + self.string()};
}

std::vector<SlowHost> Machine::slow_hosts() const {
  return rank_watch_ ? rank_watch_->slow_hosts() : std::vector<SlowHost>();
}

}  // namespace trireme::supervisor
