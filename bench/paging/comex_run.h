// Paging by comex: the program runs under `comex run`, its pages go to a memory node on this machine, by shared memory
// or over TCP.
#pragma once

#include <cstdint>
#include <memory>

#include "bench/own_nodes.h"
#include "bench/paging/system.h"

namespace comex::bench {

class ComexRun : public PagingSystem {
 public:
  ComexRun(std::string_view name, std::vector<std::string> prefix, std::string log)
      : name_(name), prefix_(std::move(prefix)), log_(std::move(log)) {}

  [[nodiscard]] std::string_view name() const override { return name_; }
  Expected<ProgramResult> run(const std::vector<std::string>& command) override;

 private:
  std::string_view name_;
  std::vector<std::string> prefix_;  // of the command line
  std::string log_;
};

// What stands before the program and before "--". `node` is one of `folder`'s own nodes, whose secret is beside it.
std::vector<std::string> comex_shm_command(const OwnNode& node, std::uint64_t local);
std::vector<std::string> comex_tcp_command(const OwnNode& node, std::uint64_t local, const std::string& folder);

// `node` must outlive the system.
std::unique_ptr<PagingSystem> comex_over_shm(const OwnNode& node, std::uint64_t local, const std::string& folder);
// With faults as messages.
std::unique_ptr<PagingSystem> comex_by_message(const OwnNode& node, std::uint64_t local, const std::string& folder);
std::unique_ptr<PagingSystem> comex_over_tcp(const OwnNode& node, std::uint64_t local, const std::string& folder);
// A node that is not ours, named by how it is reached. No secret: an empty file name.
std::unique_ptr<PagingSystem> comex_over(const Url& node, std::uint64_t local, const std::string& secret_file,
                                         const std::string& folder);

}  // namespace comex::bench
