// Words to values: whole and real numbers, and flags, with the reason when a word is none.
#pragma once

#include <string>
#include <vector>

#include "trireme/options/command_line.h"

namespace trireme::options {

/// Throws: Error with the reason, the legal range and the nearest legal value.
Index parse_whole(const std::string& word, const Whole& legal);
double parse_real(const std::string& word, const Real& legal);
bool parse_flag(const std::string& word);
/// "512M" -> 536870912
Index parse_size(const std::string& word, Index least);
/// "3,2,1" -> 3, 2, 1; what a comma ends is a word, if an empty one.
std::vector<std::string> split_at_commas(const std::string& text);
/// 536870912 -> "512M": the largest unit that divides it.
std::string show_size(Index bytes);
/// 0.0003 -> "0.0003": the shortest form that reads back as the same number.
std::string show_real(double value);

}  // namespace trireme::options
