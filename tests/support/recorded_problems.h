// Problems whose texts are kept for tests/record.
#pragma once

#include "trireme/options/problems.h"

#include "tests/support/record.h"

namespace trireme::test {

struct RecordedProblems : Problems {
  ~RecordedProblems() {
    for (const std::string& text : all()) record("error", text);
  }
};

}  // namespace trireme::test
