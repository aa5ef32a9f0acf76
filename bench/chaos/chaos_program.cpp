#include "bench/chaos/chaos_program.h"

#include <signal.h>
#include <sys/wait.h>

#include <fstream>
#include <iterator>
#include <string_view>

namespace comex::bench {

namespace {

constexpr int kExitStopped = 125;  // comex has stopped it: it could not go on

// Whether the last thing of these two that was said is the first.
bool last_said(std::string_view log, std::string_view trouble, std::string_view over) {
  const auto began = log.rfind(trouble);
  if (began == std::string_view::npos) return false;
  const auto ended = log.rfind(over);
  return ended == std::string_view::npos || ended < began;
}

}  // namespace

Expected<ChaosProgram> ChaosProgram::start(const std::vector<std::string>& command, std::string log) {
  Expected<Child> process = Child::spawn(command, log);
  if (!process) return process.error();
  return ChaosProgram(*std::move(process), std::move(log));
}

std::optional<ChaosProgram::End> ChaosProgram::ended() {
  if (process_.running()) return std::nullopt;
  const int status = process_.wait_status();
  if (!WIFEXITED(status)) return End::wrong;
  if (WEXITSTATUS(status) == 0) return End::well;
  return WEXITSTATUS(status) == kExitStopped ? End::stopped : End::wrong;
}

bool ChaosProgram::whole() const {
  std::ifstream file(log_);
  const std::string log{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return !last_said(log, "fewer copies than", "copies again") && !last_said(log, "does not answer", "answers again");
}

void ChaosProgram::kill() {
  if (process_.running() && process_.pid() > 0) ::kill(process_.pid(), SIGKILL);
  process_.stop();  // waits until it is gone
}

}  // namespace comex::bench
