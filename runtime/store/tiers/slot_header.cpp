// Continues tiers/slots.h: the header as text, two lines like those of a manifest.
#include <limits>

#include "trireme/core/error.h"

#include "runtime/core/json.h"
#include "runtime/store/checked_text.h"
#include "runtime/store/file_layout.h"
#include "runtime/store/tiers/slots.h"

namespace trireme::store {
namespace {

constexpr const char* what = "trireme snapshot";
constexpr int format = 1;

template <class T>
const T& member(const Json& json, const char* name) {
  const Json* found = json.find(name);
  const T* value = found == nullptr ? nullptr : std::get_if<T>(&found->value);
  require(value != nullptr, "the header has no ", name, ", or it has another type");
  return *value;
}

Checksum sum_in(const std::string& text) {
  const std::optional<Checksum> sum = parse_checksum(text);
  require(sum.has_value(), "the header has \"", text, "\" in place of a checksum");
  return *sum;
}

}  // namespace

std::string to_text(const SlotHeader& header) {
  Json::Array blocks;
  for (const Checksum& block : header.blocks) blocks.emplace_back(trireme::to_text(block));
  return with_checksum(trireme::to_text(Json(Json::Object{{"what", what},
                                                          {"format", format},
                                                          {"step", header.step},
                                                          {"job", header.job},
                                                          {"rank", header.rank},
                                                          {"ranks", header.ranks},
                                                          {"form", trireme::to_text(header.form)},
                                                          {"block_bytes", block_bytes},
                                                          {"blocks", std::move(blocks)}})) +
                       "\n");
}

SlotHeader parse_slot_header(const std::string& text) {
  const Json json = parse_json(checked_line(text, "the header"));
  require(member<std::string>(json, "what") == what, "it is no header of a trireme snapshot");
  require(member<Index>(json, "format") == format, "the header has format ",
          member<Index>(json, "format"), ", but this version of trireme reads ", format);
  require(member<Index>(json, "block_bytes") == block_bytes, "the header has blocks of ",
          member<Index>(json, "block_bytes"), " bytes, but this version of trireme reads ",
          block_bytes);
  SlotHeader header;
  header.step = member<Index>(json, "step");
  header.job = member<std::string>(json, "job");
  const Index rank = member<Index>(json, "rank"), ranks = member<Index>(json, "ranks");
  require(0 <= rank && rank < ranks && ranks <= std::numeric_limits<int>::max(),
          "the header is of rank ", rank, " of ", ranks);
  header.rank = static_cast<int>(rank);
  header.ranks = static_cast<int>(ranks);
  header.form = sum_in(member<std::string>(json, "form"));
  for (const Json& block : member<Json::Array>(json, "blocks")) {
    const auto* sum = std::get_if<std::string>(&block.value);
    header.blocks.push_back(sum_in(sum == nullptr ? "" : *sum));
  }
  return header;
}

}  // namespace trireme::store
