#include "bench/paging/comex_run.h"

#include "bench/paging/program.h"
#include "cli/command_line.h"

namespace comex::bench {

namespace {

std::vector<std::string> prefix(std::uint64_t local, const Url& node) {
  return {beside_this_program("comex"), "run", "--local", std::to_string(local), "--pool", node.text()};
}

}  // namespace

Expected<ProgramResult> ComexRun::run(const std::vector<std::string>& command) {
  std::vector<std::string> line = prefix_;
  line.emplace_back("--");
  line.insert(line.end(), command.begin(), command.end());
  return measure_program(line, {.log = log_, .limit = limit_});
}

std::vector<std::string> comex_shm_command(const OwnNode& node, std::uint64_t local) {
  return prefix(local, node.shm);
}

std::vector<std::string> comex_tcp_command(const OwnNode& node, std::uint64_t local, const std::string& folder) {
  std::vector<std::string> line = prefix(local, node.tcp);
  line.insert(line.end(), {"--secret-file", OwnNodes::secret_file(folder)});
  return line;
}

std::unique_ptr<PagingSystem> comex_over_shm(const OwnNode& node, std::uint64_t local, const std::string& folder) {
  return std::make_unique<ComexRun>(kPagingShm, comex_shm_command(node, local), folder + "/run-shm.log");
}

std::unique_ptr<PagingSystem> comex_by_message(const OwnNode& node, std::uint64_t local, const std::string& folder) {
  std::vector<std::string> line = comex_shm_command(node, local);
  line.insert(line.end(), {"--faults", "message"});
  return std::make_unique<ComexRun>(kPagingMessage, std::move(line), folder + "/run-message.log");
}

std::unique_ptr<PagingSystem> comex_over_tcp(const OwnNode& node, std::uint64_t local, const std::string& folder) {
  return std::make_unique<ComexRun>(kPagingTcp, comex_tcp_command(node, local, folder), folder + "/run-tcp.log");
}

std::unique_ptr<PagingSystem> comex_over(const Url& node, std::uint64_t local, const std::string& secret_file,
                                         const std::string& folder) {
  const auto name = [&] {
    switch (node.scheme) {
      case Url::Scheme::unix_socket: return kPagingShm;
      case Url::Scheme::rdma: return kPagingRdma;
      default: return kPagingTcp;
    }
  }();
  std::vector<std::string> line = prefix(local, node);
  if (!secret_file.empty()) line.insert(line.end(), {"--secret-file", secret_file});
  return std::make_unique<ComexRun>(name, std::move(line), folder + "/run.log");
}

}  // namespace comex::bench
