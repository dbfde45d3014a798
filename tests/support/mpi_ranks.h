// What tests that run under mpirun have in hand. A test goes on only as long as all ranks do: no
// ASSERT on one rank before a collective, or the others wait.
#pragma once

#include "trireme/comm/mpi.h"

namespace trireme {

/// The session of this program; main (mpi_main.cpp) owns it.
MpiSession& mpi_session();

}  // namespace trireme
