// Words to values: whole and real numbers, and flags, with the reason when a word is none.
#pragma once

#include <string>
#include <vector>

#include "trireme/options/command_line.h"

namespace trireme::options {

/// Throws: Error with the reason, the legal range and the nearest legal value.
Index parse_whole(const std::string& word, const Whole& legal);
double parse_real(const std::string& word, const Real& legal);
/// "1.5T" -> 1.5e12; a unit is one of K, M, B and T in either case.
double parse_quantity(const std::string& word, const Real& legal);
bool parse_flag(const std::string& word);
/// "512M" -> 536870912
Index parse_size(const std::string& word, Index least);
/// Returns the word with the capital letters of ASCII made small.
std::string lower_case(std::string word);
/// "3,2,1" -> 3, 2, 1; what a comma ends is a word, if an empty one.
std::vector<std::string> split_at_commas(const std::string& text);
/// The models that a name in another form may mean: each name and number in it begins one of
/// theirs, as in "Llama3-8B" for llama-3.1-8b; where there are none, those of the same family.
/// Directories before the name do not count.
std::vector<std::string> models_like(const std::string& word,
                                     const std::vector<std::string>& known);
/// 536870912 -> "512M": the largest unit that divides it.
std::string show_size(Index bytes);
/// 0.0003 -> "0.0003": the shortest form that reads back as the same number.
std::string show_real(double value);

}  // namespace trireme::options
