// Point-to-point messages of one group, as a transport offers them.
#pragma once

#include <memory>

#include "trireme/core/dtype.h"

namespace trireme::comm {

/// Messages of different channels never match each other.
enum class Channel { exchange, collective };

/// Messages that complete together. Reused, so that it allocates only while it grows. Between two
/// ranks the n-th send on a channel matches the n-th receive.
class MessageBatch {
 public:
  virtual ~MessageBatch() = default;
  virtual void receive(int peer, void* data, Index bytes) = 0;
  virtual void send(int peer, const void* data, Index bytes) = 0;
  /// Advances the messages. True when all have completed; the batch is then empty. Throws: Error
  /// when one failed or had another size than its receive.
  virtual bool poll() = 0;
  /// A peer whose message has not completed, for reports; -1 when there is none.
  virtual int waits_for() const = 0;
};

class Messages {
 public:
  virtual ~Messages() = default;
  virtual std::unique_ptr<MessageBatch> make_batch(Channel channel) = 0;
};

}  // namespace trireme::comm
