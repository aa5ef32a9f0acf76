#include "cli/replicas.h"

#include <fmt/format.h>

#include "pool/code_text.h"

namespace comex {

Expected<void> check_replicas(const Config& config) {
  const std::size_t nodes = count_domains(config.pool.nodes);
  const Code code = config.run.code;
  if (code.coded() && config.run.replicas > 1) {
    return Error{Errc::invalid,
                 fmt::format("--code {} and --replicas {} exclude each other; say --replicas 1, or --code "
                             "none",
                             to_text(code), config.run.replicas)};
  }
  if (code.coded() && !config.run.backup.empty()) {
    return Error{Errc::invalid, fmt::format("--code {} and --backup {} exclude each other; use one of them",
                                            to_text(code), config.run.backup)};
  }
  if (code.coded() && nodes < code.nodes()) {
    return Error{
        Errc::invalid,
        fmt::format("--code {} needs {} memory nodes that do not fail together, and the pool has {}; name them "
                    "with --pool URL,URL",
                    to_text(code), code.nodes(), nodes)};
  }
  if (config.run.replicas == 1 || nodes >= config.run.replicas) return {};
  return Error{
      Errc::invalid,
      fmt::format("--replicas {} needs as many memory nodes that do not fail together, and the pool has {}; name "
                  "them with --pool URL,URL",
                  config.run.replicas, nodes)};
}

}  // namespace comex
