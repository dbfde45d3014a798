// Every kind of file that an option or a command of any program writes at a path of its user. A
// program replaces what it recognises as a file of the same kind, and nothing else.
//
// Not installed; modules above may include it.
#pragma once

namespace trireme {

struct OutputKind {
  const char* what;  // in messages: "a file of metrics"
  /// The first bytes of every file of the kind; a file that a crash has cut short may have fewer.
  /// Null: a file that is there is never replaced.
  const char* mark;
  /// What follows the mark, as a regular expression (ECMAScript).
  const char* then = "";
  bool is_text = false;  // which may also go into a pipe or a device
};

namespace outputs {

inline constexpr OutputKind metrics{"a file of metrics", "{\"step\":", "", true};
inline constexpr OutputKind texts{"a file of generated texts", "{\"prompt\":", "", true};
inline constexpr OutputKind profile_of_ops{"a profile of ops", "{\"device\":\"",
                                           R"([^"]*","model":)", true};
inline constexpr OutputKind preflight{"a report of trireme preflight",
                                      "{\"format\":", R"(\d+,"nodes":\[)", true};
inline constexpr OutputKind device_profile{"a profile of a device",
                                           "{\"format\": ", R"(\d+,\s+"device": \{)"};
inline constexpr OutputKind tensor_index{"an index of dumped tensors", "",
                                         R"(\S+ (-|[0-9x]+) 0\n)"};
inline constexpr OutputKind token_index{"an index of token files", "MMIDIDX"};
inline constexpr OutputKind token_sidecar{"the sidecar of token files", "{",
                                          R"(\s*"trireme_corpus"\s*:)"};
/// Numbers without a mark, beside an index of ours that says what they are.
inline constexpr OutputKind numbers{"a file of numbers", ""};
/// What has to be new: exports, and numbers without an index.
inline constexpr OutputKind new_file{"", nullptr};

}  // namespace outputs
}  // namespace trireme
