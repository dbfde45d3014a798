// config.json that must be understood.
#pragma once

#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "runtime/interop/hf_config.h"

namespace trireme::test {

inline interop::HfConfig read_config(const std::string& text) {
  std::vector<std::string> problems;
  interop::HfConfig config = interop::parse_hf_config(text, problems);
  EXPECT_THAT(problems, testing::IsEmpty()) << text;
  return config;
}

}  // namespace trireme::test
