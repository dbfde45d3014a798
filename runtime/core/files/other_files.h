// What a path is that is not what was asked for: the files of other programs, by their names and by
// how they begin, each with what to do about it. One table for all readers of files.
//
// Not installed; modules above may include it.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

/// What a reader looks for.
enum class FilesOf { model, tokenizer, tokens };

/// Returns a clause about what `path` is, or what the directory has, in place of the files that a
/// reader looks for and has not found, with the remedy: "it has adapter_config.json, an adapter of
/// PEFT without its model; ...". "": nothing is known about it. `FilesOf::tokens`: `path` is the
/// PREFIX of the files.
std::string instead_of(FilesOf wanted, const std::string& path);

/// Returns what a file of this name is, with the remedy: "tekken.json, a tokenizer of Mistral,
/// ...; ...". "": nothing is known about it.
std::string what_is_named_so(FilesOf wanted, const std::string& path);

/// Returns what a file is that begins so and should be text of JSON or safetensors: "is a page of
/// HTML; ...". "": nothing is known about it.
std::string what_begins_so(std::string_view begin);

}  // namespace trireme
