// Words to values: whole and real numbers, and flags, with the reason when a word is none.
#pragma once

#include <string>

#include "trireme/train/command_line.h"

namespace trireme {

/// Throws: Error with the reason, the legal range and the nearest legal value.
Index parse_whole(const std::string& word, const Whole& legal);
double parse_real(const std::string& word, const Real& legal);
bool parse_flag(const std::string& word);
/// 0.0003 -> "0.0003": the shortest form that reads back as the same number.
std::string show_real(double value);

}  // namespace trireme
