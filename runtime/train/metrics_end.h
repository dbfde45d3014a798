// The end of a metrics file that a job left behind, mended before another one appends: a killed job
// may have left half a line, and lines of steps that will be done again. Bytes that are not ours
// are never touched. Files are read backwards, as far as needed.
#pragma once

#include <string>

#include "trireme/core/dtype.h"

namespace trireme {

/// Bytes, the newline among them.
constexpr Index longest_metrics_line = 1024;

/// A last line without its newline gets it when nothing else is missing, and is removed otherwise.
/// Throws: Error when the file ends in something that is no metrics line.
void mend_last_line(int file, const std::string& path);

/// Removes the lines after `step` of the last ascending run of steps, which is the job that goes
/// on. Returns how many. Throws: Error when there is something among them that is no metrics line.
Index remove_lines_after(Index step, int file, const std::string& path);

}  // namespace trireme
