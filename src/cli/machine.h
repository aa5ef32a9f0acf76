// What this machine must have for `comex run`, each thing looked at by trying it: for `comex run`, which stops at the
// first that is missing, and `comex doctor`, which shows all.
// Thread safety: one thread at a time; some checks fork.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "run/delivery.h"

namespace comex {

enum class Verdict { ok, warning, missing };  // missing: programs cannot be run

struct Finding {
  std::string check;
  Verdict verdict = Verdict::ok;
  std::string what;
  std::string remedy;  // what to do; empty if nothing
};

// What is loaded into programs, and what runs beside them.
std::string runtime_library();
std::string keeper_program();
std::string watcher_program();

// Without these nothing can be run.
std::vector<Finding> check_needs(Delivery delivery);
// The first that is missing, as one line.
std::optional<std::string> first_missing(const std::vector<Finding>& findings);

// What makes some things slower, or fail later.
std::vector<Finding> check_comforts();

}  // namespace comex
