// comex-checker: writes and verifies memory in every way a program can, for as long as it is told. It has no code of
// comex in it; run it under `comex run` with a budget that is a fraction of its set.
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <shared_mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "checker/checker.h"
#include "checker/shared.h"
#include "checker/worker.h"

namespace checker {

void wrong(const Settings& settings, const char* format, ...) {
  char text[1024];
  int length = std::snprintf(text, sizeof text, "comex-checker: --seed %lu --threads %zu: process %d: ", settings.seed,
                             settings.threads, getpid());
  va_list arguments;
  va_start(arguments, format);
  length += std::vsnprintf(text + length, sizeof text - static_cast<std::size_t>(length) - 1, format, arguments);
  va_end(arguments);
  text[length] = '\n';
  if (::write(2, text, static_cast<std::size_t>(length) + 1) < 0) _exit(2);
  _exit(1);
}

namespace {

[[noreturn]] void usage() {
  std::fprintf(stderr,
               "usage: comex-checker [--seed N] [--threads N] [--set MIB] [--seconds N] [--without NAME,...]\n");
  std::exit(2);
}

Settings parse(int count, char** arguments) {
  Settings settings;
  settings.seed = std::random_device{}();
  for (int i = 1; i < count; i += 2) {
    const std::string_view name = arguments[i];
    if (i + 1 == count) usage();
    if (name == "--without") {
      settings.without = arguments[i + 1];
      continue;
    }
    char* end = nullptr;
    const std::uint64_t value = std::strtoull(arguments[i + 1], &end, 10);
    if (end == arguments[i + 1] || *end != '\0') usage();
    if (name == "--seed") {
      settings.seed = value;
    } else if (name == "--threads" && value >= 1 && value <= 64) {
      settings.threads = value;
    } else if (name == "--set" && value >= 8) {
      settings.pages = (value << 20) / kPageSize;
    } else if (name == "--seconds") {
      settings.seconds = static_cast<unsigned>(value);
    } else {
      usage();
    }
  }
  return settings;
}

int run(Settings settings) {
  const auto end = std::chrono::steady_clock::now().time_since_epoch() + std::chrono::seconds(settings.seconds);
  const std::int64_t deadline = std::chrono::duration_cast<std::chrono::nanoseconds>(end).count();
  SharedArea shared(settings, settings.pages / 4);
  AlarmArea alarms(settings, settings.pages / 16);
  settings.pages -= settings.pages / 4 + settings.pages / 16;
  std::shared_mutex gate;
  std::vector<Worker*> all;
  std::vector<std::unique_ptr<Worker>> workers;
  for (std::size_t i = 0; i < settings.threads; ++i) {
    workers.push_back(std::make_unique<Worker>(settings, i, shared, gate, all));
    all.push_back(workers.back().get());
  }
  AlarmArea::start();
  std::vector<std::thread> threads;
  for (Worker* const worker : all) threads.emplace_back([worker, deadline] { worker->run(deadline); });
  for (std::thread& thread : threads) thread.join();
  std::size_t steps = 0;
  for (const Worker* const worker : all) steps += worker->steps();
  workers.clear();  // their other threads, too: a signal may be in the hands of any
  alarms.stop_and_verify();
  std::printf("comex-checker: --seed %lu --threads %zu: %zu steps, nothing wrong\n", settings.seed, settings.threads,
              steps);
  return 0;
}

}  // namespace
}  // namespace checker

int main(int count, char** arguments) {
  return checker::run(checker::parse(count, arguments));
}
