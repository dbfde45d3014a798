// Small ops with every kind of permission, view and side output: what the graph tests are made of.
#pragma once

#include "tests/graph/toy_elementwise.h"
#include "tests/graph/toy_ends.h"
#include "tests/graph/toy_matrix.h"
#include "tests/graph/toy_views.h"
