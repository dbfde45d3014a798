// Repairs the end of a metrics file before a job appends to it: a killed job may have left half a
// line, and lines of steps that will be repeated. Bytes that are not metrics are never changed.
// Files are read backwards, as far as needed.
#pragma once

#include <string>

#include "trireme/core/dtype.h"

namespace trireme::train {

/// Bytes, the newline among them.
constexpr Index longest_metrics_line = 4096;

/// Adds the newline to a last line that lacks only that, and removes any other incomplete last
/// line. Throws: Error when the file does not end with a metrics line.
void repair_last_line(int file, const std::string& path);

/// Removes the lines after `step` in the last ascending run of steps, which is the job that
/// resumes, and with them those of evaluations behind the first of them. Returns the number of
/// lines of steps. Throws: Error when one of them is not a metrics line.
Index remove_lines_after(Index step, int file, const std::string& path);

}  // namespace trireme::train
