// The schedules of a pipeline, by name (pipeline/schedule.h).
#pragma once

#include <string_view>
#include <vector>

namespace trireme {

enum class ScheduleKind {
  gpipe,          // all forwards, then all backwards (Huang et al. 2019, arXiv:1811.06965)
  one_f_one_b,    // "1f1b": a backward as soon as there is one (Narayanan et al. 2021,
                  // arXiv:2006.09503)
  interleaved,    // 1f1b over several chunks per stage (Narayanan et al. 2021, arXiv:2104.04473)
  zero_bubble,    // 1f1b with weight gradients where it would idle (ZB-H1; Qi et al. 2023,
                  // arXiv:2401.10241)
  zero_bubble_v,  // two chunks a stage, on the way up and on the way down (ZB-V; Qi et al. 2023,
                  // and Qi et al. 2024, arXiv:2405.15362)
};
/// The name on the command line: "gpipe", "1f1b", "interleaved", "zero-bubble", "zero-bubble-v".
const char* name(ScheduleKind kind);
/// Throws: Error that lists the schedules.
ScheduleKind schedule_from_name(std::string_view name);
/// In the order of ScheduleKind.
std::vector<ScheduleKind> all_schedules();

}  // namespace trireme
