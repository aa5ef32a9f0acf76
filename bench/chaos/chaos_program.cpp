#include "bench/chaos/chaos_program.h"

#include <signal.h>
#include <sys/wait.h>

#include "base/read_file.h"
#include "run/programs.h"

namespace comex::bench {

namespace {

constexpr int kExitStopped = 125;  // comex has stopped it: it could not go on

}  // namespace

Expected<ChaosProgram> ChaosProgram::start(const std::vector<std::string>& command, std::string log) {
  Expected<Child> process = Child::spawn(command, log);
  if (!process) return process.error();
  return ChaosProgram(*std::move(process), std::move(log));
}

std::optional<ChaosProgram::End> ChaosProgram::ended() {
  if (process_.running()) return std::nullopt;
  const int status = process_.wait_status();
  if (!WIFEXITED(status) || met_wrong_page()) return End::wrong;
  if (WEXITSTATUS(status) == 0) return End::well;
  return WEXITSTATUS(status) == kExitStopped && last_words().starts_with("comex: ") ? End::stopped : End::wrong;
}

bool ChaosProgram::met_wrong_page() const {
  return read_file(log_).value_or("").find("not what was sent there") != std::string::npos;
}

bool ChaosProgram::whole() const {
  for (const ProgramReport& program : programs_here()) {
    if (static_cast<pid_t>(program.pid) == process_.pid()) return program.well();
  }
  return false;
}

void ChaosProgram::kill() {
  if (process_.running() && process_.pid() > 0) ::kill(process_.pid(), SIGKILL);
  process_.stop();  // waits until it is gone
}

}  // namespace comex::bench
