// The time of one step of a plan on a device.
//
// Not installed; modules above may include it.
#pragma once

#include "runtime/cost/network.h"

namespace trireme::cost {

/// Seconds. What the device does runs one after the other; the host queues it meanwhile.
struct OpTime {
  double products = 0, attention = 0, memory_bound = 0, tensor_traffic = 0;
  double host = 0;

  double device() const { return products + attention + memory_bound + tensor_traffic; }
  OpTime& operator+=(const OpTime& other);
  OpTime operator*(double times) const;
};

/// By the measured product that is most alike, or by efficiency and half_k.
double product_time(const ProductWork& work, const Profile& profile);

/// `tensor`: the group of the tensor axis.
OpTime op_time(const StepWork& work, const Profile& profile, const Group& tensor,
               const Network& network);

}  // namespace trireme::cost
