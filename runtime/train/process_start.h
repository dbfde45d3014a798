// What a program does before it opens its first file.
#pragma once

namespace trireme {

/// Opens /dev/null in place of each standard stream that is closed. Otherwise the next file that is opened takes its number
/// and gets what is printed. Throws: Error when /dev/null cannot be opened.
void open_standard_streams();

}  // namespace trireme
