// Agree, then act (invariant 5 of docs/concepts/architecture.md): agreement between the hosts of
// all ranks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trireme/comm/host.h"

namespace trireme {

/// Collective. Runs `work` on every rank. If it throws on any rank, every rank throws an Error with
/// the message of the lowest failing rank ("rank 3: ...").
void agree(const Host& host, const std::function<void()>& work);

/// Collective. Returns the text of rank 0, on every rank.
std::string broadcast_text(const Host& host, const std::string& of_root);

/// Collective. Returns the strings of all ranks in rank order, on every rank.
std::vector<std::string> gather_strings(const Host& host, const std::string& mine);

/// Collective. The same for lists, whose lengths may differ between ranks. No string may contain
/// the character 0x1e.
std::vector<std::vector<std::string>> gather_lists(const Host& host,
                                                   const std::vector<std::string>& mine);

}  // namespace trireme
