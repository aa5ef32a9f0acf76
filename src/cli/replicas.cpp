#include "cli/replicas.h"

#include <fmt/format.h>

namespace comex {

Expected<void> check_replicas(const Config& config) {
  const std::size_t nodes = count_domains(config.pool.nodes);
  if (config.run.replicas == 1 || nodes >= config.run.replicas) return {};
  return Error{
      Errc::invalid,
      fmt::format("--replicas {} needs as many memory nodes that do not fail together, and the pool has {}; name "
                  "them with --pool URL,URL",
                  config.run.replicas, nodes)};
}

}  // namespace comex
