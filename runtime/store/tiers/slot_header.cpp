// Continues tiers/slots.h: the header as text, two lines like those of a manifest.
#include <limits>

#include "trireme/core/error.h"

#include "runtime/store/checked_text.h"
#include "runtime/store/file_layout.h"
#include "runtime/store/json_forms.h"
#include "runtime/store/tiers/slots.h"

namespace trireme::store {

void describe(RecordOf<SlotHeader> auto& header, auto& member) {
  constexpr int most = std::numeric_limits<int>::max();
  member.constant("what", std::string("trireme snapshot"));
  member.constant("format", 1);
  member("step", header.step);
  member("job", header.job);
  member("rank", within(header.rank, 0, most));
  member("ranks", within(header.ranks, 1, most));
  member("form", header.form);
  member.constant("block_bytes", block_bytes);
  member("blocks", header.blocks);
}

std::string to_text(const SlotHeader& header) {
  return with_checksum(trireme::to_text(to_json(header)) + "\n");
}

SlotHeader parse_slot_header(const std::string& text) {
  const Json json = parse_json(checked_line(text, "the header"));
  const SlotHeader header = from_json<SlotHeader>(json, "the header");
  require(header.rank < header.ranks, "the header is of rank ", header.rank, " of ", header.ranks);
  return header;
}

}  // namespace trireme::store
