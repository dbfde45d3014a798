// Text as a part of the name of a test that runs with parameters.
#pragma once

#include <string>

#include <gtest/gtest.h>

namespace trireme::test {

/// In quotes and escaped. Round brackets replace square ones: lists of CMake, which registers
/// tests by their names, cannot hold one without the other.
inline std::string in_test_name(const std::string& text) {
  std::string name = testing::PrintToString(text);
  for (char& c : name) c = c == '[' ? '(' : c == ']' ? ')' : c;
  return name;
}

}  // namespace trireme::test
