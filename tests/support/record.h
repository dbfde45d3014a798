// record: what a test shows of the product, kept for tests/record.
#pragma once

#include <string>

namespace trireme::test {

/// Appends "KIND, TEST, TEXT" to the file that TRIREME_RECORD names, with the test that runs, on
/// one line. Does nothing where the variable is not set.
void record(const std::string& kind, const std::string& text);
/// Does so for each file below the directory: its name, and its text or, of .h5, size and hash.
void record_files(const std::string& kind, const std::string& directory);

}  // namespace trireme::test
