// What tests that run under mpirun have in hand. A test continues only as long as all ranks do: no
// ASSERT on one rank before a collective, or the others wait.
#pragma once

#include "runtime/comm/mpi/mpi_session.h"

namespace trireme {

/// The session of this program; main (mpi_main.cpp) owns it.
MpiSession& mpi_session();

}  // namespace trireme
